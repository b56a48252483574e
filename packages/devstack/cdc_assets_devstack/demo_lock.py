"""Allows one demo at a time in one folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from datetime import UTC, datetime

from cdc_assets.errors import TerminalError
from cdc_assets_devstack.layout import StackLayout


@contextlib.contextmanager
def only_demo(layout: StackLayout, url: str) -> Iterator[None]:
    """Makes this the only demo of a home; the system releases the lock when the process ends.

    Raises:
        TerminalError: another demo runs; names its process, its start and its address.
    """
    path = layout.runs / "demo.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            msg = f"a demo runs here already: {file.read().strip()}"
            raise TerminalError(
                msg,
                where=f"home={layout.home}",
                remedy="use that one, or end it with Ctrl-C in its terminal; a second demo needs a "
                "configuration with another `home` and other `stack.ports`",
                page="demo-running",
            ) from None
        file.truncate(0)
        since = datetime.now(UTC).astimezone().isoformat(" ", "seconds")
        file.write(f"{url}, started for {layout.owner or 'no file'} at {since}, pid {os.getpid()}")
        file.flush()
        yield
