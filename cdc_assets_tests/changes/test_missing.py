"""What a table lacks below its offsets is what its batches have refused, and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.missing import Missing
from cdc_assets.changes.offsets import Coordinate, OffsetRange

PLACES = st.frozensets(st.tuples(st.integers(0, 3), st.integers(0, 50)))


def at(partition: int, offset: int) -> Coordinate:
    return Coordinate("t", partition, offset)


@pytest.mark.property
@given(PLACES)
def test_what_is_written_is_read(places: frozenset[tuple[int, int]]) -> None:
    missing = Missing(places)
    assert Missing.from_dict(json.loads(json.dumps(missing.to_dict()))) == missing


@pytest.mark.property
@given(PLACES, PLACES)
def test_a_batch_leaves_what_it_has_not_read_and_adds_what_it_has_refused(
    before: frozenset[tuple[int, int]], read: frozenset[tuple[int, int]]
) -> None:
    ranges = [OffsetRange(1, 10, 30), OffsetRange(3, 0, 5)]
    refused = {(p, o) for p, o in read if any(r.partition == p and r.start <= o < r.end
                                              for r in ranges)}  # fmt: skip
    after = Missing(before).after(ranges, Missing(frozenset(refused)))
    for partition in range(4):
        for offset in range(51):
            is_read = (partition == 1 and 10 <= offset < 30) or (partition == 3 and offset < 5)
            lacks = (partition, offset) in (refused if is_read else before)
            assert (at(partition, offset) in after) is lacks


@pytest.mark.unit
def test_what_is_merged_later_is_not_missing_any_more() -> None:
    missing = Missing.of([at(0, 1), at(0, 2), at(1, 1)])
    left = missing.without([at(0, 2), at(0, 9)])
    assert left == Missing.of([at(0, 1), at(1, 1)])
    assert len(left.with_(Missing.of([at(0, 1), at(0, 5)]))) == 3
