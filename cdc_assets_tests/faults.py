"""Faults as data: which effect fails, and how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from pyspark.errors import PySparkException

from cdc_assets.effects import Moment, hooked


class How(Enum):
    """What goes wrong at an effect."""

    BEFORE = "fails before it happens"
    LOST = "happens, and its reply is lost"
    DEATH = "happens, and the process dies"


@dataclass(frozen=True, slots=True)
class Fault:
    """At the ``nth`` passing of a point."""

    point: str
    how: How
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.point} (number {self.nth}) {self.how.value}"


class Death(BaseException):
    """Ends a process as far as Python code can: nothing that handles errors sees it."""


class Injected(Exception):
    """For effects whose vendor has no exception of its own."""


@dataclass
class Faults:
    """A hook that lets effects fail, each fault once, and counts what it has seen."""

    planned: tuple[Fault, ...] = ()
    seen: Counter[str] = field(default_factory=Counter)
    happened: list[Fault] = field(default_factory=list)

    def __call__(self, point: str, moment: Moment) -> None:
        if moment is Moment.BEFORE:
            self.seen[point] += 1
        for fault in self.planned:
            if fault.point != point or fault.nth != self.seen[point] or fault in self.happened:
                continue
            if (fault.how is How.BEFORE) == (moment is Moment.BEFORE):
                self.happened.append(fault)
                raise _exception(fault)


@dataclass
class Anywhere(Faults):
    """The ``place``-th effect fails, whichever that is; none if there are fewer."""

    place: int = 1
    how: How = How.BEFORE

    def __call__(self, point: str, moment: Moment) -> None:
        if moment is Moment.BEFORE and self.seen.total() == self.place - 1:
            self.planned = (Fault(point, self.how, self.seen[point] + 1),)
        super().__call__(point, moment)


@contextmanager
def faults(*planned: Fault) -> Generator[Faults]:
    """With these faults, until the block ends."""
    hook = Faults(planned)
    with hooked(hook):
        yield hook


def _exception(fault: Fault) -> BaseException:
    if fault.how is How.DEATH:
        return Death(str(fault))
    return _BY_PART.get(fault.point.partition(":")[0], Injected)(str(fault))


def _kafka(text: str) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TRANSPORT, text))  # noqa: SLF001


_BY_PART: Final = {
    "spark": PySparkException,
    "lake": OSError,
    "kafka": _kafka,
    "registry": OSError,
    "desired": OSError,
    "failures": OSError,
}
