"""Seconds per step of a batch, and Spark's exceptions as ours, by step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from cdc_assets.merge.failures import translated


@dataclass
class Steps:
    """Measures one batch.

    Attributes:
        where: coordinates for errors.
        seconds: by step; a step that is done twice adds up.
    """

    where: str
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure a block, and translate what Spark raises in it."""
        started = time.monotonic()
        try:
            with translated(name, self.where):
                yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - started
