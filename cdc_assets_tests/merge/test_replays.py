"""A replay reads what a table has merged, from the table's own beginning on."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.offsets import OffsetRange, OffsetVector
from cdc_assets.errors import LostRangeError
from cdc_assets.lake import Published
from cdc_assets.lake.carried import Carried
from cdc_assets.log.hours import WindowOffsets, hour_of
from cdc_assets.log.values import Watermarks
from cdc_assets.merge.intake.planning.plans import Replays, merged_part
from cdc_assets.registry import TableEntry

AT = datetime(2026, 3, 4, tzinfo=UTC)
HOUR = hour_of(AT)
ENTRY = TableEntry(TableName("s", "public", "t"), "t", LakeName("n", "t"), AT)
PARTITIONS = (0, 1)
OFFSETS = st.fixed_dictionaries(dict.fromkeys(PARTITIONS, st.integers(0, 30)))


def at(*offsets: int) -> OffsetVector:
    return OffsetVector.of(dict(enumerate(offsets)))


def published(own: OffsetVector | None, committed: OffsetVector) -> Published:
    carried = Carried(read_from=own)
    return Published(committed, committed, "t", "topic", "c", "a", "r", "tail", AT, carried)


def replays(
    own: OffsetVector | None,
    committed: OffsetVector,
    *,
    hour: WindowOffsets | None = None,
    log_begin: OffsetVector | None = None,
    kept: tuple[Published, ...] = (),
    topic_id: str = "topic",
) -> Replays:
    newest = SimpleNamespace(published=replace(published(own, committed), topic_id=topic_id))
    marks = Watermarks(log_begin or at(0, 0), committed)
    topics = SimpleNamespace(in_hour=lambda *_: hour, marks=lambda _: marks)
    lake = SimpleNamespace(state=lambda *_: newest, history=lambda *_: kept)
    configured = SimpleNamespace(mode=lambda _: Mode.CHANGELOG)
    return Replays(cast("Any", configured), cast("Any", lake), cast("Any", topics))


@pytest.mark.property
@given(OFFSETS, OFFSETS, st.lists(st.integers(0, 30), min_size=4, max_size=4))
def test_nothing_is_read_that_another_table_has_put_there(
    own: dict[int, int], committed: dict[int, int], bounds: list[int]
) -> None:
    one, other = sorted(bounds[:2]), sorted(bounds[2:])
    given_ranges = (OffsetRange(0, *one), OffsetRange(1, *other))
    wanted = {(p, n) for p, (a, b) in enumerate((one, other)) for n in range(a, b)}
    mine = {(p, n) for p, n in wanted if own[p] <= n}

    def read(ranges: tuple[OffsetRange, ...]) -> set[tuple[int, int]]:
        assert all(each.length for each in ranges)
        return {(each.partition, n) for each in ranges for n in range(each.start, each.end)}

    all_of_it = merged_part(published(OffsetVector.of(own), at(30, 30)), given_ranges)
    assert read(all_of_it) == mine
    hour = WindowOffsets(at(one[0], other[0]), at(one[1], other[1]))
    merged = replays(OffsetVector.of(own), OffsetVector.of(committed), hour=hour)
    assert read(merged.ranges(ENTRY, HOUR)) == {(p, n) for p, n in mine if n < committed[p]}


@pytest.mark.unit
def test_a_table_with_all_of_its_topic_is_replayed_from_anywhere() -> None:
    ranges = (OffsetRange(0, 0, 5), OffsetRange(1, 3, 3))
    assert merged_part(published(None, at(5, 5)), ranges) == ranges[:1]


@pytest.mark.unit
def test_what_was_never_merged_is_no_replay() -> None:
    part = merged_part(published(at(4, 0), at(5, 5)), (OffsetRange(0, 3, 6), OffsetRange(1, 5, 9)))
    assert part == (OffsetRange(0, 4, 5),)


@pytest.mark.unit
@pytest.mark.parametrize(("own", "is_lost"), [(7, False), (6, True)], ids=str)
def test_what_the_log_has_lost_is_not_missed_before_the_beginning(own: int, is_lost: bool) -> None:
    hour = WindowOffsets(at(7, 0), at(9, 0))
    made = replays(at(own, 0), at(9, 0), hour=hour, log_begin=at(7, 0))
    if is_lost:
        with pytest.raises(LostRangeError, match=r"0:\[0,7\) is gone"):
            made.ranges(ENTRY, HOUR)
    else:
        assert made.ranges(ENTRY, HOUR) == (OffsetRange(0, 7, 9),)


EMPTIED = WindowOffsets(at(7, 5), at(9, 5))
"""An hour of a log whose second partition has lost all its five records."""


@pytest.mark.unit
@pytest.mark.parametrize(
    ("merged", "before", "topic_id", "generation", "first", "is_lost"),
    [
        (at(0, 5), timedelta(0), "topic", 0, AT - timedelta(days=1), False),
        (at(0, 4), timedelta(0), "topic", 0, AT - timedelta(days=1), True),
        (at(0, 5), timedelta(seconds=-1), "topic", 0, AT - timedelta(days=1), True),
        (at(0, 5), timedelta(0), "another", 0, AT - timedelta(days=1), True),
        (at(0, 5), timedelta(0), "", 0, AT - timedelta(days=1), True),
        (at(0, 5), timedelta(0), "topic", 1, AT - timedelta(days=1), True),
        (at(0, 5), timedelta(0), "topic", 0, AT, True),
    ],
    ids=[
        "merged", "one was not", "within the hour", "of another topic", "of an unknown topic",
        "before a rebuild", "the first hour",
    ],
)  # fmt: skip
def test_records_merged_before_the_hour_are_not_missed(
    merged: OffsetVector,
    before: timedelta,
    topic_id: str,
    generation: int,
    first: datetime,
    is_lost: bool,
) -> None:
    older = replace(published(None, merged), published_at=AT - before, topic_id=topic_id)
    older = replace(older, carried=replace(older.carried, generation=generation))
    newest = replace(published(None, at(9, 5)), published_at=AT + timedelta(days=1))
    known = topic_id and "topic"  # a broker without ids has none for either
    made = replays(
        None, at(9, 5), hour=EMPTIED, log_begin=at(0, 5), kept=(newest, older), topic_id=known
    )
    entry = replace(ENTRY, hours_from=first)
    if is_lost:
        with pytest.raises(LostRangeError, match=r"hour 2026-03-04-00:00: 1:\[0,5\) is gone"):
            made.ranges(entry, HOUR)
    else:
        assert made.ranges(entry, HOUR) == (OffsetRange(0, 7, 9),)
