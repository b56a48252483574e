"""The state recorded by a publish, and the entries of the side table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc_assets_tests.model.change import BEFORE_ALL, Coordinate, Key, LowWatermarks, Position
from cdc_assets_tests.model.protocol.topic import Vector


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the side table: a remembered delete, or a counted event.

    Attributes:
        key: the deleted key; () for an event.
        position: of the delete, or identity of the event.
        coordinate: its place in the log.
        attempt: the attempt that wrote it. The protocol never reads it; the checks do.
    """

    key: Key
    position: Position
    coordinate: Coordinate
    attempt: int


@dataclass(frozen=True, slots=True)
class Published:
    """The state that is carried from publish to publish.

    Attributes:
        offsets: next-to-read offset of each partition.
        attempt: unique number of the attempt.
        applied: highest position applied in each partition, trusted as long as the topic has
            as many ``partitions`` as at the first publish; 0: never.
        seen: number of partitions of the topic at the newest publish that moved the offsets.
        highest_delete: highest position of a remembered delete.
        truncated: position of the newest truncate.
        low_watermarks: where complete snapshots begin.
        side: the snapshot of the side table that belongs to it; None: nothing is remembered.
        missing: coordinates below the offsets whose records are not merged.
        late: coordinates of other deliveries of those that came after a delete whose row has
            stayed, with the values that it had without them. For the checks.
        entries: number of entries that count. For the checks.
    """

    offsets: Vector = field(default_factory=dict[int, int])
    attempt: int = 0
    applied: Mapping[int, Position] = field(default_factory=dict[int, Position])
    partitions: int = 0
    seen: int = 0
    highest_delete: Position = BEFORE_ALL
    truncated: Position = BEFORE_ALL
    low_watermarks: LowWatermarks = field(default_factory=LowWatermarks)
    side: int | None = None
    missing: frozenset[Coordinate] = frozenset()
    late: frozenset[Coordinate] = frozenset()
    entries: int = 0
