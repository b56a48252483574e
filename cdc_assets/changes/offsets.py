"""Places of records in Kafka: coordinates, half-open ranges and offset vectors."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, order=True)
class Coordinate:
    """One record: topic, partition, offset."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"topic={self.topic} partition={self.partition} offset={self.offset}"


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """``[start, end)`` of one partition; both are next-to-read offsets.

    Raises:
        ValueError: if the range is negative or runs backwards.
    """

    partition: int
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            msg = f"not an offset range: partition {self.partition} [{self.start}, {self.end})"
            raise ValueError(msg)

    @property
    def length(self) -> int:
        """Number of offsets, which bounds the number of records from above."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.partition}:[{self.start},{self.end})"


@dataclass(frozen=True, slots=True)
class OffsetVector:
    """The next-to-read offset of each partition of one topic. A missing partition is at 0.

    Attributes:
        offsets: ``(partition, next offset)``, by partition in ascending order; see `of`.
    """

    offsets: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, offsets: Mapping[int, int]) -> OffsetVector:
        """Builds a vector from ``{partition: next offset}``."""
        return cls(tuple(sorted(offsets.items())))

    @classmethod
    def from_json(cls, text: str) -> OffsetVector:
        """Reads what `to_json` wrote."""
        return cls.of(
            {int(partition): int(offset) for partition, offset in json.loads(text).items()}
        )

    def to_json(self) -> str:
        """Returns canonical text, as stored in snapshot properties."""
        return json.dumps({str(p): o for p, o in self.offsets}, separators=(",", ":"))

    def as_dict(self) -> dict[int, int]:
        """Returns ``{partition: next offset}``."""
        return dict(self.offsets)

    def get(self, partition: int, default: int = 0) -> int:
        """Returns the next offset of a partition."""
        at = bisect_left(self.offsets, (partition,))
        found = self.offsets[at] if at < len(self.offsets) else None
        return found[1] if found and found[0] == partition else default

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self.offsets)

    def merged_max(self, other: OffsetVector) -> OffsetVector:
        """Takes the larger offset of each partition: a stored vector never moves back."""
        mine = self.as_dict()
        return OffsetVector.of(
            {**mine, **{p: max(o, mine.get(p, 0)) for p, o in other}},
        )

    def ranges_to(self, end: OffsetVector) -> tuple[OffsetRange, ...]:
        """Returns non-empty ranges from this vector to ``end``, none for partitions past it."""
        mine = self.as_dict()
        return tuple(OffsetRange(p, mine.get(p, 0), e) for p, e in end if e > mine.get(p, 0))

    def __str__(self) -> str:
        return self.to_json()


def total_length(ranges: tuple[OffsetRange, ...]) -> int:
    """Returns the number of offsets in all ranges."""
    return sum(each.length for each in ranges)


def limited(ranges: tuple[OffsetRange, ...], limit: int) -> tuple[OffsetRange, ...]:
    """Cuts to ``limit`` offsets in all, each partition in proportion to what it has.

    Every partition that has any keeps at least one offset, so that all of them advance. So there
    may be more offsets than ``limit``, by at most one for each partition.
    """
    total = total_length(ranges)
    if total <= limit:
        return ranges
    shares = [min(r.length, max(1, r.length * limit // total)) for r in ranges]
    left = limit - sum(shares)  # else the last batch of a log would have a few records
    cut = list[OffsetRange]()
    for each, share in zip(ranges, shares, strict=True):
        more = max(0, min(left, 1, each.length - share))
        left -= more
        cut.append(replace(each, end=each.start + share + more))
    return tuple(cut)
