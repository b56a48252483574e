"""Models a topic: records in the order of production, and places where batches may end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cdc_assets_tests.model.change import Change, Coordinate, Position

Vector: TypeAlias = Mapping[int, int]
"""The next-to-read offset of each partition."""

Pair: TypeAlias = tuple[Coordinate, Coordinate]


@dataclass(frozen=True, slots=True)
class Record:
    """The content of one offset.

    Attributes:
        changes: as decoded; none for a tombstone or a gap.
        width: number of columns in its schema.
        is_bad: whether it cannot be decoded until the configuration is fixed.
    """

    partition: int
    offset: int
    changes: tuple[Change, ...]
    width: int = 1
    is_bad: bool = False

    @property
    def coordinate(self) -> Coordinate:
        """Partition and offset."""
        return (self.partition, self.offset)


@dataclass(frozen=True, slots=True)
class Marks:
    """One look at the topic.

    Attributes:
        ends: of each existing partition.
        was_raised: whether partitions were added. A real topic does not tell that.
    """

    ends: Vector
    was_raised: bool


@dataclass(frozen=True, slots=True)
class Topic:
    """Everything that a topic will ever contain; the part produced so far is in the world.

    Attributes:
        records: in the order of production.
        partitions: number at first.
        raised: numbers of records at which a partition is added.
        barriers: offset vectors; a batch that crosses one in any partition reads up to it in
            all of them. Keyless tables only.
        pairs: the two halves of changed keys that leave values alone.
    """

    records: tuple[Record, ...]
    partitions: int
    raised: tuple[int, ...] = ()
    barriers: tuple[Vector, ...] = ()
    pairs: tuple[Pair, ...] = ()
    _marks: dict[int, Marks] = field(default_factory=dict[int, Marks], compare=False, repr=False)

    def marks(self, produced: int) -> Marks:
        """Returns the bounds after so many records."""
        if produced not in self._marks:
            added = sum(1 for at in self.raised if at <= produced)
            ends = dict.fromkeys(range(self.partitions + added), 0)
            for record in self.records[:produced]:
                ends[record.partition] = record.offset + 1
            self._marks[produced] = Marks(ends, was_raised=added > 0)
        return self._marks[produced]

    def between(self, start: Vector, end: Vector) -> list[Record]:
        """Returns the records from one vector (inclusive) to another (exclusive)."""
        return [
            each
            for each in self.records
            if start.get(each.partition, 0) <= each.offset < end.get(each.partition, 0)
        ]

    def events(self, coordinates: Collection[Coordinate]) -> frozenset[Position]:
        """Returns the events that the records deliver; snapshot rows belong to no event."""
        changes = (
            c for each in self.records if each.coordinate in coordinates for c in each.changes
        )
        return frozenset(change.identity for change in changes if change.identity is not None)

    def cut(self, start: Vector, marks: Marks, shares: Sequence[float], *, whole: bool) -> Vector:
        """Returns the end of a batch that takes these shares, at least one offset each.

        Args:
            start: begin of the batch.
            marks: the bounds of the topic.
            shares: shares of the unread offsets, 0 to 1, by partition, repeated as needed.
            whole: whether it takes both halves of changed keys.
        """
        wanted = dict(start)
        for partition, end in marks.ends.items():
            at = start.get(partition, 0)
            share = shares[partition % len(shares)]
            wanted[partition] = at + min(end - at, max(1, int((end - at) * share)))
        return self._allowed(wanted, marks, self.pairs if whole else ())

    def splits(self, vector: Vector) -> bool:
        """Returns whether a vector is between two halves of a changed key."""
        return any(len({o < vector.get(p, 0) for p, o in pair}) > 1 for pair in self.pairs)

    def _allowed(self, wanted: Vector, marks: Marks, pairs: Iterable[Pair]) -> Vector:
        reached = dict(wanted)
        for barrier in self.barriers:
            if any(at > barrier.get(partition, 0) for partition, at in wanted.items()):
                for partition, at in barrier.items():
                    reached[partition] = max(reached.get(partition, 0), at)
        for pair in pairs:
            if any(offset < reached.get(partition, 0) for partition, offset in pair):
                for partition, offset in pair:
                    there = min(offset + 1, marks.ends.get(partition, 0))
                    reached[partition] = max(reached.get(partition, 0), there)
        return reached if reached == wanted else self._allowed(reached, marks, pairs)
