"""Plans a batch: the records to read, and the head to build on. Planning changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from cdc_assets_tests.model.change import Coordinate
from cdc_assets_tests.model.protocol.published import Published
from cdc_assets_tests.model.protocol.rules import Protocol
from cdc_assets_tests.model.protocol.topic import Marks, Record, Vector
from cdc_assets_tests.model.protocol.world import NOTHING, World

GROWTH = 8
"""The factor by which a batch that is too short grows."""


class Kind(StrEnum):
    """The purpose of a run."""

    TAIL = "tail"
    REPLAY = "replay"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class Order:
    """The work of a run: merge on, or merge again what was merged or quarantined before.

    Attributes:
        start, end: the range of a replay, as shares of the merged offsets.
    """

    kind: Kind = Kind.TAIL
    start: float = 0.0
    end: float = 1.0


@dataclass(frozen=True, slots=True)
class View:
    """One look at the lake table and its side table.

    Attributes:
        head: of ``main``.
        published: the newest publish's state; None before the first.
        width, described: as in `LakeTable`.
        side_head: head of the side table's ``main``.
        whole: whether no part of the table is missing.
    """

    head: int | None = None
    published: Published | None = None
    width: int = 0
    described: int = 0
    side_head: int | None = None
    whole: bool = False

    @property
    def before(self) -> Published:
        """The published state, empty before the first publish."""
        return self.published or NOTHING


@dataclass(frozen=True, slots=True)
class Plan:
    """A batch to merge.

    Attributes:
        view: the view that it was planned on.
        start, end: offset vectors before and after; equal if all of it was merged before.
        records: the records to read.
        partitions: of the topic.
        may_grow: whether there is more to read.
        was_raised: as in `Marks`.
    """

    view: View
    start: Vector
    end: Vector
    records: tuple[Record, ...] = field(repr=False)
    partitions: int
    may_grow: bool = False
    was_raised: bool = False


def tail(world: World, view: View, marks: Marks, limits: int, protocol: Protocol) -> Plan | None:
    """Plans the next batch from the committed offsets on; None if nothing is unread.

    The batch that first sees more partitions takes everything: keys have moved, and their older
    changes must not be left for later.
    """
    before = view.before
    start = before.offsets if protocol.offsets_with_rows else world.stored_offsets
    if all(start.get(partition, 0) >= end for partition, end in marks.ends.items()):
        return None
    shares = [min(1.0, limits * world.chance.choice((0.1, 0.3, 0.6, 1.0))) for _ in range(3)]
    is_first = view.published is None
    has_moved = before.seen != len(marks.ends)
    if has_moved if not is_first else marks.was_raised and protocol.heeds_early_partitions:
        shares = [1.0]
    end = world.topic.cut(start, marks, shares, whole=protocol.whole_moves)
    may_grow = any(end.get(partition, 0) < at for partition, at in marks.ends.items())
    records = tuple(world.topic.between(start, end))
    return Plan(view, start, end, records, len(marks.ends), may_grow, marks.was_raised)


def again(world: World, view: View, marks: Marks, order: Order) -> Plan | None:
    """Plans a batch of a part of what was merged before; None if there is nothing."""
    offsets = view.before.offsets
    low = {partition: int(at * order.start) for partition, at in offsets.items()}
    high = {partition: int(at * order.end) for partition, at in offsets.items()}
    records = tuple(world.topic.between(low, high))
    return Plan(view, offsets, offsets, records, len(marks.ends)) if records else None


def out_of_quarantine(
    world: World, view: View, marks: Marks, taken: frozenset[Coordinate]
) -> Plan | None:
    """Plans a batch of quarantined records, as far as the offsets are beyond them."""
    offsets = view.before.offsets
    records = tuple(r for r in world.topic.between({}, offsets) if r.coordinate in taken)
    return Plan(view, offsets, offsets, records, len(marks.ends)) if records else None
