"""Keeps which records below a table's offsets it lacks, because they were refused.

A record is read by the batch that passes its offset, which merges it or sets it aside. Whoever
merges it later has to know which: a record that is merged a second time may count twice, and one
that no batch has passed would overtake the changes before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

from cdc_assets.changes.offsets import Coordinate, OffsetRange

MOST: Final = 10_000
"""More are not kept, as each publish has them all."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Records of a table's topic that its offsets have passed and that are not in it.

    Attributes:
        places: partition and offset of each.
    """

    places: frozenset[tuple[int, int]] = frozenset()

    @classmethod
    def of(cls, coordinates: Iterable[Coordinate]) -> Missing:
        """Returns those of one topic."""
        return cls(frozenset((each.partition, each.offset) for each in coordinates))

    def after(self, ranges: Iterable[OffsetRange], refused: Missing) -> Missing:
        """Returns them after a batch that has merged all of its ranges but what it refused."""
        ends = {each.partition: each for each in ranges}
        left = (
            (partition, offset)
            for partition, offset in self.places
            if partition not in ends or not ends[partition].start <= offset < ends[partition].end
        )
        return Missing(frozenset(left) | refused.places)

    def with_(self, refused: Missing) -> Missing:
        """Returns them with others that were refused when they were read again."""
        return Missing(self.places | refused.places)

    def without(self, merged: Iterable[Coordinate]) -> Missing:
        """Returns them after some were merged."""
        return Missing(self.places - Missing.of(merged).places)

    def __contains__(self, at: Coordinate) -> bool:
        return (at.partition, at.offset) in self.places

    def __len__(self) -> int:
        return len(self.places)

    def to_dict(self) -> dict[str, Any]:
        """Returns each partition's first offset, and the distances from there on, for JSON."""
        offsets = defaultdict[int, list[int]](list)
        for partition, offset in sorted(self.places):
            offsets[partition].append(offset)
        steps = {
            str(partition): [some[0], *(later - each for each, later in pairwise(some))]
            for partition, some in offsets.items()
        }
        return {"offsets": steps}

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Missing:
        """Reads what `to_dict` returned."""
        return cls(
            frozenset(
                (int(partition), offset)
                for partition, steps in said["offsets"].items()
                for offset in accumulate(steps)
            )
        )
