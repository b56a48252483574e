"""Seconds per step of a batch, its deadline, and Spark's exceptions as ours, by step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from cdc_assets.merge.statements.deadline import Watch
from cdc_assets.merge.statements.failures import translated


@dataclass
class Steps:
    """Measures one batch, and ends a step that hangs.

    Attributes:
        where: coordinates for errors.
        watch: has the deadlines.
        seconds: by step; a step that is done twice adds up.
    """

    where: str
    watch: Watch
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str, *, publishes: bool = False) -> Iterator[None]:
        """Measure a block, and translate what Spark raises in it; see `Watch.step`."""
        started = time.monotonic()
        watched = self.watch.step(name, self.where, publishes=publishes)
        try:
            with watched, translated(name, self.where):
                yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - started
