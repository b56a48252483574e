"""The hour to read next is found by few questions, however many hours there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.operate.hours import hours_to_read
from cdc_assets_tests.world import NOW

pytestmark = pytest.mark.unit

ANCIENT = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass
class Log:
    """A topic of one partition with records of these times."""

    times: Sequence[datetime]
    asked: int = 0

    def offsets_at(self, topics: Sequence[str], times: Sequence[datetime]) -> Mapping[Any, Any]:
        self.asked += len(times)
        return {(topics[0], at): OffsetVector.of({0: self.first_at(at)}) for at in times}

    def first_at(self, time: datetime) -> int:
        found = (n for n, at in enumerate(self.times) if at >= time)
        return next(found, len(self.times))

    def first_unread(self, positions: Mapping[str, OffsetVector]) -> dict[str, datetime]:
        return {topic: self.times[at.get(0)] for topic, at in positions.items()}

    def hour(self, position: int) -> str:
        return hours_to_read(cast("Any", self), {"t": OffsetVector.of({0: position})}, NOW)["t"].key


def test_a_record_of_years_ago_among_others_is_of_the_hour_of_these() -> None:
    log = Log([NOW - timedelta(minutes=90), ANCIENT, NOW - timedelta(minutes=80), NOW])
    assert log.hour(1) == "2026-03-04-11:00"
    assert log.asked < 20, "there are 1,500 hours before it"


def test_the_hour_of_the_first_record_needs_one_more_question() -> None:
    log = Log([NOW - timedelta(days=40), NOW])
    assert log.hour(0) == "2026-01-23-12:00"
    assert log.asked == 2
    assert log.hour(1) == "2026-03-04-12:00"


def test_a_record_of_the_future_is_read_in_the_present_hour() -> None:
    log = Log([NOW + timedelta(days=9), NOW - timedelta(hours=3), NOW])
    assert [log.hour(at) for at in range(3)] == ["2026-03-04-12:00"] * 3
