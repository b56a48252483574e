"""Starts, finds again and stops a program of the stack as a detached process.

A process is identified by its pid *and* its beginning, both kept in a pidfile, so that a pid that
the system has since reused for another program is never signalled. The beginning counts from the
system's boot: a step of the clock moves the times of day at which processes began.
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

from cdc_assets.files import open_private
from cdc_assets_devstack import environment

_POLL_SECONDS = 0.02
_ROUNDS = 5
_LAST_LINES = 20
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_STARTED = 19
"""The place of ``starttime`` behind the name of the program, see proc_pid_stat(5)."""
_started_here: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run.

    Args:
        argv: program and arguments; no shell, no secrets (arguments are public on a machine).
        env: its whole environment.
        cwd: its working directory.
        run_as: its user and group id, if root starts it.
        stop_signal: the signal that asks the program to end cleanly.
    """

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=environment.chosen)
    cwd: Path | None = None
    run_as: tuple[int, int] | None = None
    stop_signal: signal.Signals = signal.SIGTERM


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """One started process, as recorded in its pidfile.

    ``config`` is the configuration file for which it was started; empty if there was none.
    ``birth`` is its beginning; empty where the system does not tell it from its boot on (macOS),
    and in pidfiles of version 1.0.0: then the time of day decides.
    """

    pid: int
    create_time: float
    port: int
    stop_signal: int
    fingerprint: str = ""
    config: str = ""
    birth: str = ""

    @classmethod
    def read(cls, pidfile: Path) -> RunningProcess | None:
        """Returns the process that was started last, alive or not.

        None if it was stopped, or if the file is damaged: its process is then found by its
        environment (`strays`).
        """
        try:
            content = json.loads(pidfile.read_text())
            return cls(
                **{each.name: content[each.name] for each in fields(cls) if each.name in content}
            )
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def write(self, pidfile: Path) -> None:
        """Replaces the pidfile atomically, so that no reader sees half of it."""
        pidfile.parent.mkdir(parents=True, exist_ok=True)
        staging = pidfile.with_suffix(".tmp")
        staging.write_text(json.dumps(asdict(self)))
        staging.replace(pidfile)

    def process(self) -> psutil.Process | None:
        """Returns the live process; None if it has ended (a zombie has ended)."""
        _reap(self.pid)
        try:
            process = psutil.Process(self.pid)
            if self.birth:
                same = _birth(self.pid) == self.birth
            else:
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
    """The settings of a process, which a later start compares with its own.

    Args:
        port: the port on which it will listen, recorded for `status`.
        fingerprint: a digest of all other settings that matter.
        config: the configuration file from which they come.
    """

    port: int
    fingerprint: str = ""
    config: str = ""


def spawn(command: Command, log: Path, pidfile: Path, settings: Settings) -> None:
    """Starts a program in a session of its own, detached from this terminal.

    Args:
        command: the command to run.
        log: receives its output; the log of the previous run moves to ``….log.1``.
        pidfile: records the process.
        settings: recorded with the process.
    """
    with _fresh_log(log) as out:
        child = _popen(command, out)
    _started_here[child.pid] = child
    RunningProcess(
        child.pid,
        psutil.Process(child.pid).create_time(),
        settings.port,
        command.stop_signal,
        settings.fingerprint,
        settings.config,
        _birth(child.pid),
    ).write(pidfile)


def _birth(pid: int) -> str:
    """Returns the system's boot, and the ticks from it to a process's beginning; empty without."""
    try:
        boot, said = _BOOT.read_text().strip(), Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return ""
    return f"{boot} {said.rpartition(b')')[2].split()[_STARTED].decode()}"


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
    return open_private(log)


def _reap(pid: int) -> None:
    """Collects the exit status of a child of ours, so that it does not stay as a zombie."""
    child = _started_here.get(pid)
    if child is not None and child.poll() is not None:
        del _started_here[pid]


def stop(pidfile: Path, *, grace_seconds: float = 20) -> bool:
    """Stops a process and everything it started, including survivors; removes the pidfile.

    Returns:
        Whether a live process had to be stopped.
    """
    running = RunningProcess.read(pidfile)
    stopped = running is not None and end(running, grace_seconds=grace_seconds)
    pidfile.unlink(missing_ok=True)
    return stopped


def end(running: RunningProcess, *, grace_seconds: float = 20) -> bool:
    """Stops a process and everything it started, including survivors.

    1. Send its own stop signal to it or, if it is dead already, to each process that outlived it.
    2. After the grace period, kill the remaining processes of its tree and of its session.

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
    """Kills programs of a part that no pidfile records.

    A start that was killed before it wrote its pidfile leaves one behind, and so does a damaged
    pidfile. Call it only when no process of the part may run.

    Returns:
        Whether there were any.
    """
    found = strays(home, part)
    left, rounds = found, 0
    while left and rounds < _ROUNDS:  # a script may start others during the search
        _kill(left)
        left, rounds = strays(home, part), rounds + 1
    return bool(found)


def strays(home: Path, part: str) -> list[psutil.Process]:
    """Returns the processes whose environment says that they belong to a part of a stack."""
    wanted = (str(home.resolve()), part)
    others = (each for each in psutil.process_iter() if each.pid != os.getpid())
    return [each for each in others if belongs_to(each) == wanted]


def belongs_to(process: psutil.Process) -> tuple[str, str] | None:
    """Returns the stack's home and part to which a process belongs, by its environment."""
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
    """Waits until all have ended; a zombie has ended."""
    deadline = time.monotonic() + seconds
    while any(map(_lives, processes)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def family_ids(running: RunningProcess) -> set[int]:
    """Returns the pids of the process, its descendants and the members of its session."""
    return {each.pid for each in _family(running)}


def _family(running: RunningProcess) -> list[psutil.Process]:
    """Returns the process, if it lives, then its descendants and the members of its session.

    While a session has members, the system gives its id to no new process: if there is no
    process with that id, the members are ours.
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
    """Returns the memory of a process and its children; shared memory counts once (PSS)."""
    total = 0
    for each in [process, *process.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            total += each.memory_full_info().pss
    return total


def log_tail(log: Path) -> str:
    """Returns the end of a log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 64_000))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-_LAST_LINES:])
