"""Finds keys in doubt: compares ranges of keys by checksum, then rows where these differ.

The two sides are read at different moments. Whether a key in doubt really differs is judged by
`cdc_assets.merge.verifying.judging`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cdc_assets.databases.rows import Range, SourceRows
from cdc_assets.merge.verifying.lake_rows import LakeRows
from cdc_assets.merge.verifying.pace import Pace
from cdc_assets.schema.comparing import Key, Sum

MOST_BUCKETS: Final = 20_000
UNORDERED_BUCKETS: Final = 2_000
"""Buckets in one statement, where the database reads the whole table for each statement."""

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
        bounds = _thinned(lake.bounds(sizes.bucket_rows))
        there = lake.sums(bounds)
    here = dict[int, Sum]()
    per_chunk = max(1, sizes.chunk_rows // sizes.bucket_rows)
    for chunk in _chunks(len(bounds) + 1, per_chunk if source.is_ordered else UNORDERED_BUCKETS):
        within, begun = _range(bounds, chunk), pace.clock()
        with pace.step("source: checksums"):
            sums = source.sums(within)
        here |= {chunk.start + n: each for n, each in sums.items()}
        count = sum(each.count for each in sums.values())
        say(f"{chunk.stop} of {len(bounds) + 1} ranges compared")
        pace.rest(count, begun)
    differing = sorted(n for n in here.keys() | there.keys() if here.get(n) != there.get(n))
    rows = sum(each.count for each in here.values())
    found: list[Key] = []
    if differing:
        say(f"{len(differing)} of {len(bounds) + 1} ranges differ at a first look")
    for n in range(0, len(differing), per_chunk):
        some = differing[n : n + per_chunk]
        with pace.step("source and lake: rows"):
            for key in _differing(source, head(), bounds, some):
                if len(found) == sizes.most_keys:
                    return Doubts(tuple(found), True, rows)
                found.append(key)
        pace.rest(sum(here.get(each, Sum()).count for each in some), pace.clock())
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


def _thinned(bounds: Sequence[Key]) -> tuple[Key, ...]:
    return tuple(bounds[:: len(bounds) // MOST_BUCKETS + 1])


def _chunks(buckets: int, each: int) -> Iterator[range]:
    return (range(n, min(n + each, buckets)) for n in range(0, buckets, each))


def _range(bounds: Sequence[Key], chunk: range) -> Range:
    """Returns the range of keys of some consecutive buckets."""
    start = bounds[chunk.start - 1] if chunk.start else None
    end = bounds[chunk.stop - 1] if chunk.stop <= len(bounds) else None
    return Range(start, end, tuple(bounds[chunk.start : chunk.stop - 1]))
