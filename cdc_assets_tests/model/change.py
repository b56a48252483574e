"""Defines a change as decoded from the log, and the position that orders it.

The definition and the models of the algorithms share these types (`reference`, `keyless`,
`protocol`). No I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Op: TypeAlias = Literal["c", "u", "d", "r", "t"]
Position: TypeAlias = tuple[int, ...]
Key: TypeAlias = tuple[object, ...]
Row: TypeAlias = Mapping[str, object]
Coordinate: TypeAlias = tuple[int, int]

BEFORE_ALL: Position = ()
"""Lower than any position."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Column names of a table; ``key`` is empty if it has none."""

    key: tuple[str, ...]
    columns: tuple[str, ...]

    def key_of(self, row: Row) -> Key:
        """Returns the key of a row, in key order."""
        return tuple(row[name] for name in self.key)


@dataclass(frozen=True, slots=True)
class Change:
    """One change as decoded from the log.

    Attributes:
        position: source position, the Kafka offset last. A row of a snapshot read at S is at
            ``(S, 0, offset)``: committed at S, before every change that follows that commit.
        key: None for a truncate and for tables without a key.
        row: columns of the image without those in ``unset``; None for deletes and truncates.
            A create has all of them.
        unset: columns that hold the placeholder. An update leaves them alone. In a create they are
            undecided until resolved: see `moves`.
        before: the full row before the change, where the source sends it.
        floats: the change has no last commit; its position is as if it committed at its own
            LSN, and `LowWatermarks` lifts it.
        incremental: a snapshot row that was read while the connector streamed.
        identity: common to all deliveries of one event; None for snapshot rows.
    """

    op: Op
    position: Position
    partition: int
    offset: int
    key: Key | None = None
    row: Row | None = None
    unset: frozenset[str] = frozenset()
    ts_ms: int = 0
    before: Row | None = None
    floats: bool = False
    incremental: bool = False
    identity: Position | None = None

    @property
    def coordinate(self) -> Coordinate:
        """Partition and offset."""
        return (self.partition, self.offset)


@dataclass(frozen=True, slots=True)
class Held:
    """A row of the lake: its values, its newest change, and whether that was a delete."""

    values: Row
    position: Position
    deleted: bool = False


Placed: TypeAlias = tuple[Position, Change]
"""A change and its position."""


# ── order ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class LowWatermarks:
    """Low watermarks: LSNs of complete snapshots, with the offset where each begins.

    A floating change counts as committed at the latest complete snapshot *before it in its
    partition*. The highest known snapshot would be wrong: a change that waited in a slow
    partition, or that is replayed, would be lifted to a snapshot that came after it. Rows of
    an incremental snapshot raise no watermark.

    Not covered: a partition that is added between a snapshot and the end of the first
    transaction after it.

    Attributes:
        first: offset of the first row, by ``(partition, watermark)``.
    """

    first: Mapping[Coordinate, int] = field(default_factory=dict[Coordinate, int])

    def raised(self, changes: Iterable[Change]) -> LowWatermarks:
        """Returns the low watermarks with those of the snapshot rows among the changes."""
        first = dict(self.first)
        for change in changes:
            if change.op == "r" and not change.incremental:
                at = (change.partition, change.position[0])
                first[at] = min(first.get(at, change.offset), change.offset)
        return LowWatermarks(first)

    def at(self, partition: int, offset: int) -> int:
        """Returns the watermark of a floating change there; 0 if it has none."""
        begun = (at for at, first in self.first.items() if at[0] == partition and first < offset)
        return max((watermark for _, watermark in begun), default=0)


Order: TypeAlias = Callable[[Change, LowWatermarks], Position]


def by_position(change: Change, low_watermarks: LowWatermarks) -> Position:
    """Returns the position that decides: the source's, lifted to the low watermark if it floats."""
    watermark = low_watermarks.at(change.partition, change.offset) if change.floats else 0
    return max(change.position, (watermark, *change.position[1:]))
