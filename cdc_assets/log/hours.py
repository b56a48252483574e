"""Cuts a log into offset ranges by the hours of the calendar: hour windows.

``f(t)`` is the earliest offset with a timestamp at or after ``t``, or the log's end where
there is none. It never falls as ``t`` rises, whatever the order of the timestamps, so the
ranges ``[f(H), f(H+1))`` of consecutive hours follow each other without gap or overlap.
The first window of a table reaches back to the log's beginning, so that nothing is older than it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cdc_assets.changes.offsets import OffsetRange, OffsetVector
from cdc_assets.registry.entries import HOURS_START

HOUR: Final = timedelta(hours=1)

REACH: Final = timedelta(days=7)
"""How far the first window of a table may be before its discovery: as long as Kafka keeps records
by default. A topic whose first record is years old would have 60,000 empty hours."""

_LAST_START: Final = datetime(9999, 12, 31, 22, tzinfo=UTC)
"""Start of the last window, whose end is a time, too."""

KEY_FORMAT: Final = "%Y-%m-%d-%H:%M"
"""Dagster's format of hourly partition keys."""


@dataclass(frozen=True, slots=True, order=True)
class HourWindow:
    """One hour ``[start, end)``, in UTC, from HOURS_START on.

    Raises:
        ValueError: if it is not exactly such an hour.
    """

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        aware = self.start.tzinfo is not None and self.end.tzinfo is not None
        if not aware or self.start < HOURS_START or self.end - self.start != HOUR:
            msg = f"not an hour from {HOURS_START:{KEY_FORMAT}} on: {self.start} to {self.end}"
            raise ValueError(msg)
        if (self.start - HOURS_START) % HOUR:
            msg = f"not a whole hour: {self.start}"
            raise ValueError(msg)

    @classmethod
    def starting(cls, start: datetime) -> HourWindow:
        """Returns the window that starts at a full hour (aware).

        Raises:
            ValueError: if it is not an hour, or the calendar's last.
        """
        utc = start.astimezone(UTC)
        if utc > _LAST_START:
            msg = f"the calendar ends before that hour does: {utc}"
            raise ValueError(msg)
        return cls(utc, utc + HOUR)

    @classmethod
    def from_key(cls, key: str) -> HourWindow:
        """Returns the window of a partition key.

        Raises:
            ValueError: if it is not the key of an hour.
        """
        return cls.starting(datetime.strptime(key, KEY_FORMAT).replace(tzinfo=UTC))

    @property
    def key(self) -> str:
        """The partition key."""
        return self.start.strftime(KEY_FORMAT)

    def is_first(self, first: datetime = HOURS_START) -> bool:
        """Returns whether the window also holds everything older, if hours begin at ``first``."""
        return self.start <= first

    def next(self) -> HourWindow:
        """Returns the hour after."""
        return HourWindow(self.end, self.end + HOUR)

    def is_closed(self, now: datetime) -> bool:
        """Returns whether the hour is over at an aware time."""
        return self.end <= now

    def __str__(self) -> str:
        return self.key


@dataclass(frozen=True, slots=True)
class WindowOffsets:
    """One window's offsets in one topic: next-to-read offsets, end exclusive."""

    start: OffsetVector
    end: OffsetVector

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        """The non-empty ranges."""
        return self.start.ranges_to(self.end)


def hour_of(t: datetime, first: datetime = HOURS_START) -> HourWindow:
    """Returns the window that holds an aware time.

    Times before ``first``, the start of the first window, belong to that window; those near the
    calendar's end to the last.

    Raises:
        ValueError: if the time has no zone.
    """
    if t.tzinfo is None:
        msg = "a time without a zone cannot be placed in an hour"
        raise ValueError(msg)
    if t < first:
        return HourWindow.starting(first)
    if t >= _LAST_START:
        return HourWindow.starting(_LAST_START)
    return HourWindow.starting(HOURS_START + (t - HOURS_START) // HOUR * HOUR)


def boundaries(
    windows: Iterable[HourWindow], first: datetime = HOURS_START
) -> tuple[datetime, ...]:
    """Returns the times whose offsets cut these windows, ascending, each once."""
    return tuple(sorted({time for window in windows for time in _edges(window, first)}))


def cut(
    window: HourWindow,
    begin: OffsetVector,
    offsets_at: Callable[[datetime], OffsetVector],
    first: datetime = HOURS_START,
) -> WindowOffsets:
    """Returns the offsets of a window.

    Args:
        window: the hour.
        begin: the log's beginning, at which the first window starts.
        offsets_at: ``f``, for the times of `boundaries`.
        first: the start of the first window.
    """
    start = begin if window.is_first(first) else offsets_at(window.start)
    return WindowOffsets(start, offsets_at(window.end))


def first_hour(earliest: datetime | None, now: datetime) -> datetime:
    """Returns the start of the first window of tables that are found now.

    That is the hour of their earliest record, but none of the future, and at most `REACH` before
    the present one: older records belong to the first window. Without a record it is the present
    hour.
    """
    present = hour_of(now).start
    oldest = hour_of(present - REACH).start
    return present if earliest is None else min(hour_of(earliest, oldest).start, present)


def _edges(window: HourWindow, first: datetime) -> tuple[datetime, ...]:
    return (window.end,) if window.is_first(first) else (window.start, window.end)
