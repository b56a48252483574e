"""Effects outside the process, one by one, and the ways in which each can fail.

A process is a generator that yields each effect before it happens. Whoever drives it lets the
effect happen or not, and lets the process see what a real one would see of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")


class EffectError(Exception):
    """What a process sees of an effect that failed, or whose reply was lost: it cannot tell."""


class InterruptedAttemptError(Exception):
    """Something else went wrong right after an effect: nobody handles it but the run's end."""


class RefusedError(Exception):
    """The catalog's answer: not on this state of the table."""


class How(StrEnum):
    """What happens at an effect."""

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
    """What comes next: at a pause before the effect, else after it."""

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
        at: the number of the effect, counted over all processes from 0; or its name, which is
            its first time.
        how: it fails.
        then: what comes next.
    """

    at: int | str
    how: How
    then: Then = Then.RETRY

    def __repr__(self) -> str:
        return f"Fault({self.at!r}, How.{self.how.name}, Then.{self.then.name})"


@dataclass(slots=True)
class Effect(Generic[T]):
    """An effect that is about to happen; ``result`` is there once it has."""

    name: str
    act: Callable[[], T]
    result: T | None = None

    def happen(self) -> None:
        """Let it happen."""
        self.result = self.act()


Life: TypeAlias = Generator[Effect[object], None, T]


def effect(name: str, act: Callable[[], T]) -> Life[T]:
    """Let an effect happen, and return its result.

    Raises:
        EffectError, InterruptedAttemptError: as the driver wills.
        RefusedError: if the effect itself is refused.
    """
    results: list[T] = []
    yield Effect(name, lambda: results.append(act()))
    return results[0]
