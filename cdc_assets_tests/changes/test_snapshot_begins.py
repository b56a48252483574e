"""Where snapshots begin, learnt batch by batch, is where they begin in the log as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.changes.position import LowWatermarks, low_watermark_at, with_snapshots
from cdc_assets_tests.toy.profiles import examples

Topic = Mapping[int, Sequence[int | None]]
"""By partition, the LSN of a row of a snapshot, or None for a change."""


@dataclass
class Reader:
    """Reads a topic in batches; ``readings`` counts those that had to be read once more."""

    topic: Topic
    low_watermarks: LowWatermarks
    readings: int = 0

    def read(self, *ranges: OffsetRange) -> None:
        lsns = [lsn for each in ranges for lsn in self._rows(each).values()]
        starts = {each.partition: each.start for each in ranges}

        def begins() -> dict[tuple[int, int], int]:
            self.readings += 1
            return {
                (each.partition, lsn): min(o for o, own in rows.items() if own == lsn)
                for each in ranges
                for rows in [self._rows(each)]
                for lsn in rows.values()
            }

        newest = max(lsns, default=None)
        self.low_watermarks = with_snapshots(self.low_watermarks, starts, newest, begins)

    def _rows(self, each: OffsetRange) -> dict[int, int]:
        read = enumerate(self.topic[each.partition][each.start : each.end], start=each.start)
        return {offset: lsn for offset, lsn in read if lsn is not None}


def reader(topic: Topic) -> Reader:
    return Reader(topic, dict.fromkeys(topic, ()))


def exact(topic: Topic, partition: int, offset: int) -> int:
    return max((lsn for lsn in topic[partition][:offset] if lsn is not None), default=0)


@pytest.mark.unit
def test_a_snapshot_that_comes_to_a_partition_in_a_later_batch_counts_there() -> None:
    made = reader({0: [100] * 9, 1: [100, None]})
    made.read(OffsetRange(0, 0, 5))
    made.read(OffsetRange(0, 5, 9), OffsetRange(1, 0, 1))
    made.read(OffsetRange(1, 1, 2))
    assert low_watermark_at(made.low_watermarks, 1, 1) == 100


@pytest.mark.unit
def test_a_snapshot_does_not_count_where_it_has_not_begun() -> None:
    made = reader({0: [200], 1: [None] * 20 + [200, None]})
    made.read(OffsetRange(0, 0, 1), OffsetRange(1, 0, 10))
    made.read(OffsetRange(1, 10, 22))
    assert [low_watermark_at(made.low_watermarks, 1, offset) for offset in (10, 21)] == [0, 200]


@pytest.mark.unit
def test_a_snapshot_that_is_known_everywhere_costs_no_reading() -> None:
    made = reader({0: [100] * 9, 1: [100] * 9})
    for start in range(0, 9, 3):
        made.read(OffsetRange(0, start, start + 3), OffsetRange(1, start, start + 3))
    assert made.readings == 1
    made.read()
    assert made.readings == 1


SENT = st.tuples(st.integers(0, 3), st.sampled_from([0, 0, 0, 100]), st.booleans())


@st.composite
def topics(draw: st.DrawFn) -> Topic:
    """Snapshots one after the other, with changes amid them."""
    topic: dict[int, list[int | None]] = {p: [] for p in range(4)}
    lsn = 100
    for partition, later, is_row in draw(st.lists(SENT, max_size=40)):
        lsn += later
        topic[partition].append(lsn if is_row else None)
    return topic


@pytest.mark.property
@given(st.data())
@examples(200)
def test_every_change_has_the_watermark_of_its_place_however_the_log_is_cut(
    data: st.DataObject,
) -> None:
    topic = data.draw(topics())
    made, at = reader(topic), dict.fromkeys(topic, 0)
    while any(at[p] < len(log) for p, log in topic.items()):
        to = {p: data.draw(st.integers(at[p], len(log))) for p, log in topic.items()}
        ranges = [OffsetRange(p, at[p], end) for p, end in to.items() if at[p] < end]
        made.read(*ranges)
        for each in ranges:
            for offset in range(each.start, each.end):
                found = low_watermark_at(made.low_watermarks, each.partition, offset)
                assert found == exact(topic, each.partition, offset)
        at = to
    again = data.draw(st.sampled_from(sorted(topic)))
    before = made.low_watermarks
    made.read(OffsetRange(again, 0, len(topic[again])))
    for partition, log in topic.items():
        for offset in range(len(log)):
            assert low_watermark_at(made.low_watermarks, partition, offset) == low_watermark_at(
                before, partition, offset
            )
