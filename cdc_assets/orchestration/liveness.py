"""Detects dead runs by locks on files.

If everything is killed at once (a reboot, Ctrl-C in the middle of a run), Dagster's records
say STARTED for ever: the default launcher cannot ask a process that nobody remembers. A
table would then be skipped as busy until somebody cleans up. So a run holds a lock on a
small file for as long as its process lives; the kernel releases it whatever happens. A
started run whose file exists and is not locked is dead. A command, whose runs live in its own
process, holds one lock for all of them, and names it in their tags: once it is released they are
dead, whatever their status. Runs on other machines have no file here, nor has a run whose steps
have processes of their own: these send heartbeats, and are found within minutes
(`cdc_assets.orchestration.heartbeat`).
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.orchestration.heartbeat import Listener, beating
from cdc_assets.orchestration.keys import TAG_PROCESS, UNFINISHED

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
    with beating(context.instance, context.run.run_id):
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

    It tells that somebody is at work where nobody knows which instance has the runs. Runs whose
    steps have processes of their own, and those on other machines, have no file here.
    """
    names = (path.stem for path in sorted(_folder(home).glob("*.lock")) if not _is_dead(path))
    return tuple(name for name in names if name not in _held)


def tidy(home: Path, alive: Iterable[str]) -> None:
    """Removes unlocked files of all runs that are not in ``alive``."""
    keep = set(alive)
    for path in _folder(home).glob("*.lock"):
        if path.stem not in keep and _is_dead(path):
            path.unlink(missing_ok=True)


def _fail(instance: dg.DagsterInstance, run_id: str) -> bool:
    run = instance.get_run_by_id(run_id)
    if run is None or run.is_finished:
        return False
    instance.report_run_failed(run, "The run's process is gone; the next run goes on from the lake")
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
