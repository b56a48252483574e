"""Finds keys in doubt: compares ranges of keys by checksum, then rows where these differ.

The two sides are read at different moments. Whether a key in doubt really differs is judged by
`cdc_assets.merge.verifying.judging`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cdc_assets.databases.rows import SourceRows
from cdc_assets.databases.statements import Range
from cdc_assets.merge.verifying.lake_rows import LakeRows
from cdc_assets.merge.verifying.pace import Pace
from cdc_assets.schema.comparing import Key, Sum

MOST_BUCKETS: Final = 20_000
UNORDERED_BUCKETS: Final = 2_000
"""Buckets in one statement, where the database reads the whole table for each statement."""

UNORDERED_CHUNKS: Final = 10
"""Chunks whose rows are read by one statement there; the lake's are in memory meanwhile."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Doubts:
    """Keys in doubt; whether there are more; number of the source's rows."""

    keys: tuple[Key, ...]
    has_more: bool
    rows: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of rows for one checksum and for one read, and the limit for keys in doubt."""

    bucket_rows: int
    chunk_rows: int
    most_keys: int

    def summed(self, *, is_ordered: bool) -> int:
        """Returns the number of buckets of which one statement reads checksums."""
        return self._per_chunk if is_ordered else UNORDERED_BUCKETS

    def read(self, *, is_ordered: bool) -> int:
        """Returns the number of buckets of which one statement reads rows."""
        if is_ordered:
            return self._per_chunk
        return min(UNORDERED_BUCKETS, UNORDERED_CHUNKS * self._per_chunk)

    @property
    def _per_chunk(self) -> int:
        return max(1, self.chunk_rows // self.bucket_rows)


@dataclass(frozen=True, slots=True)
class ComparedRanges:
    """Ranges of keys whose checksums were compared.

    Attributes:
        bounds: the keys that divide the ranges, ascending; range n + 1 begins with the n-th.
        here: the sums of the source's rows by the number of their range, for ranges with rows.
        differing: the numbers of the ranges whose sums differ, ascending.
        sizes: the sizes of the ranges.
    """

    bounds: tuple[Key, ...]
    here: Mapping[int, Sum]
    differing: tuple[int, ...]
    sizes: Sizes

    @property
    def rows(self) -> int:
        """The number of the source's rows."""
        return sum(each.count for each in self.here.values())

    def rows_in(self, number: int) -> int:
        """Returns the number of the source's rows in a range."""
        return self.here.get(number, Sum()).count

    def of(self, numbers: range) -> Range:
        """Returns the keys of some consecutive ranges, with the bounds between these."""
        bounds = self.bounds
        start = bounds[numbers.start - 1] if numbers.start else None
        end = bounds[numbers.stop - 1] if numbers.stop <= len(bounds) else None
        return Range(start, end, tuple(bounds[numbers.start : numbers.stop - 1]))


def compared_ranges(
    source: SourceRows, lake: LakeRows, sizes: Sizes, pace: Pace, say: Say
) -> ComparedRanges:
    """Compares the checksums of ranges of keys, which cover all rows of both sides.

    Args:
        source: the source's rows.
        lake: the lake's rows.
        sizes: of ranges.
        pace: limit for reading the source.
        say: called with messages about progress.
    """
    with pace.step("lake: checksums"):
        bounds, every = _thinned(lake.bounds(sizes.bucket_rows))
        there = lake.sums(bounds)
    sizes = replace(sizes, bucket_rows=sizes.bucket_rows * every)
    whole, is_ordered = sum(each.count for each in there.values()), source.is_ordered
    here = dict[int, Sum]()
    found = ComparedRanges(bounds, here, (), sizes)
    for chunk in _chunks(len(bounds) + 1, sizes.summed(is_ordered=is_ordered)):
        begun = pace.clock()
        with pace.step("source: checksums"):
            sums = source.sums(found.of(chunk))
        here |= {chunk.start + n: each for n, each in sums.items()}
        count = sum(each.count for each in sums.values())
        say(f"{chunk.stop} of {len(bounds) + 1} ranges compared")
        pace.rest(count if is_ordered else max(whole, count), begun)
    differing = sorted(n for n in here.keys() | there.keys() if here.get(n) != there.get(n))
    if differing:
        say(f"{len(differing)} of {len(bounds) + 1} ranges differ at a first look")
    return replace(found, differing=tuple(differing))


def doubts(
    source: SourceRows, head: Callable[[], LakeRows], sizes: Sizes, pace: Pace, say: Say
) -> Doubts:
    """Compares checksums, then the rows of those ranges that differ.

    Args:
        source: the source's rows.
        head: returns the lake's present rows.
        sizes: of ranges.
        pace: limit for reading the source.
        say: called with messages about progress.
    """
    ranges, is_ordered = compared_ranges(source, head(), sizes, pace, say), source.is_ordered
    found: list[Key] = []
    at_once = ranges.sizes.read(is_ordered=is_ordered)
    for n in range(0, len(ranges.differing), at_once):
        some, begun = ranges.differing[n : n + at_once], pace.clock()
        with pace.step("source and lake: rows"):
            for key in _differing(source, head(), ranges, some):
                if len(found) == sizes.most_keys:
                    return Doubts(tuple(found), True, ranges.rows)
                found.append(key)
        count = sum(map(ranges.rows_in, some))
        pace.rest(count if is_ordered else ranges.rows, begun)
    return Doubts(tuple(found), False, ranges.rows)


def _differing(
    source: SourceRows, lake: LakeRows, ranges: ComparedRanges, numbers: Sequence[int]
) -> Iterator[Key]:
    """Yields the keys of some ranges whose rows differ."""
    there = dict(lake.digests(ranges.bounds, numbers))
    for key, digest in source.digests([ranges.of(range(n, n + 1)) for n in numbers]):
        if there.pop(key, ()) != (digest,):
            yield key
    yield from there


def _thinned(bounds: Sequence[Key]) -> tuple[tuple[Key, ...], int]:
    """Returns every so manieth bound, not too many, and every how manieth it is."""
    each = len(bounds) // MOST_BUCKETS + 1
    return tuple(bounds[::each]), each


def _chunks(buckets: int, each: int) -> Iterator[range]:
    return (range(n, min(n + each, buckets)) for n in range(0, buckets, each))
