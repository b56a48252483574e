"""Finds keys in doubt: compares ranges of keys by checksum, then rows where these differ.

The two sides are read at different moments. Whether a key in doubt really differs is judged by
`cdc_assets.merge.verifying.judging`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    lake = head()
    with pace.step("lake: checksums"):
        bounds, every = _thinned(lake.bounds(sizes.bucket_rows))
        there = lake.sums(bounds)
    sizes = replace(sizes, bucket_rows=sizes.bucket_rows * every)
    whole, is_ordered = sum(each.count for each in there.values()), source.is_ordered
    here = dict[int, Sum]()
    for chunk in _chunks(len(bounds) + 1, sizes.summed(is_ordered=is_ordered)):
        within, begun = _range(bounds, chunk), pace.clock()
        with pace.step("source: checksums"):
            sums = source.sums(within)
        here |= {chunk.start + n: each for n, each in sums.items()}
        count = sum(each.count for each in sums.values())
        say(f"{chunk.stop} of {len(bounds) + 1} ranges compared")
        pace.rest(count if is_ordered else max(whole, count), begun)
    differing = sorted(n for n in here.keys() | there.keys() if here.get(n) != there.get(n))
    rows = sum(each.count for each in here.values())
    found: list[Key] = []
    if differing:
        say(f"{len(differing)} of {len(bounds) + 1} ranges differ at a first look")
    at_once = sizes.read(is_ordered=is_ordered)
    for n in range(0, len(differing), at_once):
        some, begun = differing[n : n + at_once], pace.clock()
        with pace.step("source and lake: rows"):
            for key in _differing(source, head(), bounds, some):
                if len(found) == sizes.most_keys:
                    return Doubts(tuple(found), True, rows)
                found.append(key)
        count = sum(here.get(each, Sum()).count for each in some)
        pace.rest(count if is_ordered else rows, begun)
    return Doubts(tuple(found), False, rows)


def _differing(
    source: SourceRows, lake: LakeRows, bounds: Sequence[Key], buckets: Sequence[int]
) -> Iterator[Key]:
    """Yields the keys of some buckets whose rows differ."""
    there = dict(lake.digests(bounds, buckets))
    for key, digest in source.digests([_range(bounds, range(n, n + 1)) for n in buckets]):
        if there.pop(key, ()) != (digest,):
            yield key
    yield from there


def _thinned(bounds: Sequence[Key]) -> tuple[tuple[Key, ...], int]:
    """Returns every so manieth bound, not too many, and every how manieth it is."""
    each = len(bounds) // MOST_BUCKETS + 1
    return tuple(bounds[::each]), each


def _chunks(buckets: int, each: int) -> Iterator[range]:
    return (range(n, min(n + each, buckets)) for n in range(0, buckets, each))


def _range(bounds: Sequence[Key], chunk: range) -> Range:
    """Returns the range of keys of some consecutive buckets."""
    start = bounds[chunk.start - 1] if chunk.start else None
    end = bounds[chunk.stop - 1] if chunk.stop <= len(bounds) else None
    return Range(start, end, tuple(bounds[chunk.start : chunk.stop - 1]))
