"""Predicts when a log's retention overtakes a table that is behind and changes begin to be lost.

Kafka deletes whole segments, the oldest first, each once its newest record is older than
``retention.ms``. So no record is deleted before it is that old itself, and the first unread record
is deleted before all other unread ones of its partition: its time plus ``retention.ms`` is the
earliest moment at which anything unread can be lost. It may be kept longer, by up to a segment.

``retention.bytes`` says nothing about time. But once a partition has lost its beginning to it, it
holds about as many records as it can; an offset is then deleted when as many more records have come
as there are before it. That is an estimate, by the rate of records within the last hour.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cdc_assets.changes.offsets import OffsetVector

FOR_EVER: Final = timedelta(days=100 * 366)
"""A century. What is kept for longer is never overtaken; people write it in many ways."""
LONGEST_WARNING: Final = timedelta(hours=24)
SHARE: Final = 0.5
"""A warning is due when less than this share of the retention is left, and less than a day."""

EPOCH_SECONDS: Final = 86_400
"""Times within the first day of 1970 belong to records without a time."""


@dataclass(frozen=True, slots=True)
class TopicRetention:
    """A topic's retention; None for ever, or if it only compacts.

    Attributes:
        age: ``retention.ms``.
        size: ``retention.bytes``, of each partition.
    """

    age: timedelta | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class ReadingPace:
    """A partition's contents, reading progress and rate of new records.

    Attributes:
        begin, end: of the log, next-to-read offsets.
        position: the next offset to read.
        per_second: records per second, within the last hour.
    """

    begin: int
    end: int
    position: int
    per_second: float


@dataclass(frozen=True, slots=True)
class Overtaking:
    """The moment at which unread changes begin to be lost.

    Attributes:
        at: the earliest time; an estimate for ``retention.bytes``.
        by: the setting that causes it.
        is_near: whether it is time to warn.
    """

    at: datetime
    by: str
    is_near: bool


def overtaking(
    retention: TopicRetention,
    oldest_unread: datetime | None,
    paces: Iterable[ReadingPace],
    now: datetime,
) -> Overtaking | None:
    """Returns when a topic's retention overtakes a table; None if never, or if unknown.

    Args:
        retention: of the topic.
        oldest_unread: the lowest time among the first unread records of its partitions.
        paces: of the partitions that hold unread records.
        now: aware.
    """
    found: list[Overtaking] = []
    if retention.age is not None and oldest_unread is not None and _has_time(oldest_unread):
        at = oldest_unread + retention.age
        found.append(Overtaking(at, "retention.ms", _is_near(at - now, retention.age)))
    if retention.size is not None:
        found += [each for pace in paces if (each := _by_size(pace, now)) is not None]
    return min(found, key=lambda each: each.at, default=None)


def paces(
    begin: OffsetVector, end: OffsetVector, position: OffsetVector, hour_ago: OffsetVector
) -> tuple[ReadingPace, ...]:
    """Returns the paces of the partitions that hold unread records.

    Args:
        begin: begin of the log.
        end: end of the log.
        position: the next offsets to read.
        hour_ago: the first offsets of the last hour.
    """
    first, came_from = begin.as_dict(), hour_ago.as_dict()
    return tuple(
        ReadingPace(
            first.get(each.partition, 0),
            each.end,
            each.start,
            (each.end - came_from.get(each.partition, each.end)) / 3600,
        )
        for each in position.ranges_to(end)
    )


def _by_size(pace: ReadingPace, now: datetime) -> Overtaking | None:
    """Estimates only for a partition that has lost its beginning and still receives records."""
    if pace.begin == 0 or pace.per_second <= 0:
        return None
    seconds_held = (pace.end - pace.begin) / pace.per_second
    if seconds_held > FOR_EVER.total_seconds():
        return None
    left = timedelta(seconds=max(0, pace.position - pace.begin) / pace.per_second)
    held = timedelta(seconds=seconds_held)
    return Overtaking(now + left, "retention.bytes", _is_near(left, held))


def _is_near(left: timedelta, whole: timedelta) -> bool:
    return left <= min(LONGEST_WARNING, whole * SHARE)


def _has_time(at: datetime) -> bool:
    return at.timestamp() >= EPOCH_SECONDS
