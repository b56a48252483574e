"""Which runs are still alive, on this machine.

If everything is killed at once (a reboot, Ctrl-C in the middle of a run), Dagster's records
say STARTED for ever: the default launcher cannot ask a process that nobody remembers. A
table would then be skipped as busy until somebody cleans up. So a run holds a lock on a
small file for as long as its process lives; the kernel lets go of it whatever happens. A
started run whose file exists and is not locked is dead. Runs on other machines have no file
here and are left to Dagster's run monitoring.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

import dagster as dg

_held: dict[str, int] = {}


def hold(home: Path, run_id: str) -> None:
    """Show that the run lives, until this process ends. Does nothing the second time."""
    if run_id in _held:
        return
    path = _file(home, run_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _held[run_id] = handle


def fail_dead_runs(instance: dg.DagsterInstance, home: Path) -> list[str]:
    """Mark started runs whose process is gone as failed; returns their ids.

    Nothing is lost by it: what such a run had published is in the lake, with its offsets.
    """
    started = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    dead = [run.run_id for run in started if _is_dead(_file(home, run.run_id))]
    return [run_id for run_id in dead if _fail(instance, run_id)]


def tidy(home: Path, alive: Iterable[str]) -> None:
    """Remove the files of all other runs that are not locked."""
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


def _file(home: Path, run_id: str) -> Path:
    return _folder(home) / f"{run_id}.lock"
