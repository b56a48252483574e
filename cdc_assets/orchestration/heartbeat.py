"""Which runs are still alive, wherever they are: each says so in a tag, again and again.

A run's tag `TAG_ALIVE` changes every `EVERY_SECONDS` while a step of ours is at work in it. Whoever
looks needs nothing of the run's machine but Dagster's storage. Clocks are not compared, as those of
two machines differ: a run is dead if its tag has not changed for `SILENT_SECONDS` of the looker's
own time, in which it looked `LOOKS` times at least, and a step of it is said to be under way.
Between steps nothing speaks for a run (each may have a process of its own), and nothing is
concluded: such a run is left to Dagster's run monitoring and its `dagster/max_runtime`.
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
    """The steps of a run in this process, and what ends the thread that speaks for them."""

    steps: int = 0
    over: threading.Event = field(default_factory=threading.Event)


@contextmanager
def beating(
    instance: dg.DagsterInstance, run_id: str, every: float = EVERY_SECONDS
) -> Iterator[None]:
    """Show that a run lives, for as long as a step is at work."""
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
            # A storage that is away for a while: the next beat is soon, and one is not missed.
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
    """Remembers what it heard of runs. Who forgets only needs longer.

    Attributes:
        silent_seconds: how long a run may be silent.
        clock: monotonic, in seconds; stands still while this machine does.
    """

    silent_seconds: float = SILENT_SECONDS
    clock: Callable[[], float] = time.monotonic
    _heard: dict[str, _Heard] = field(default_factory=dict[str, _Heard])

    def silent(self, instance: dg.DagsterInstance, runs: Iterable[dg.DagsterRun]) -> list[str]:
        """Look at the unfinished runs; returns those that died, by id."""
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
    """Whether a step is said to be under way, by the run's events."""
    under_way = StepEventStatus.IN_PROGRESS
    return any(each.status is under_way for each in instance.get_run_step_stats(run_id))
