"""How many ranges of keys one statement looks at, and how the rows of some are told apart."""

from __future__ import annotations

from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.databases.statements import Range, edges
from cdc_assets.merge.verifying.narrowing import Sizes
from cdc_assets.schema.comparing import Fork, Key, tree

SIZES = Sizes(bucket_rows=1_000, chunk_rows=50_000, most_keys=10_000)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("sizes", "is_ordered", "summed", "read"),
    [
        (SIZES, True, 50, 50),
        (SIZES, False, 2_000, 500),
        (Sizes(10, 50_000, 10_000), False, 2_000, 2_000),
        (Sizes(10_000, 50_000, 10_000), False, 2_000, 50),
        (Sizes(90_000, 50_000, 10_000), True, 1, 1),
    ],
    ids=["by an index", "by reading all", "small ranges", "large ranges", "larger than a chunk"],
)
def test_where_each_statement_reads_the_whole_table_it_looks_at_more_ranges(
    sizes: Sizes, is_ordered: bool, summed: int, read: int
) -> None:
    found = sizes.summed(is_ordered=is_ordered), sizes.read(is_ordered=is_ordered)
    assert found == (summed, read)


@pytest.mark.property
@given(st.lists(st.integers(0, 99), unique=True, max_size=12), st.data())
def test_rows_of_some_ranges_are_told_apart_by_their_edges(
    cuts: list[int], data: st.DataObject
) -> None:
    bounds: list[Key] = [(f"{each:02}",) for each in sorted(cuts)]
    buckets = st.sets(st.integers(0, len(bounds)), min_size=1)
    chosen = data.draw(buckets)
    found, inside = edges([of(bounds, each) for each in sorted(chosen)])
    assert list(found) == sorted(set(found))
    for n in range(100):
        key = (f"{n:02}",)
        is_mine = bisect_right(bounds, key) in chosen
        assert (bucket(key, found) % 2 == inside) is is_mine


def of(bounds: list[Key], n: int) -> Range:
    return Range(bounds[n - 1] if n else None, bounds[n] if n < len(bounds) else None)


def bucket(key: Key, bounds: tuple[Key, ...]) -> int:
    """As a database finds it."""
    at = tree(bounds)
    while isinstance(at, Fork):
        at = at.below if key < at.bound else at.above
    return at
