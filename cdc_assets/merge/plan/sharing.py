"""Cuts a batch so that it lies within what was read of its topic for other tables of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cdc_assets.changes.offsets import OffsetRange, total_length

Ranges = tuple[OffsetRange, ...]
"""At most one of each partition."""


def cut_to(readings: Sequence[Ranges], ranges: Ranges) -> Ranges:
    """The beginning of ranges that lies within one reading, or before the next; none is empty.

    Partitions may move on one after the other: what is left out here is for a later batch.

    Args:
        readings: what was read, in any order.
        ranges: what a table has not merged yet.
    """
    for reading in readings:
        found = tuple(each for each in map(_Within(reading), ranges) if each.length)
        if found:
            return found
    return tuple(_before(readings, each) for each in ranges if each.length)


def holds(reading: Ranges, ranges: Ranges) -> bool:
    """Whether all of ranges lies within a reading."""
    return bool(ranges) and total_length(tuple(map(_Within(reading), ranges))) == total_length(
        ranges
    )


class _Within:
    """The beginning of a range that lies within its partition's; empty if it begins outside."""

    def __init__(self, reading: Ranges) -> None:
        self._by_partition = {each.partition: each for each in reading}

    def __call__(self, wanted: OffsetRange) -> OffsetRange:
        there = self._by_partition.get(wanted.partition)
        if there is None or not there.start <= wanted.start < there.end:
            return replace(wanted, end=wanted.start)
        return replace(wanted, end=min(wanted.end, there.end))


def _before(readings: Sequence[Ranges], wanted: OffsetRange) -> OffsetRange:
    starts = (each.start for reading in readings for each in reading
              if each.partition == wanted.partition and each.start > wanted.start)  # fmt: skip
    return replace(wanted, end=min(wanted.end, *starts, wanted.end))
