"""Measures a batch's steps, ends them at their deadline, and translates Spark's exceptions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from cdc_assets.merge.statements.deadline import Watch
from cdc_assets.merge.statements.failures import translated


@dataclass
class Steps:
    """The steps of one batch, measured; a step that hangs is ended.

    Attributes:
        where: coordinates for errors.
        watch: the deadlines.
        seconds: durations by step; a repeated step adds up.
        cases: corner cases for which records are read once more, in words.
    """

    where: str
    watch: Watch
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    cases: list[str] = field(default_factory=list[str])

    def note(self, case: str) -> None:
        """Notes a corner case for which the batch's records are read once more."""
        if case not in self.cases:
            self.cases.append(case)

    @contextmanager
    def step(self, name: str, *, publishes: bool = False) -> Iterator[None]:
        """Measures a block, and translates Spark's exceptions in it; see `Watch.step`."""
        started = time.monotonic()
        watched = self.watch.step(name, self.where, publishes=publishes)
        try:
            with watched, translated(name, self.where):
                yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - started
