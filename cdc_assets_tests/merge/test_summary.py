"""What is counted while changes are folded is what a query of the folded changes finds."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.merge.fold.summary import Counted, Folded, counted_by_partition, summarized
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets_tests.pipeline import Session

RANGES = tuple(OffsetRange(partition, 0, 100) for partition in range(4))
SCHEMA = (
    "op string, partition int, offset bigint, ts timestamp, told_ms bigint, partial boolean, "
    "position binary"
)


def changes(rng: random.Random, count: int) -> list[tuple[Any, ...]]:
    """Of three of the four partitions; deletes, snapshot rows and times that are missing.

    A key that changes is a delete and a create of one record, at one position.
    """
    rows = list[tuple[Any, ...]]()
    for offset in range(count):
        partition, told = rng.choice((0, 1, 3)), rng.choice((None, rng.randrange(10**6)))
        for op in rng.choice(("c", "u", "d", "r", "dc")):
            ts = None if op == "r" else datetime(2026, 1, 1, tzinfo=UTC)
            partial, position = rng.random() < 0.2, offset.to_bytes(8, "big")
            rows.append((op, partition, offset, ts, told, partial, position))
    return rows


def without_frame(found: Folded) -> Mapping[str, Any]:
    return {name: getattr(found, name) for name in Folded.__slots__ if name != "frame"}


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(5))
def test_it_is_what_a_query_finds(spark: Session, seed: int) -> None:
    rows = changes(random.Random(seed), 3 if seed == 0 else 60)
    frame: DataFrame = spark().createDataFrame(rows, SCHEMA)
    counted = Counted(RANGES)
    attached = counted.attach(frame)
    folded = pinned(attached)
    told = counted.told(attached)
    assert told is not None, "Spark has not told it"
    asked = counted_by_partition(folded).collect()
    assert without_frame(summarized(folded, told)) == without_frame(summarized(folded, asked))
    assert {row["partition"] for row in told} == {row[1] for row in rows}


@pytest.mark.unit
def test_many_changes_of_many_partitions_are_asked_for() -> None:
    assert Counted.pays(RANGES)
    assert not Counted.pays(()), "Spark observes nothing only by an error"
    assert not Counted.pays(tuple(OffsetRange(partition, 0, 1) for partition in range(64)))
    assert not Counted.pays((OffsetRange(0, 0, 30_000),))
