"""When a log's retention overtakes a table that is behind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.retention import Overtaking, ReadingPace, TopicRetention, overtaking, paces
from cdc_assets.log.settings import settings_of

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 4, 12, 30, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize(
    ("kept_days", "oldest_hours", "left_hours", "is_near"),
    [(7, 1, 167, False), (7, 143, 25, False), (7, 144, 24, True), (7, 169, -1, True),
     (1, 11, 13, False), (1, 12, 12, True)],
)  # fmt: skip
def test_the_first_unread_record_goes_no_earlier_than_its_age_says(
    kept_days: int, oldest_hours: int, left_hours: int, is_near: bool
) -> None:
    """The warning comes a day before, or when half of a shorter retention is left."""
    found = overtaking(TopicRetention(kept_days * DAY), NOW - oldest_hours * HOUR, (), NOW)
    assert found == Overtaking(NOW + left_hours * HOUR, "retention.ms", is_near)


def test_a_log_that_is_kept_for_ever_overtakes_nobody() -> None:
    assert (
        overtaking(TopicRetention(), NOW - 1000 * DAY, [ReadingPace(5, 100, 7, 1.0)], NOW) is None
    )


def test_records_without_a_time_tell_nothing_of_age() -> None:
    never = datetime.fromtimestamp(-0.001, UTC)
    assert overtaking(TopicRetention(DAY), never, (), NOW) is None
    assert overtaking(TopicRetention(DAY), None, (), NOW) is None


def test_a_log_that_is_cut_by_its_size_goes_as_fast_as_records_come() -> None:
    """7,200 offsets before the first unread one, one of them goes with each that comes."""
    found = overtaking(
        TopicRetention(size=1_000_000), None, [ReadingPace(100, 20_000, 7_300, 2.0)], NOW
    )
    assert found == Overtaking(NOW + HOUR, "retention.bytes", is_near=True)
    far = ReadingPace(100, 2_000_000, 1_900_100, 2.0)
    found = overtaking(TopicRetention(size=1_000_000), None, [far], NOW)
    assert found is not None
    assert not found.is_near


@pytest.mark.parametrize(
    "pace",
    [
        ReadingPace(0, 20_000, 7_300, 2.0),
        ReadingPace(100, 20_000, 7_300, 0.0),
        ReadingPace(100, 10**9, 10**9 - 1, 1 / 3600),
    ],
    ids=["whole", "idle", "one in an hour"],
)
def test_size_tells_nothing_before_it_has_cut_or_where_nothing_comes(pace: ReadingPace) -> None:
    assert overtaking(TopicRetention(size=1_000_000), None, [pace], NOW) is None


def test_the_earliest_of_all_counts() -> None:
    both = TopicRetention(2 * DAY, 1_000_000)
    slow, fast = ReadingPace(100, 20_000, 18_100, 0.1), ReadingPace(100, 20_000, 7_300, 2.0)
    found = overtaking(both, NOW - DAY, [slow, fast], NOW)
    assert found == Overtaking(NOW + HOUR, "retention.bytes", is_near=True)
    found = overtaking(both, NOW - DAY, [slow], NOW)
    assert found == Overtaking(NOW + DAY, "retention.ms", is_near=True)


def test_only_partitions_with_unread_records_have_a_pace() -> None:
    found = paces(
        begin=OffsetVector.of({0: 10, 1: 0, 2: 5}),
        end=OffsetVector.of({0: 7_300, 1: 50, 2: 100}),
        position=OffsetVector.of({0: 20, 1: 50}),
        hour_ago=OffsetVector.of({0: 100, 1: 50}),
    )
    assert found == (ReadingPace(10, 7_300, 20, 2.0), ReadingPace(5, 100, 0, 0.0))


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"retention.ms": "3600000", "retention.bytes": "-1"}, TopicRetention(HOUR)),
        ({"retention.ms": "-1", "retention.bytes": "1000"}, TopicRetention(None, 1000)),
        ({"retention.ms": "9223372036854775807"}, TopicRetention()),
        ({"retention.ms": "3600000", "cleanup.policy": "compact"}, TopicRetention()),
        ({"retention.ms": "3600000", "cleanup.policy": "compact, delete"}, TopicRetention(HOUR)),
        ({}, TopicRetention()),
    ],
    ids=["age", "size", "for ever", "compacted", "both", "untold"],
)
def test_a_topics_settings_say_how_long_it_keeps_records(
    settings: dict[str, str | None], kept: TopicRetention
) -> None:
    assert settings_of(settings).retention == kept
