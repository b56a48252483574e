"""Values of planning: a planned batch, and the offsets that it is planned for.

Reckons with offset ranges: the rest of some, and those around single records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cdc_assets.changes.offsets import Coordinate, OffsetRange, OffsetVector
from cdc_assets.merge.plan.plan import BatchPlan

RequireWhole = Callable[[Mapping[int, int]], None]
"""Raises if a batch ends within a transaction, given the offset of each partition's newest change;
see `Patience.require_whole`."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A planned batch, with figures about the rest of the log.

    Attributes:
        plan: of the batch.
        unread: number of offsets that were not merged when it was planned.
        may_grow: whether a longer batch would take more, outside of the hour too.
        require_whole: checks that the batch does not end while its newest transaction is being
            sent again; see `Patience.require_whole`.
    """

    plan: BatchPlan
    unread: int
    may_grow: bool = False
    require_whole: RequireWhole = lambda _: None


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets of a batch.

    Attributes:
        ranges: read; half-open, as all ranges.
        start, end: committed offsets before and after: the next to be read. Equal for a replay.
    """

    ranges: tuple[OffsetRange, ...]
    start: OffsetVector
    end: OffsetVector

    @classmethod
    def after(cls, start: OffsetVector, ranges: tuple[OffsetRange, ...]) -> Offsets:
        """Returns those of a batch that commits the ends of its ranges."""
        ends = OffsetVector.of({each.partition: each.end for each in ranges})
        return cls(ranges, start, start.merged_max(ends))


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
