"""Detects dead runs on any machine by heartbeats in a tag.

A run's tag `TAG_ALIVE` changes every `EVERY_SECONDS` while a step of ours works in it. An observer
needs only Dagster's storage, nothing of the run's machine. Clocks of machines are not compared, as
they differ: a run is dead if its tag has not changed for `SILENT_SECONDS` of the observer's own
time, in which it looked at least `LOOKS` times, and Dagster's events say that a step of it is in
progress. Between steps there is no heartbeat (each step may have a process of its own), and no
conclusion: such a run is left to Dagster's run monitoring and its `dagster/max_runtime`.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import dagster as dg
from dagster._core.execution.stats import StepEventStatus

from cdc_assets.orchestration.keys import TAG_ALIVE

EVERY_SECONDS: Final = 30.0
SILENT_SECONDS: Final = 180.0
LOOKS: Final = 6

_beating: dict[str, _Beating] = {}
_guard = threading.Lock()


@dataclass
class _Beating:
    """The number of a run's steps in this process, and the event that ends their heartbeat."""

    steps: int = 0
    over: threading.Event = field(default_factory=threading.Event)


@contextmanager
def beating(
    instance: dg.DagsterInstance, run_id: str, every: float = EVERY_SECONDS
) -> Iterator[None]:
    """Sends heartbeats of a run as long as a step works."""
    with _guard:  # steps of a run begin and end at the same time
        mine = _beating.get(run_id)
        if mine is None:
            mine = _beating[run_id] = _Beating()
            beats = threading.Thread(
                target=_beat, args=(instance, run_id, mine.over, every), name="alive", daemon=True
            )
            beats.start()
        mine.steps += 1
    try:
        yield
    finally:
        with _guard:
            mine.steps -= 1
            if mine.steps == 0:
                del _beating[run_id]
                mine.over.set()


def _beat(instance: dg.DagsterInstance, run_id: str, over: threading.Event, every: float) -> None:
    for count in itertools.count(1):
        try:
            instance.add_run_tags(run_id, {TAG_ALIVE: f"{time.time():.0f} {count}"})
        except Exception:
            # The storage may not answer for a while: the next beat is soon, and one may be lost.
            if over.is_set():
                return
        if over.wait(every):
            return


@dataclass
class _Heard:
    beat: str
    at: float
    looks: int = 1


@dataclass
class Listener:
    """The heartbeats heard so far. Losing them only delays the detection.

    Attributes:
        silent_seconds: how long a run may be silent.
        clock: monotonic, in seconds; does not advance while this machine is suspended.
    """

    silent_seconds: float = SILENT_SECONDS
    clock: Callable[[], float] = time.monotonic
    _heard: dict[str, _Heard] = field(default_factory=dict[str, _Heard])

    def silent(self, instance: dg.DagsterInstance, runs: Iterable[dg.DagsterRun]) -> list[str]:
        """Looks at the unfinished runs, and returns the ids of dead ones."""
        now, heard, found = self.clock(), dict[str, _Heard](), list[str]()
        for run in runs:
            beat = run.tags.get(TAG_ALIVE)
            if beat is None or run.status is not dg.DagsterRunStatus.STARTED:
                continue
            known = self._heard.get(run.run_id)
            if known is None or known.beat != beat:
                heard[run.run_id] = _Heard(beat, now)
                continue
            known.looks += 1
            heard[run.run_id] = known
            is_silent = now - known.at >= self.silent_seconds and known.looks >= LOOKS
            if is_silent and _is_at_work(instance, run.run_id):
                found.append(run.run_id)
        self._heard = heard
        return found


def _is_at_work(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Returns whether a step is in progress, by the run's events."""
    under_way = StepEventStatus.IN_PROGRESS
    return any(each.status is under_way for each in instance.get_run_step_stats(run_id))
