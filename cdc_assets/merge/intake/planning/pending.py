"""Values of planning: a planned batch, and the offsets that it is planned for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cdc_assets.changes.offsets import OffsetRange, OffsetVector
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
