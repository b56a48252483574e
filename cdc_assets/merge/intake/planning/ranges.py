"""Reckons with offset ranges: the rest of some, and those around single records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from cdc_assets.changes.offsets import Coordinate, OffsetRange


def rest_of(ranges: Sequence[OffsetRange], done: Sequence[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Returns the rest of ranges after some of their beginnings; none is empty."""
    ends = {each.partition: each.end for each in done}
    left = (replace(each, start=ends.get(each.partition, each.start)) for each in ranges)
    return tuple(each for each in left if each.length)


def spans(coordinates: Sequence[Coordinate]) -> tuple[OffsetRange, ...]:
    """Returns the shortest range of each partition that has all of its coordinates."""
    offsets: dict[int, list[int]] = defaultdict(list)
    for each in coordinates:
        offsets[each.partition].append(each.offset)
    return tuple(OffsetRange(p, min(at), max(at) + 1) for p, at in sorted(offsets.items()))
