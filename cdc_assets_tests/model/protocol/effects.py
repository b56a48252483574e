"""Effects outside the process, one by one, and the ways in which each can fail.

A process is a generator that yields each effect before it happens. Its driver lets the effect
happen or not, and lets the process see what a real one would see of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")


class EffectError(Exception):
    """An effect failed, or its reply was lost: the process cannot tell which."""


class InterruptedAttemptError(Exception):
    """Something else failed right after an effect: only the run's end handles it."""


class RefusedError(Exception):
    """The catalog refuses the request in this state of the table."""


class How(StrEnum):
    """The way in which an effect fails."""

    BEFORE = "before"
    """It does not happen, and the process sees an error."""
    AFTER = "after"
    """It happens, and the process fails right after it."""
    LOST = "lost"
    """It happens, and the process sees an error."""
    DEATH = "death"
    """It happens, and the process dies."""
    PAUSE = "pause"
    """Something else happens first; then it goes on."""


class Then(StrEnum):
    """The next event: before the effect at a pause, otherwise after it."""

    RETRY = "retry"
    NEW_PROCESS = "new process"
    OTHER_WRITER = "other writer"
    OVERTAKEN = "overtaken"
    COMPACT_TABLE = "compact table"
    COMPACT_SIDE = "compact side"
    ROLL_BACK = "roll back"
    LOG_GROWS = "log grows"
    REPLAY = "replay"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        at: number of the effect, counted over all processes from 0; or its name, for the first
            time that it occurs.
        how: the way in which it fails.
        then: the next event.
    """

    at: int | str
    how: How
    then: Then = Then.RETRY

    def __repr__(self) -> str:
        return f"Fault({self.at!r}, How.{self.how.name}, Then.{self.then.name})"


@dataclass(slots=True)
class Effect(Generic[T]):
    """An effect that is about to happen; ``result`` is set once it has."""

    name: str
    act: Callable[[], T]
    result: T | None = None

    def happen(self) -> None:
        """Lets the effect happen."""
        self.result = self.act()


Life: TypeAlias = Generator[Effect[object], None, T]


def effect(name: str, act: Callable[[], T]) -> Life[T]:
    """Lets an effect happen and returns its result.

    Raises:
        EffectError, InterruptedAttemptError: as the driver decides.
        RefusedError: if the effect itself is refused.
    """
    results: list[T] = []
    yield Effect(name, lambda: results.append(act()))
    return results[0]
