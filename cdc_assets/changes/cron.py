"""Finds the times at which a cron expression is due: five fields, as cron and Dagster read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "month": ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    "weekday": ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
}
_FIELDS: Final = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12),
                  ("weekday", 0, 7))  # fmt: skip
_PART: Final = re.compile(r"(\*|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>[0-9]+))?")
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression. If days and weekdays are both restricted, either one suffices."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool

    @classmethod
    def parse(cls, text: str) -> Cron:
        """Parses an expression such as ``*/30 1-5 * * mon-fri``.

        Raises:
            ValueError: if it is not one; names the wrong field.
        """
        parts = text.split()
        if len(parts) != len(_FIELDS):
            msg = f"it has {len(parts)} fields, not {len(_FIELDS)}"
            raise ValueError(msg)
        found = [_field(part, *each) for part, each in zip(parts, _FIELDS, strict=True)]
        minutes, hours, days, months, weekdays = found
        either = parts[2] != "*" and parts[4] != "*"
        sundays = frozenset(each % 7 for each in weekdays)
        return cls(minutes, hours, days, months, sundays, either)

    def is_due(self, at: datetime) -> bool:
        """Returns whether the expression ticks in a minute."""
        if at.minute not in self.minutes or at.hour not in self.hours:
            return False
        day, weekday = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        is_day = (day or weekday) if self.either_day else (day and weekday)
        return is_day and at.month in self.months

    def ticks(self, start: datetime, within: timedelta) -> int:
        """Returns the number of ticks within a duration from ``start``; its end is exclusive."""
        minutes = range(int(within / _MINUTE))
        return sum(self.is_due(start + n * _MINUTE) for n in minutes)


def _field(text: str, name: str, lowest: int, highest: int) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part.lower())
        if match is None:
            raise _wrong(name)
        step = int(match["step"] or 1)
        first, last = _ends(match, name, lowest, highest)
        if not (lowest <= first <= last <= highest) or step < 1:
            raise _wrong(name)
        found |= set(range(first, last + 1, step))
    return frozenset(found)


def _ends(match: re.Match[str], name: str, lowest: int, highest: int) -> tuple[int, int]:
    if match["first"] is None:
        return lowest, highest
    first = _number(match["first"], name)
    if match["last"] is not None:
        return first, _number(match["last"], name)
    return first, highest if match["step"] else first


def _number(word: str, name: str) -> int:
    names = _NAMES.get(name, ())
    if word in names:
        return names.index(word) + (name == "month")
    if not word.isdecimal():
        raise _wrong(name)
    return int(word)


def _wrong(name: str) -> ValueError:
    return ValueError(f"its {name} cannot be read")
