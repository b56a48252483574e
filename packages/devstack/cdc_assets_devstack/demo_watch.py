"""Keeps the demo alive: restarts dead parts, and prints the messages of its load.

People are invited to do what they like to the demo. A part that dies is named and restarted; only
one that keeps dying ends the demo. A failed connector is restarted, too, which Kafka Connect itself
would not do.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from cdc_assets.errors import TransientError
from cdc_assets_devstack.connect import Connect
from cdc_assets_devstack.part import Part, PartDiedError

_DEATHS, _WITHIN_SECONDS = 3, 300.0
_LOOK_AT_CONNECTOR_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 60.0

Say = Callable[[str], None]


class PartStoppedError(TransientError):
    """Another command stopped a part while the demo ran."""


class Watch:
    """The watch over the parts of a demo.

    Args:
        parts: all parts that must run.
        say: receives a line for everything that a person should know.
        clock: monotonic seconds.
    """

    def __init__(
        self, parts: Sequence[Part], say: Say, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._parts = parts
        self._say = say
        self._clock = clock
        self._deaths: dict[str, deque[float]] = {part.name: deque(maxlen=_DEATHS) for part in parts}

    def look(self) -> None:
        """Restarts parts that have died.

        Raises:
            PartDiedError: a part died too often, or does not start again; ends with its log.
            PartStoppedError: a part was stopped by another command.
        """
        for part in self._parts:
            try:
                part.require_alive()
            except PartDiedError as error:
                self._start_again(part, error)
            else:
                if part.was_stopped():
                    msg = f"{part.name} was stopped by another command, so the demo ends"
                    raise PartStoppedError(msg, remedy="start it again: cdc-assets demo")

    def _start_again(self, part: Part, error: PartDiedError) -> None:
        deaths = self._deaths[part.name]
        deaths.append(self._clock())
        if len(deaths) == _DEATHS and deaths[-1] - deaths[0] < _WITHIN_SECONDS:
            raise error
        log = part.layout.log(part.name).with_suffix(".log.1")
        self._say(
            f"{part.name} ended by itself and is started again; the end of its log is in {log}"
        )
        part.bring_up(lambda _: None)
        self._say(f"{part.name} runs again")


class ConnectorWatch:
    """The watch over a connector, which restarts it after failures, at growing intervals.

    Args:
        connect: the worker.
        name: the connector's name.
        say: receives each failure once, and its end.
        clock: monotonic seconds.
    """

    def __init__(
        self, connect: Connect, name: str, say: Say, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connect = connect
        self._name = name
        self._say = say
        self._clock = clock
        self._due = clock()
        self._pause = _LOOK_AT_CONNECTOR_SECONDS
        self._said = ""

    def look(self) -> None:
        """Checks the connector, unless that was done a moment ago."""
        if self._clock() < self._due:
            return
        try:
            state = self._connect.state_of(self._name)
            if state.failure is not None:
                self._connect.restart(self._name)
        except TransientError:  # Connect itself is starting, or dead, which `Watch` reports
            self._due = self._clock() + _LOOK_AT_CONNECTOR_SECONDS
            return
        if state.failure is not None:
            self._failed(state.failure)
        elif state.runs:
            self._runs()
        elif not state.known:
            self._tell(f"connector {self._name} is gone: nothing is captured until the next start")
        self._due = self._clock() + self._pause

    def _failed(self, reason: str) -> None:
        self._tell(f"connector {self._name} failed: {reason}; it is started again until it runs")
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)

    def _runs(self) -> None:
        if self._said:
            self._say(f"connector {self._name} runs again")
        self._said = ""
        self._pause = _LOOK_AT_CONNECTOR_SECONDS

    def _tell(self, words: str) -> None:
        if words != self._said:
            self._say(words)
        self._said = words


class Follow:
    """A follower of a log, which passes on its lines as they are written.

    Args:
        log: the log's file, which may be replaced or truncated.
        say: receives each complete line.
    """

    def __init__(self, log: Path, say: Say) -> None:
        self._log = log
        self._say = say
        self._read = 0
        self._inode = 0

    def look(self) -> None:
        """Passes on new lines."""
        try:
            with self._log.open("rb") as file:
                self._follow_rotation(file.fileno())
                file.seek(self._read)
                whole = file.read().rpartition(b"\n")[0]
        except FileNotFoundError:
            return
        if whole:
            self._read += len(whole) + 1
            for line in whole.decode(errors="replace").splitlines():
                self._say(line)

    def _follow_rotation(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        if found.st_ino != self._inode or found.st_size < self._read:
            self._inode, self._read = found.st_ino, 0
