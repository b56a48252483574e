"""Defines a part of the stack: the common life cycle, from start to the report of a death."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import Final

from cdc_assets.errors import TerminalError, TransientError, UnreachableError
from cdc_assets.files import take_lock
from cdc_assets_devstack import environment, process
from cdc_assets_devstack.layout import HOST, StackLayout
from cdc_assets_devstack.ports import clients_of, require_free, wait_until_free
from cdc_assets_devstack.process import Command, RunningProcess, Settings

POLL_SECONDS = 0.1


class PartState(StrEnum):
    """The state of a part."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    DIED = "died"


@dataclass(frozen=True, slots=True)
class PartStatus:
    """One part, as `stack status` shows it; ``config`` is the file for which it was started."""

    name: str
    state: PartState
    address: str
    log: Path
    pid: int | None = None
    memory_bytes: int | None = None
    last_words: str = ""
    config: str = ""


Progress = Callable[[PartStatus], None]

LOCK_SECONDS: Final = 600.0
"""Seconds to wait for a part's lock, longer than any part takes to start."""


class PartDiedError(TransientError):
    """A part of the stack ended by itself: the message names it and ends with its log."""


class StartInterruptedError(TransientError):
    """The wait for a starting part was interrupted."""


class PartOfOthersError(TerminalError):
    """A part runs for another configuration: the message names it, and says what to do."""

    page = "other-settings"


class PartInUseError(TransientError):
    """A part runs with older settings, and a client is connected to it."""

    page = "settings-in-use"


class Part(ABC):
    """A program of the local stack.

    Subclasses define how to prepare and start it and when it is ready; this class handles the
    process, its pidfile and its log. Start and stop are safe to repeat, and safe against
    other processes doing the same: a file lock per part serialises them.

    A running part is kept if its settings match. If they do not, it is replaced only if it was
    started for the same configuration file and nobody is connected to it.
    """

    name: str
    needs: tuple[str, ...] = ()
    inherits: tuple[str, ...] = ()
    """Variables of the user's environment that the part gets in addition to the system's."""
    ready_within_seconds: float = 180
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
        """Returns the command to run; called after `prepare`."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether the part works, asked over its own protocol."""

    @abstractmethod
    def prepare(self) -> None:
        """Writes configuration files and whatever else the program needs."""

    def require_usable(self) -> None:  # noqa: B027 - most parts have no such reason
        """Raises if the part will never be ready, for a reason that is known while it starts."""

    def environment(self, settings: Mapping[str, str] | None = None) -> dict[str, str]:
        """Returns the part's whole environment: inherited variables and its own settings."""
        return {
            **environment.of_part(self.layout.home, self.name, self.inherits),
            **(settings or {}),
        }

    def warm_up(self) -> None:  # noqa: B027 - most parts have nothing to warm
        """Prepares for a quick first use; runs once after each start."""

    def fingerprint(self) -> str:
        """Returns a digest of settings whose change needs a restart; empty if there are none."""
        return ""

    @property
    def address(self) -> str:
        """Host and port to connect to: those of the running process, else the configured ones."""
        running = self.running
        return f"{HOST}:{running.port if running else self.port}"

    @property
    def running(self) -> RunningProcess | None:
        """The process started last; None if it was stopped since."""
        return RunningProcess.read(self.layout.pidfile(self.name))

    @property
    def ports(self) -> tuple[int, ...]:
        """All ports that the part needs."""
        return (self.port,)

    def require_startable(self) -> None:
        """Refuses, before anything is started, if the part could not be started.

        Raises:
            TerminalError: another program holds a port; names the port and its owner.
            PartOfOthersError: it runs for another configuration, with other settings.
            PartInUseError: it runs with older settings, and a client is connected to it.
        """
        with self._lock():
            running = self.running
            if not (running and running.alive):
                self._clear_the_way()
            elif not self._fits(running):
                self._require_unused(running)

    def users(self, running: RunningProcess) -> tuple[str, ...]:
        """Returns the programs that are connected to the part."""
        return clients_of(running.port, process.family_ids(running))

    def bring_up(self, progress: Progress) -> None:
        """Starts the part unless it runs, and waits until it is ready.

        Raises:
            TerminalError: the port is taken by another program.
            PartOfOthersError: it runs for another configuration, with other settings.
            PartInUseError: it runs with older settings, and a client is connected to it.
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
        """Stops the part and every process it started; returns whether it ran."""
        with self._lock():
            pidfile = self.layout.pidfile(self.name)
            ran = process.stop(pidfile, grace_seconds=self.stop_within_seconds)
            if ran:  # its ports are free for a start that follows at once
                for port in self.ports:
                    wait_until_free(port)
            return ran

    def status(self) -> PartStatus:
        """Returns the part's present status."""
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
            config=running.config if running else "",
        )

    def require_alive(self) -> None:
        """Raises if the part was started and has ended by itself.

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

    def was_stopped(self) -> bool:
        """Whether the part was stopped by command, and no process is starting it now."""
        with self._lock(wait=False) as ours:
            return ours and self.running is None

    def _start(self) -> bool:
        if not self._has_to_start():
            return False
        tmp = self.layout.tmp(self.name)
        shutil.rmtree(tmp, ignore_errors=True)
        tmp.mkdir(parents=True)
        self.prepare()
        process.spawn(
            self.command(),
            self.layout.log(self.name),
            self.layout.pidfile(self.name),
            Settings(self.port, self.fingerprint(), self.layout.owner),
        )
        return True

    def _has_to_start(self) -> bool:
        """Whether the part must be started; if so, first removes all obstacles."""
        running = self.running
        if running and running.alive:
            if self._fits(running):
                return False
            self._require_unused(running)
        self._clear_the_way()
        return True

    def _clear_the_way(self) -> None:
        """Stops remains of earlier starts, and requires the ports to be free."""
        running = self.running
        ended = running is not None and process.end(running, grace_seconds=self.stop_within_seconds)
        ended |= process.stop_strays(self.layout.home, self.name)
        for port in self.ports:
            if ended or running is not None:  # also if it was killed a moment ago
                wait_until_free(port)
            require_free(self.name, port)

    def _require_unused(self, running: RunningProcess) -> None:
        """Refuses to replace a process that belongs to another configuration or is in use."""
        where = f"home={self.layout.home} port={running.port}"
        if running.config != self.layout.owner:
            msg = f"{self.name} of this folder runs with other settings: {running}"
            raise PartOfOthersError(
                msg,
                where=where,
                remedy="give this configuration a `home` and `stack.ports` of its own, or stop the "
                f"other: {stop_command(running, self.layout)}",
            )
        if users := self.users(running):
            what = f"{self.name} runs with the settings from before, and is in use: {running}"
            msg = f"{what}; connected: {', '.join(users)}"
            raise PartInUseError(
                msg,
                where=where,
                remedy="it is replaced as soon as nobody is connected; or stop it: "
                f"{stop_command(running, self.layout)}",
            )

    def _fits(self, running: RunningProcess) -> bool:
        return running.port == self.port and self.fingerprint() in ("", running.fingerprint)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self.ready_within_seconds
        while not self.ready():
            self.require_alive()
            self.require_usable()
            if time.monotonic() > deadline:
                msg = (
                    f"was not ready within {self.ready_within_seconds:.0f} s, and is still starting"
                )
                raise self._died(msg, "wait for it by the same command; ")
            if self.interrupt.wait(POLL_SECONDS):
                msg = f"the start of {self.name} was interrupted"
                raise StartInterruptedError(msg)

    def _last_words(self) -> str:
        return process.log_tail(self.layout.log(self.name))

    def _died(self, what: str, remedy: str = "") -> PartDiedError:
        log, data = self.layout.log(self.name), self.layout.data(self.name)
        damaged = (
            f"\nif its data in {data} is damaged, only this helps: {self.layout.without_data}: all "
            "data goes"
        )
        return PartDiedError(
            f"{self.name} {what}",
            where=f"log={log}",
            remedy=f"{remedy}the end of its log:\n{self._last_words() or '(empty)'}"
            f"{damaged if data.exists() else ''}",
        )

    @contextlib.contextmanager
    def _lock(self, *, wait: bool = True) -> Iterator[bool]:
        """Holds the part's lock; without waiting, yields False if another process holds it."""
        with part_lock(self.layout, self.name, wait=wait) as ours:
            yield ours


@contextlib.contextmanager
def part_lock(layout: StackLayout, name: str, *, wait: bool = True) -> Iterator[bool]:
    """Holds a part's lock across processes; the end of the holding process releases it.

    Yields:
        Whether this process holds it; always True with ``wait``.

    Raises:
        UnreachableError: if it waits in vain for longer than a part may take to start.
    """
    path = layout.pidfile(name).with_suffix(".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        is_ours = take_lock(file, LOCK_SECONDS if wait else 0)
        if wait and not is_ours:
            what = f"another process has kept the lock of part {name} for {LOCK_SECONDS:g} s"
            raise UnreachableError(what, where=str(path), remedy="end it (lsof names it)")
        yield is_ours


def stop_recorded(layout: StackLayout, name: str) -> None:
    """Stops the process that a pidfile names, whatever part it is."""
    with part_lock(layout, name):
        process.stop(layout.pidfile(name), grace_seconds=10)


def stop_command(running: RunningProcess, layout: StackLayout) -> str:
    """Returns the command that stops a process started for another configuration."""
    if running.config:
        return f"cdc-assets --config {quote(running.config)} stack down"
    return f"cdc-assets stack down --force --home {quote(str(layout.home))}"
