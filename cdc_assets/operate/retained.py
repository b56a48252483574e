"""Predicts when the log's retention overtakes tables that are behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector, total_length
from cdc_assets.changes.retention import Overtaking, TopicRetention, overtaking, paces
from cdc_assets.operate.services import Services
from cdc_assets.operate.survey import TableSurvey

_BEHIND_SECONDS: Final = 60.0
"""Tables less far behind are skipped: no log is kept for so short a time."""

_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class RetentionState:
    """The state of a table that is behind with regard to its log's retention.

    Attributes:
        overtaking: when unread changes begin to be lost; None if they will not be, or if unknown.
        lost: the number of offsets that were never merged and are gone already.
    """

    overtaking: Overtaking | None = None
    lost: int = 0

    @property
    def is_near(self) -> bool:
        """Whether it is time to warn."""
        return self.lost > 0 or (self.overtaking is not None and self.overtaking.is_near)

    def words(self) -> str:
        """Returns a warning for people; empty as long as there is time."""
        if self.lost:
            return f"the log's retention has overtaken it: {self.lost:,} changes are lost"
        if not self.is_near or self.overtaking is None:
            return ""
        when = f"{self.overtaking.at.astimezone(UTC):%Y-%m-%d %H:%M}Z"
        return (
            f"from {when} on changes that wait will be lost ({self.overtaking.by}) → "
            "resume the table before, or raise the topic's retention"
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the state for JSON."""
        found = self.overtaking
        return {
            "lost_from": found.at.astimezone(UTC).isoformat() if found else None,
            "by": found.by if found else None,
            "is_near": self.is_near,
            "lost": self.lost,
        }


def retained(
    services: Services, tables: Sequence[TableSurvey], now: datetime
) -> dict[TableName, RetentionState]:
    """Predicts for all tables that are behind, for whatever reason, with few requests in all.

    Raises:
        UnreachableError: if Kafka does not answer.
    """
    behind = [each for each in tables if _is_behind(each, now)]
    if not behind:
        return {}
    topics = sorted({each.entry.topic for each in behind})
    kept = services.log.retention(topics)
    hour_ago = _hour_ago(services, [t for t in topics if t in kept and kept[t].size], now)
    return {each.table: _of(each, kept.get(each.entry.topic), hour_ago, now) for each in behind}


def _is_behind(table: TableSurvey, now: datetime) -> bool:
    seconds = table.lag_seconds(now)
    return bool(table.lag_changes) and seconds is not None and seconds > _BEHIND_SECONDS


def _hour_ago(
    services: Services, topics: Sequence[str], now: datetime
) -> Mapping[str, OffsetVector]:
    if not topics:
        return {}
    found = services.log.offsets_at(topics, [now - _HOUR])
    return {topic: vector for (topic, _), vector in found.items()}


def _of(
    table: TableSurvey,
    kept: TopicRetention | None,
    hour_ago: Mapping[str, OffsetVector],
    now: datetime,
) -> RetentionState:
    marks = table.marks
    if marks is None:
        return RetentionState()
    lost = total_length(table.committed.ranges_to(marks.begin)) if table.published else 0
    if kept is None:
        return RetentionState(lost=lost)
    came = hour_ago.get(table.entry.topic, marks.end)
    found = paces(marks.begin, marks.end, table.position, came)
    return RetentionState(overtaking(kept, table.oldest_unread, found, now), lost)
