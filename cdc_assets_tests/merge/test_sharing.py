"""What a batch may hold to lie within what was read of its topic before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.offsets import OffsetRange, total_length
from cdc_assets.merge.intake.shared_reading import Ranges, cut_to, holds

READ: Ranges = (OffsetRange(0, 10, 20), OffsetRange(1, 5, 9))
NEXT: Ranges = (OffsetRange(0, 20, 30),)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("wanted", "cut"),
    [
        ((OffsetRange(0, 10, 20),), (OffsetRange(0, 10, 20),)),
        ((OffsetRange(0, 12, 99), OffsetRange(1, 5, 8)),
         (OffsetRange(0, 12, 20), OffsetRange(1, 5, 8))),
        ((OffsetRange(0, 20, 99),), (OffsetRange(0, 20, 30),)),
        ((OffsetRange(0, 30, 99),), (OffsetRange(0, 30, 99),)),
        ((OffsetRange(0, 0, 99),), (OffsetRange(0, 0, 10),)),
        ((OffsetRange(0, 0, 7),), (OffsetRange(0, 0, 7),)),
        ((OffsetRange(0, 0, 99), OffsetRange(1, 6, 20)), (OffsetRange(1, 6, 9),)),
        ((OffsetRange(2, 0, 4), OffsetRange(1, 9, 20)), (OffsetRange(2, 0, 4),
                                                         OffsetRange(1, 9, 20))),
        ((OffsetRange(0, 30, 30), OffsetRange(1, 9, 20)), (OffsetRange(1, 9, 20),)),
    ],
    ids=["the same", "a part", "the next", "beyond", "behind", "far behind", "one partition first",
         "other partitions", "an empty one"],
)  # fmt: skip
def test_a_batch_is_cut_to_what_was_read(wanted: Ranges, cut: Ranges) -> None:
    assert cut_to([READ, NEXT], wanted) == cut


def partitions(*, may_be_empty: bool) -> st.SearchStrategy[Ranges]:
    length = st.integers(0 if may_be_empty else 1, 6)
    one = st.tuples(st.integers(0, 8), length)
    found = st.dictionaries(st.integers(0, 2), one, min_size=1)
    return found.map(
        lambda them: tuple(OffsetRange(p, at, at + n) for p, (at, n) in sorted(them.items()))
    )


@pytest.mark.property
@given(
    st.lists(partitions(may_be_empty=False), max_size=3), partitions(may_be_empty=True)
)  # fmt: skip
def test_all_is_merged_once_and_each_batch_is_read_or_not(
    readings: list[Ranges], wanted: Ranges
) -> None:
    """No batch is of some records that were read for others and some that were not."""
    left = {each.partition: each for each in wanted}
    while total := total_length(tuple(left.values())):
        batch = cut_to(readings, tuple(left.values()))
        assert 0 < total_length(batch) <= total
        read = [{(r.partition, at) for r in each for at in range(r.start, r.end)}
                for each in readings]  # fmt: skip
        mine = {(r.partition, at) for r in batch for at in range(r.start, r.end)}
        assert any(holds(each, batch) for each in readings) == any(mine <= each for each in read)
        begins = {(r.partition, r.start) for r in batch}
        assert any(mine <= each for each in read) or not any(begins & each for each in read)
        for each in batch:
            assert each.start == left[each.partition].start
            left[each.partition] = OffsetRange(each.partition, each.end, left[each.partition].end)
