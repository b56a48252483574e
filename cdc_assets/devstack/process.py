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
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import IO

import psutil

from cdc_assets.devstack import environment

_POLL_SECONDS = 0.02
_ROUNDS = 5
_started_here: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class Command:
    """What to run.

    Args:
        argv: program and arguments; no shell, no secrets (arguments are public on a machine).
        env: its whole environment.
        cwd: working directory.
        run_as: user and group id, when started by root.
        stop_signal: what asks the program to finish in good order.
    """

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=environment.chosen)
    cwd: Path | None = None
    run_as: tuple[int, int] | None = None
    stop_signal: signal.Signals = signal.SIGTERM


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """One started process, as its pidfile remembers it.

    ``config`` is the configuration file that it was started for; empty if there was none.
    """

    pid: int
    create_time: float
    port: int
    stop_signal: int
    fingerprint: str = ""
    config: str = ""

    @classmethod
    def read(cls, pidfile: Path) -> RunningProcess | None:
        """The process that was started last, alive or not.

        None if it was stopped, and if the file is damaged: its process is then found by what
        its environment says (`strays`).
        """
        try:
            content = json.loads(pidfile.read_text())
            return cls(
                **{each.name: content[each.name] for each in fields(cls) if each.name in content}
            )
        except (FileNotFoundError, ValueError, TypeError):
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

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.create_time).astimezone().isoformat(" ", "seconds")
        owner = f"for {self.config}" if self.config else "without a configuration file"
        return f"started {owner} at {since}, pid {self.pid}"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a process is started with and a later start must find the same.

    Args:
        port: where it will listen, remembered for `status`.
        fingerprint: of all other settings that matter.
        config: the configuration file that they come from.
    """

    port: int
    fingerprint: str = ""
    config: str = ""


def spawn(command: Command, log: Path, pidfile: Path, settings: Settings) -> None:
    """Start a program in a session of its own, detached from this terminal.

    Args:
        command: what to run.
        log: takes everything it prints; the log of the run before moves to ``….log.1``.
        pidfile: remembers the process.
        settings: remembered with it.
    """
    with _fresh_log(log) as out:
        child = _popen(command, out)
    _started_here[child.pid] = child
    created = psutil.Process(child.pid).create_time()
    RunningProcess(
        child.pid,
        created,
        settings.port,
        command.stop_signal,
        settings.fingerprint,
        settings.config,
    ).write(pidfile)


def _popen(command: Command, out: IO[bytes]) -> subprocess.Popen[bytes]:
    user, group = command.run_as or (None, None)
    return subprocess.Popen(
        list(command.argv),
        env=dict(command.env),
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

    Returns:
        Whether a live process had to be stopped.
    """
    running = RunningProcess.read(pidfile)
    stopped = running is not None and end(running, grace_seconds=grace_seconds)
    pidfile.unlink(missing_ok=True)
    return stopped


def end(running: RunningProcess, *, grace_seconds: float = 20) -> bool:
    """Stop a process and everything it started, also what outlived it.

    1. Ask it by its own stop signal, or, if it is dead already, each of those that outlived
    it. 2. After the grace period kill what is left of its tree and of its session.

    Returns:
        Whether a live process had to be stopped.
    """
    family = _family(running)
    if family:
        for each in family[:1] if running.alive else family:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.send_signal(running.stop_signal)
        _wait_for_end(family, grace_seconds)
        _kill([*family, *_family(running)])
        _reap(running.pid)
    return bool(family)


def stop_strays(home: Path, part: str) -> bool:
    """Kill programs of a part that no pidfile remembers.

    A start that was killed before it could write its pidfile leaves one behind, and so does a
    damaged pidfile. Call it only where no process of the part may run.

    Returns:
        Whether there were any.
    """
    found = strays(home, part)
    left, rounds = found, 0
    while left and rounds < _ROUNDS:  # a script starts others while it is looked for
        _kill(left)
        left, rounds = strays(home, part), rounds + 1
    return bool(found)


def strays(home: Path, part: str) -> list[psutil.Process]:
    """The processes whose environment says that they belong to a part of a stack."""
    wanted = (str(home.resolve()), part)
    others = (each for each in psutil.process_iter() if each.pid != os.getpid())
    return [each for each in others if belongs_to(each) == wanted]


def belongs_to(process: psutil.Process) -> tuple[str, str] | None:
    """Home and part of the stack that a process was started for, as its environment says."""
    try:
        names = process.environ()
    except psutil.Error:
        return None
    home, part = names.get(environment.HOME_VARIABLE), names.get(environment.PART_VARIABLE)
    return (home, part) if home and part else None


def _kill(processes: Sequence[psutil.Process]) -> None:
    left = [each for each in processes if _lives(each)]
    for each in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    _wait_for_end(left, 5)


def _wait_for_end(processes: Sequence[psutil.Process], seconds: float) -> None:
    """Until all have ended; one that waits for its parent to notice has ended."""
    deadline = time.monotonic() + seconds
    while any(map(_lives, processes)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def family_ids(running: RunningProcess) -> set[int]:
    """The process, its descendants and the members of its session."""
    return {each.pid for each in _family(running)}


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
