"""Checks that a table's publishes follow one another without gaps in their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from cdc_assets.changes.offsets import OffsetVector

if TYPE_CHECKING:
    from cdc_assets.lake import Published
    from cdc_assets.log.values import Watermarks

REBUILD: Final = "rebuild"
"""The kind of a publish that replaced a table with its rebuilt version: its offsets are those of
the new version, and may belong to another topic."""

PUBLISHES_CHECKED: Final = 100
"""The number of newest publishes that the check reads; older ones were checked when new."""


def gaps(newest_first: Sequence[Published], marks: Watermarks | None) -> list[str]:
    """Describes each problem in words with coordinates; empty if there is none.

    Args:
        newest_first: a table's publishes.
        marks: the log's bounds; None if the topic does not exist.
    """
    found = [
        _between(before, after, partition)
        for after, before in pairwise(newest_first)
        if after.kind != REBUILD
        for partition in _partitions(before.offsets, after.start)
        if before.offsets.get(partition) != after.start.get(partition)
    ]
    if marks is None:
        return [*found, "the topic does not exist any more"]
    return found + (_outside(newest_first[0].offsets, marks) if newest_first else [])


def _partitions(one: OffsetVector, other: OffsetVector) -> list[int]:
    return sorted(one.as_dict().keys() | other.as_dict().keys())


def _between(before: Published, after: Published, partition: int) -> str:
    return (
        f"partition {partition}: attempt {after.attempt} starts at {after.start.get(partition)}, "
        f"but attempt {before.attempt} before it ended at {before.offsets.get(partition)}"
    )


def _outside(committed: OffsetVector, marks: Watermarks) -> list[str]:
    begin = marks.begin.as_dict()
    lost = [
        f"partition {p}: offsets [{offset},{begin[p]}) left the log before they were merged"
        for p, offset in committed
        if offset < begin.get(p, 0)
    ]
    ahead = [
        f"partition {p}: committed {offset} lies beyond the log's end {marks.end.get(p)}"
        for p, offset in committed
        if offset > marks.end.get(p)
    ]
    return lost + ahead
