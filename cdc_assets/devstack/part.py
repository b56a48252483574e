"""One part of the stack: what all parts share, from start to the report of a death."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from cdc_assets.devstack import process
from cdc_assets.devstack.layout import HOST, StackLayout
from cdc_assets.devstack.ports import require_free
from cdc_assets.devstack.process import Command, RunningProcess
from cdc_assets.errors import TransientError

POLL_SECONDS = 0.1


class PartState(StrEnum):
    """What a part is doing."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    DIED = "died"


@dataclass(frozen=True, slots=True)
class PartStatus:
    """One part, as `stack status` shows it."""

    name: str
    state: PartState
    address: str
    log: Path
    pid: int | None = None
    memory_bytes: int | None = None
    last_words: str = ""


Progress = Callable[[PartStatus], None]


class PartDiedError(TransientError):
    """A part of the stack ended by itself: the message names it and ends with its log."""


class StartInterruptedError(TransientError):
    """Nobody waits any more for a part that was starting."""


class Part(ABC):
    """A program of the local stack.

    Subclasses say how to prepare and start it and when it is ready; the process itself, its
    pidfile and its log are handled here. Start and stop are safe to repeat, and safe against
    other processes doing the same: a file lock per part serialises them.
    """

    name: str
    needs: tuple[str, ...] = ()
    ready_within_seconds: float = 90
    stop_within_seconds: float = 20

    def __init__(self, layout: StackLayout) -> None:
        self.layout = layout
        self.interrupt = threading.Event()

    @property
    @abstractmethod
    def port(self) -> int:
        """The configured port."""

    @abstractmethod
    def command(self) -> Command:
        """What to run; called after `prepare`."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether it does its work, asked over its own protocol."""

    @abstractmethod
    def prepare(self) -> None:
        """Write configuration files and whatever else the program needs to find."""

    def warm_up(self) -> None:  # noqa: B027 - most parts have nothing to warm
        """What makes the first real use quick; runs once after each start."""

    def fingerprint(self) -> str:
        """Of settings that need a restart when they change; empty for no such settings."""
        return ""

    @property
    def address(self) -> str:
        """Host and port to connect to: those it runs with, or would run with."""
        running = self.running
        return f"{HOST}:{running.port if running else self.port}"

    @property
    def running(self) -> RunningProcess | None:
        """The process started last, unless it was stopped since."""
        return RunningProcess.read(self.layout.pidfile(self.name))

    def require_port(self) -> None:
        """Refuse before anything is started if another program holds the port.

        Raises:
            TerminalError: naming the port and its owner.
        """
        running = self.running
        if not (running and running.alive):
            require_free(self.name, self.port)

    def bring_up(self, progress: Progress) -> None:
        """Start unless it runs, and wait until it is ready.

        Raises:
            TerminalError: the port is taken by another program.
            PartDiedError: it ended before it was ready, or was not ready in time.
            StartInterruptedError: `interrupt` was set meanwhile; the process may run.
        """
        with self._lock():
            started = self._start()
            progress(self.status())
            self._wait_until_ready()
            if started:
                self.warm_up()
        progress(self.status())

    def stop(self) -> bool:
        """Stop it and everything it started. Returns whether it ran."""
        with self._lock():
            pidfile = self.layout.pidfile(self.name)
            return process.stop(pidfile, grace_seconds=self.stop_within_seconds)

    def status(self) -> PartStatus:
        """What it is doing now."""
        running = self.running
        live = running.process() if running else None
        state = self._state(running is not None, live is not None)
        return PartStatus(
            name=self.name,
            state=state,
            address=self.address,
            log=self.layout.log(self.name),
            pid=live.pid if live else None,
            memory_bytes=process.resident_bytes(live) if live else None,
            last_words=self._last_words() if state is PartState.DIED else "",
        )

    def require_alive(self) -> None:
        """Raise if it was started and has ended by itself.

        Raises:
            PartDiedError: names the part and ends with its log.
        """
        running = self.running
        if running is not None and not running.alive:
            msg = "ended by itself"
            raise self._died(msg)

    def _state(self, started: bool, alive: bool) -> PartState:
        if not started:
            return PartState.STOPPED
        if not alive:
            return PartState.DIED
        return PartState.READY if self.ready() else PartState.STARTING

    def _start(self) -> bool:
        running = self.running
        if running and running.alive:
            if self._fits(running):
                return False
            process.stop(self.layout.pidfile(self.name))
        require_free(self.name, self.port)
        tmp = self.layout.tmp(self.name)
        shutil.rmtree(tmp, ignore_errors=True)
        tmp.mkdir(parents=True)
        self.prepare()
        process.spawn(
            self.command(),
            self.layout.log(self.name),
            self.layout.pidfile(self.name),
            port=self.port,
            fingerprint=self.fingerprint(),
        )
        return True

    def _fits(self, running: RunningProcess) -> bool:
        return running.port == self.port and self.fingerprint() in ("", running.fingerprint)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self.ready_within_seconds
        while not self.ready():
            self.require_alive()
            if time.monotonic() > deadline:
                msg = f"was not ready within {self.ready_within_seconds:.0f} s"
                raise self._died(msg)
            if self.interrupt.wait(POLL_SECONDS):
                msg = f"the start of {self.name} was interrupted"
                raise StartInterruptedError(msg)

    def _last_words(self) -> str:
        return process.log_tail(self.layout.log(self.name))

    def _died(self, what: str) -> PartDiedError:
        log = self.layout.log(self.name)
        return PartDiedError(
            f"{self.name} {what}",
            where=f"log={log}",
            remedy=f"the end of its log:\n{self._last_words() or '(empty)'}",
        )

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        path = self.layout.pidfile(self.name).with_suffix(".lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
