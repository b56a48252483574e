"""Ways to read a log: in batches whose ends may lie anywhere, and ranges read again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cdc_assets_tests.model.change import Coordinate
from cdc_assets_tests.toy.connector import Connector, Record

Vector: TypeAlias = Mapping[int, int]
Share: TypeAlias = tuple[int, int]
"""Two numbers of 0..100: parts of what there is in a partition."""


Pair: TypeAlias = tuple[Coordinate, Coordinate]
"""The two halves of a changed key."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Read on, to these next-to-read offsets."""

    to: Vector


@dataclass(frozen=True, slots=True)
class Replay:
    """Read ``[start, end)`` of these partitions again."""

    ranges: Mapping[int, tuple[int, int]]


Step: TypeAlias = Merge | Replay


def advanced(log: Connector, vector: Vector, shares: Sequence[int]) -> Vector:
    """Further by a share (0..100, one per partition) of what is unread, as the barriers allow."""
    wanted = {
        partition: at + (end - at) * share // 100
        for (partition, end), share in zip(log.ends.items(), shares, strict=False)
        for at in [vector.get(partition, 0)]
    }
    return _allowed(wanted, log.barriers, log.pairs)


def _allowed(wanted: Vector, barriers: Sequence[Vector], pairs: Sequence[Pair]) -> Vector:
    """A batch reads up to each barrier that it crosses, and both halves of changed keys."""
    allowed = _with_pairs(_to_barrier(wanted, barriers), pairs)
    return allowed if allowed == wanted else _allowed(allowed, barriers, pairs)


def _to_barrier(wanted: Vector, barriers: Sequence[Vector]) -> Vector:
    for barrier in reversed(barriers):
        if any(at > barrier.get(partition, 0) for partition, at in wanted.items()):
            return {p: max(at, barrier.get(p, 0)) for p, at in wanted.items()}
    return wanted


def _with_pairs(wanted: Vector, pairs: Sequence[Pair]) -> Vector:
    reached = dict(wanted)
    for pair in pairs:
        if any(offset < reached.get(partition, 0) for partition, offset in pair):
            for partition, offset in pair:
                reached[partition] = max(reached.get(partition, 0), offset + 1)
    return reached


def earlier(vector: Vector, shares: Sequence[Share]) -> Replay:
    """A range of each partition that was read before."""
    ranges: dict[int, tuple[int, int]] = {}
    for (partition, end), bounds in zip(vector.items(), shares, strict=False):
        low, high = sorted(bounds)
        ranges[partition] = (end * low // 100, (end * high + 99) // 100)
    return Replay(ranges)


def between(records: Iterable[Record], start: Vector, end: Vector) -> list[Record]:
    """Records from one vector to another."""
    return [
        record
        for record in records
        if start.get(record.partition, 0) <= record.offset < end.get(record.partition, 0)
    ]


def again(records: Iterable[Record], replay: Replay) -> list[Record]:
    """Records of a replay."""
    start = {partition: low for partition, (low, _) in replay.ranges.items()}
    end = {partition: high for partition, (_, high) in replay.ranges.items()}
    return between(records, start, end)
