"""Cuts a batch to the ranges of its topic that were read for other tables of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cdc_assets.changes.offsets import OffsetRange, total_length

Ranges = tuple[OffsetRange, ...]
"""At most one of each partition."""


def cut_to(readings: Sequence[Ranges], ranges: Ranges) -> Ranges:
    """Returns the beginning of ranges that one reading covers, or else up to the next reading.

    No returned range is empty. Partitions may advance one after the other: what is left out here
    is for a later batch.

    Args:
        readings: the ranges read, in any order.
        ranges: offsets that a table has not merged yet.
    """
    for reading in readings:
        found = tuple(each for each in map(_Within(reading), ranges) if each.length)
        if found:
            return found
    return tuple(_before(readings, each) for each in ranges if each.length)


def holds(reading: Ranges, ranges: Ranges) -> bool:
    """Returns whether a reading covers all of the ranges."""
    return bool(ranges) and total_length(tuple(map(_Within(reading), ranges))) == total_length(
        ranges
    )


class _Within:
    """A cut of ranges to those of a reading; empty for a range that begins outside it."""

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
