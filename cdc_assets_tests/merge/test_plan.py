"""Planning: pure rules over offsets and positions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.offsets import OffsetRange, total_length
from cdc_assets.merge.plan.plan import limited

RANGES = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(1, 5000)), min_size=1, max_size=8
).map(lambda pairs: tuple(OffsetRange(p, s, s + n) for p, (s, n) in enumerate(pairs)))


@pytest.mark.property
@given(RANGES, st.integers(1, 20_000))
def test_a_limit_cuts_every_partition_and_skips_nothing(ranges, limit):
    cut = limited(ranges, limit)
    assert [(each.partition, each.start) for each in cut] == [
        (each.partition, each.start) for each in ranges
    ]
    assert all(0 < each.length <= whole.length for each, whole in zip(cut, ranges, strict=True))
    assert total_length(cut) <= limit + len(ranges)


@pytest.mark.unit
def test_a_partition_without_anything_to_read_is_given_nothing_by_a_limit():
    """What lies beyond it is of a later hour."""
    ranges = (OffsetRange(0, 5, 5), OffsetRange(1, 0, 100))
    assert limited(ranges, 10) == (OffsetRange(0, 5, 5), OffsetRange(1, 0, 10))
