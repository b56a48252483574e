"""Limits how fast a source is read, and measures where the time goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Pace:
    """A limit on rows per second.

    Attributes:
        rows_per_second: None for no limit.
        pause: waits for a number of seconds.
        seconds: time spent by step.
    """

    rows_per_second: float | None = None
    pause: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measures a step."""
        begins = self.clock()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self.clock() - begins

    def rest(self, rows: int, begun: float) -> None:
        """Waits after a statement that was begun at a time and has read a number of rows."""
        if self.rows_per_second is None:
            return
        left = rows / self.rows_per_second - (self.clock() - begun)
        if left > 0:
            with self.step("rest"):
                self.pause(left)
