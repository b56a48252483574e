"""A program of the stack as a detached process: start, find again, stop.

A process is known by its id *and* its creation time, both kept in a pidfile, so that an id
which the system has given to another program meanwhile is never signalled.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

import psutil

_started_here: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class Command:
    """What to run.

    Args:
        argv: program and arguments; no shell, no secrets (arguments are public on a machine).
        env: additions to the environment.
        cwd: working directory.
        run_as: user and group id, when started by root.
        stop_signal: what asks the program to finish in good order.
    """

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: Path | None = None
    run_as: tuple[int, int] | None = None
    stop_signal: signal.Signals = signal.SIGTERM


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """One started process, as its pidfile remembers it."""

    pid: int
    create_time: float
    port: int
    stop_signal: int
    fingerprint: str = ""

    @classmethod
    def read(cls, pidfile: Path) -> RunningProcess | None:
        """The process that was started last, alive or not; None if it was stopped."""
        try:
            return cls(**json.loads(pidfile.read_text()))
        except FileNotFoundError:
            return None

    def write(self, pidfile: Path) -> None:
        """Replace the pidfile at once, so that no reader sees half of it."""
        pidfile.parent.mkdir(parents=True, exist_ok=True)
        staging = pidfile.with_suffix(".tmp")
        staging.write_text(json.dumps(asdict(self)))
        staging.replace(pidfile)

    def process(self) -> psutil.Process | None:
        """The live process, or None if it ended (a zombie has ended)."""
        _reap(self.pid)
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.create_time) < 0.01
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process() is not None


def spawn(command: Command, log: Path, pidfile: Path, *, port: int, fingerprint: str = "") -> None:
    """Start a program in a session of its own, detached from this terminal.

    Args:
        command: what to run.
        log: takes everything it prints; the log of the run before moves to ``….log.1``.
        pidfile: remembers the process.
        port: where it will listen, remembered for `status`.
        fingerprint: of the settings it was started with.
    """
    with _fresh_log(log) as out:
        child = _popen(command, out)
    _started_here[child.pid] = child
    created = psutil.Process(child.pid).create_time()
    RunningProcess(child.pid, created, port, command.stop_signal, fingerprint).write(pidfile)


def _popen(command: Command, out: IO[bytes]) -> subprocess.Popen[bytes]:
    user, group = command.run_as or (None, None)
    return subprocess.Popen(
        list(command.argv),
        env={**os.environ, **command.env},
        cwd=command.cwd,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        user=user,
        group=group,
        extra_groups=[] if command.run_as else None,
    )


def _fresh_log(log: Path) -> IO[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists():
        log.replace(log.with_suffix(".log.1"))
    return log.open("wb")


def _reap(pid: int) -> None:
    """Collect the exit of a child of ours, so that it does not stay as a zombie."""
    child = _started_here.get(pid)
    if child is not None and child.poll() is not None:
        del _started_here[pid]


def stop(pidfile: Path, *, grace_seconds: float = 20) -> bool:
    """Stop a process and everything it started, also what outlived it; forget it.

    1. Ask it by its own stop signal. 2. After the grace period kill what is left of its tree
    and of its session.

    Returns:
        Whether a live process had to be stopped.
    """
    running = RunningProcess.read(pidfile)
    family = _family(running) if running else []
    if running and family:
        with contextlib.suppress(psutil.NoSuchProcess):
            family[0].send_signal(running.stop_signal)
        psutil.wait_procs(family, timeout=grace_seconds)
        _kill([*family, *_family(running)])
        _reap(running.pid)
    pidfile.unlink(missing_ok=True)
    return bool(family)


def _kill(processes: Sequence[psutil.Process]) -> None:
    left = [each for each in processes if each.is_running()]
    for each in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    psutil.wait_procs(left, timeout=5)


def _family(running: RunningProcess) -> list[psutil.Process]:
    """The process, if it lives, then its descendants and the members of its session.

    While a session has members, the system gives its id to no new process: if there is no
    process of that id, the members are ours.
    """
    root = running.process()
    if root is None and psutil.pid_exists(running.pid):
        return []
    children = root.children(recursive=True) if root else []
    members = [each for each in psutil.process_iter() if _session(each.pid) == running.pid]
    return list(dict.fromkeys([*([root] if root else []), *children, *members]))


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def resident_bytes(process: psutil.Process) -> int:
    """Memory of a process and its children; memory they share is counted once (PSS)."""
    total = 0
    for each in [process, *process.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            total += each.memory_full_info().pss
    return total


def log_tail(log: Path, lines: int = 20) -> str:
    """The end of a log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 64_000))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
