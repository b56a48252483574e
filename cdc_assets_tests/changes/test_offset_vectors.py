"""Offset vectors, also of topics with many partitions."""

from __future__ import annotations

from typing import ClassVar

import pytest

from cdc_assets.changes.offsets import OffsetVector

pytestmark = pytest.mark.unit


class Partition(int):
    """A partition that counts how often it is looked at."""

    looks: ClassVar[int] = 0

    def __hash__(self) -> int:
        Partition.looks += 1
        return int.__hash__(self)

    def __eq__(self, other: object) -> bool:
        Partition.looks += 1
        return int.__eq__(self, other)

    def __lt__(self, other: int) -> bool:
        Partition.looks += 1
        return int.__lt__(self, other)


def test_a_partition_has_its_offset_and_one_that_is_missing_the_default() -> None:
    vector = OffsetVector.of({7: 70, 0: 5, 3: 0})
    assert [vector.get(each) for each in range(9)] == [5, 0, 0, 0, 0, 0, 0, 70, 0]
    assert [vector.get(each, -1) for each in (-1, 0, 1, 3, 8)] == [-1, 5, -1, 0, -1]
    assert OffsetVector().get(0) == 0


def test_asking_for_each_partition_does_not_look_at_all_of_them_each_time() -> None:
    many = 1_000
    vector = OffsetVector.of({Partition(each): each for each in range(many)})
    Partition.looks = 0
    assert [vector.get(each) for each in range(many)] == list(range(many))
    assert Partition.looks < 40 * many
