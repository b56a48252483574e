"""Parts of the local stack that are killed."""

from __future__ import annotations

import os
import signal
from typing import Protocol

from cdc_assets_devstack.process import RunningProcess

from cdc_assets_tests.waiting import until


class Part(Protocol):
    """Whatever the stack starts."""

    @property
    def running(self) -> RunningProcess | None: ...


def kill_part(part: Part) -> None:
    """With SIGKILL; it is dead when this returns."""
    running = part.running
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)
    until(lambda: not running.alive, f"{running} is dead")
