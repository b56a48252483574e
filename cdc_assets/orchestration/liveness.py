"""Detects dead runs: by locks on files on this machine, by heartbeats in a tag on any machine.

If everything is killed at once (a reboot, Ctrl-C in the middle of a run), Dagster's records say
STARTED for ever: the default launcher cannot ask a process that nobody remembers. A table would
then be skipped as busy until somebody cleans up.

- *Locks.* A run holds a lock on a small file for as long as its process lives; the kernel releases
  the lock whatever happens. A started run whose file exists and is not locked is dead. A command,
  whose runs live in its own process, holds one lock for all of them, and their tags name it: once
  it is released they are dead, whatever their status. Runs on other machines have no file here, nor
  has a run whose steps have processes of their own.
- *Heartbeats.* A run's tag `TAG_ALIVE` changes every `EVERY_SECONDS` while a step of ours works in
  it. An observer needs only Dagster's storage, nothing of the run's machine. Clocks of machines are
  not compared, as they differ: a run is dead if its tag has not changed for `SILENT_SECONDS` of the
  observer's own time, in which it looked at least `LOOKS` times, and Dagster's events say that a
  step that the tag names is in progress. Between our steps there is no heartbeat (each step may
  have a process of its own, and others be a project's), and no conclusion: such a run is left to
  Dagster's run monitoring and its `dagster/max_runtime`.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.orchestration.dagster_internals import StepEventStatus
from cdc_assets.orchestration.keys import TAG_ALIVE, TAG_PROCESS, UNFINISHED

EVERY_SECONDS: Final = 30.0
SILENT_SECONDS: Final = 180.0
LOOKS: Final = 6

_beating: dict[str, _Beating] = {}
_beating_guard = threading.Lock()

Context = dg.OpExecutionContext | dg.AssetExecutionContext | dg.AssetCheckExecutionContext

_held: dict[str, int] = {}
_holding = threading.Lock()


@contextmanager
def at_work(context: Context, config: ReplicationConfig, *, is_whole_run: bool) -> Iterator[None]:
    """Marks a run as alive while one of its steps works here.

    Args:
        context: the step's.
        config: the replication's configuration.
        is_whole_run: whether all steps of the run work in this process.
    """
    if is_whole_run:
        hold(config.home, context.run.run_id)
    step = context.get_step_execution_context().step.key
    with beating(context.instance, context.run.run_id, step):
        yield


def hold(home: Path, name: str) -> None:
    """Marks a run, or a command, as alive until this process ends.

    Does nothing the second time, nor if no file can be written: nothing depends on one.
    """
    with _holding:  # steps of a run begin at the same time
        if name in _held:
            return
        path = _file(home, name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        _held[name] = handle


def fail_dead_runs(
    instance: dg.DagsterInstance, home: Path, listener: Listener | None = None
) -> list[str]:
    """Marks started runs whose process is gone as failed, and returns their ids.

    Nothing is lost by it: the publishes of such a run are in the lake, with their offsets. Nor is
    anything lost if a run still lives: of two writers one publishes.

    Args:
        instance: the instance that has the runs.
        home: the folder of the lock files of runs on this machine.
        listener: listens to the heartbeats of the others; None to ignore these.
    """
    unfinished = instance.get_runs(dg.RunsFilter(statuses=list(UNFINISHED)))
    dead = {run.run_id: None for run in unfinished if _has_died(home, run)}
    dead |= dict.fromkeys(listener.silent(instance, unfinished) if listener else ())
    return [run_id for run_id in dead if _fail(instance, run_id)]


def alive_elsewhere(home: Path) -> tuple[str, ...]:
    """Returns the runs and commands that live in other processes of this machine.

    Needs no instance: the caller may not know which instance has the runs. Runs whose steps have
    processes of their own, and runs on other machines, have no file here.
    """
    names = (path.stem for path in sorted(_folder(home).glob("*.lock")) if not _is_dead(path))
    return tuple(name for name in names if name not in _held)


def tidy(home: Path, alive: Iterable[str]) -> None:
    """Removes unlocked files of all runs that are not in ``alive``."""
    keep = set(alive)
    for path in _folder(home).glob("*.lock"):
        if path.stem not in keep and _is_dead(path):
            path.unlink(missing_ok=True)


# ── locks ────────────────────────────────────────────────────────────────────────────────


def _fail(instance: dg.DagsterInstance, run_id: str) -> bool:
    run = instance.get_run_by_id(run_id)
    if run is None or run.is_finished:
        return False
    instance.report_run_failed(
        run, "The run's process is gone; the next run continues from the lake"
    )
    return True


def _has_died(home: Path, run: dg.DagsterRun) -> bool:
    if command := run.tags.get(TAG_PROCESS):
        return _is_dead(_file(home, command))
    is_started = run.status is dg.DagsterRunStatus.STARTED
    return is_started and _is_dead(_file(home, run.run_id))


def _is_dead(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def _folder(home: Path) -> Path:
    return home / "run" / "dagster"


def _file(home: Path, name: str) -> Path:
    return _folder(home) / f"{name}.lock"


# ── heartbeats ───────────────────────────────────────────────────────────────────────────


@dataclass
class _Beating:
    """A run's steps in this process, and the event that ends their heartbeat."""

    steps: list[str] = field(default_factory=list[str])
    over: threading.Event = field(default_factory=threading.Event)


@contextmanager
def beating(
    instance: dg.DagsterInstance, run_id: str, step: str, every: float = EVERY_SECONDS
) -> Iterator[None]:
    """Sends heartbeats of a run as long as a step works."""
    with _beating_guard:  # steps of a run begin and end at the same time
        mine = _beating.get(run_id)
        if mine is None:
            mine = _beating[run_id] = _Beating()
            beats = threading.Thread(
                target=_beat, args=(instance, run_id, mine, every), name="alive", daemon=True
            )
            beats.start()
        mine.steps.append(step)
    try:
        yield
    finally:
        with _beating_guard:
            mine.steps.remove(step)
            if not mine.steps:
                del _beating[run_id]
                mine.over.set()


def _beat(instance: dg.DagsterInstance, run_id: str, mine: _Beating, every: float) -> None:
    for count in itertools.count(1):
        with _beating_guard:
            step = mine.steps[-1] if mine.steps else ""
        try:
            instance.add_run_tags(run_id, {TAG_ALIVE: f"{time.time():.0f} {count} {step}"})
        except Exception:
            # The storage may not answer for a while: the next beat is soon, and one may be lost.
            if mine.over.is_set():
                return
        if mine.over.wait(every):
            return


@dataclass
class _Heartbeat:
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
    _heard: dict[str, _Heartbeat] = field(default_factory=dict[str, _Heartbeat])

    def silent(self, instance: dg.DagsterInstance, runs: Iterable[dg.DagsterRun]) -> list[str]:
        """Looks at the unfinished runs, and returns the ids of dead ones."""
        now, heard, found = self.clock(), dict[str, _Heartbeat](), list[str]()
        for run in runs:
            beat = run.tags.get(TAG_ALIVE)
            if beat is None or run.status is not dg.DagsterRunStatus.STARTED:
                continue
            known = self._heard.get(run.run_id)
            if known is None or known.beat != beat:
                heard[run.run_id] = _Heartbeat(beat, now)
                continue
            known.looks += 1
            heard[run.run_id] = known
            is_silent = now - known.at >= self.silent_seconds and known.looks >= LOOKS
            if is_silent and _is_at_work(instance, run.run_id, beat):
                found.append(run.run_id)
        self._heard = heard
        return found


def _is_at_work(instance: dg.DagsterInstance, run_id: str, beat: str) -> bool:
    """Returns whether the step that a heartbeat names is in progress, by the run's events."""
    step = beat.rpartition(" ")[2]
    seen = instance.get_run_step_stats(run_id, [step])
    return any(each.status is StepEventStatus.IN_PROGRESS for each in seen)
