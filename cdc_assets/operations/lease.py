"""Asks the writers that merge into a table to wait for a moment, so that another one publishes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from cdc_assets import desired
from cdc_assets.changes.names import TableName
from cdc_assets.desired import DirectiveNote
from cdc_assets.errors import UnreachableError
from cdc_assets.operate import rebuilds
from cdc_assets.operate.services import Services

YIELDED: Final = timedelta(seconds=60)
"""How long mergers wait at most after the last request."""


@dataclass
class Lease:
    """A lease on publishing, requested by a directive that expires by itself if this process dies.

    Nothing depends on the request being obeyed: a writer that others get ahead of meets a conflict,
    or sees that they did, and tries again.

    Attributes:
        services: store the directive.
        table: the table.
        run_id: the author of the request.
    """

    services: Services
    table: TableName
    run_id: str
    is_requested: bool = False

    def ask(self) -> None:
        """Requests `YIELDED` from now on.

        Raises:
            UnreachableError: if the directive cannot be stored.
        """
        now = self.services.clock()
        wanted = DirectiveNote(now, self.run_id, until=now + YIELDED)
        self.services.desired.put(self.table, desired.Directive.YIELDS, wanted)
        self.is_requested = True

    def clear(self) -> None:
        """Lets mergers continue, unless somebody else has asked since.

        Raises:
            UnreachableError: if the directive cannot be withdrawn.
        """
        if self.is_requested:
            wanted = self.services.desired.of(self.table).yields
            if wanted is not None and wanted.by == self.run_id:
                self.services.desired.remove(self.table, desired.Directive.YIELDS)
            self.is_requested = False

    def require_free(self) -> None:
        """Requires that no rebuild of the table is under way, which would replace all of the table.

        Asked right before a batch is published, this leaves no gap: a rebuild's directive is stored
        before branches of others are dropped and ``main`` is moved, and removed after the swap.

        Raises:
            TerminalError: if it is.
        """
        rebuilds.require_none(self.services, self.table, "run the same command again")

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Requests the lease, and renews the request until the block ends.

        Raises:
            UnreachableError: if the request cannot be stored, or withdrawn in the end.
        """
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(YIELDED.total_seconds() / 3):
                with suppress(UnreachableError):  # it is asked again before the last one is over
                    self.ask()

        renewing = threading.Thread(target=renew, name=f"yields {self.table}", daemon=True)
        self.ask()
        renewing.start()
        try:
            yield
        finally:
            ended.set()
            renewing.join()
            self.clear()
