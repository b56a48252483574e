"""What is counted of folded changes is what Python counts, by a checkpoint and by a query."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame

from cdc_assets.changes.restarts import APART_MS
from cdc_assets.merge.fold.summary import Folded, Summary, summarized
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets_tests.pipeline import Session

SCHEMA = (
    "op string, partition int, offset bigint, ts timestamp, told_ms bigint, partial boolean, "
    "position binary"
)

Change = tuple[Any, ...]


def changes(rng: random.Random, count: int) -> list[Change]:
    """Of four of many partitions; deletes, snapshot rows and times that are missing.

    A key that changes is a delete and a create of one record, at one position.
    """
    rows = list[Change]()
    for offset in range(count):
        partition, told = rng.choice((0, 1, 3, 63)), rng.choice((None, rng.randrange(10**6)))
        for op in rng.choice(("c", "u", "d", "r", "dc", "cd")):
            ts = None if op == "r" else datetime(2026, 1, 1, tzinfo=UTC)
            partial, position = rng.random() < 0.2, (offset * 37 % 256).to_bytes(8, "big")
            rows.append((op, partition, offset, ts, told, partial, position))
    return rows


def expected(frame: DataFrame, rows: list[Change]) -> Folded:
    of: dict[int, list[Change]] = {}
    for row in rows:
        of.setdefault(row[1], []).append(row)
    streamed = {p: [each for each in mine if each[3]] for p, mine in of.items()}
    newest = {
        p: max(mine, key=lambda each: (each[6], each[0] != "d"))
        for p, mine in streamed.items()
        if mine
    }
    timed = {p: [each for each in mine if each[4] is not None] for p, mine in of.items()}
    latest = {p: max(each[4] for each in mine) for p, mine in timed.items() if mine}
    at_highest = {p: max(mine, key=lambda each: each[6])[4] for p, mine in timed.items() if mine}
    return Folded(
        frame=frame,
        keys=len(rows),
        deletes=sum(each[0] == "d" for each in rows),
        partial=sum(each[5] for each in rows),
        lowest={p: min(positions(mine)) for p, mine in of.items()},
        highest={p: max(positions(mine)) for p, mine in of.items()},
        highest_delete=max(positions(each for each in rows if each[0] == "d"), default=""),
        newest={p: (each[2], each[0] == "d") for p, each in newest.items()},
        latest_ms=latest,
        is_unordered=any(at > at_highest[p] + APART_MS for p, at in latest.items()),
    )


def place(change: Change) -> tuple[bytes, bool]:
    return change[6], change[0] != "d"


def positions(rows: Iterable[Change]) -> list[str]:
    return [each[6].hex().upper() for each in rows]


def without_frame(found: Folded | None) -> Mapping[str, Any]:
    assert found is not None, "Spark has not reported it"
    return {name: getattr(found, name) for name in Folded.__slots__ if name != "frame"}


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(5))
def test_it_is_what_python_counts(spark: Session, seed: int) -> None:
    rows = changes(random.Random(seed), 3 if seed == 0 else 60)
    frame = spark().createDataFrame(rows, SCHEMA).repartition(3)
    summary = Summary()
    attached = summary.attach(frame)
    kept = pinned(attached)
    counted = without_frame(expected(frame, rows))
    assert without_frame(summary.result(kept, attached)) == counted
    assert without_frame(summarized(kept, "of a test")) == counted


@pytest.mark.spark
def test_no_changes_have_no_figures(spark: Session) -> None:
    frame = spark().createDataFrame([], SCHEMA).repartition(2)
    found = replace(summarized(frame, "of a test"), frame=frame)
    assert found == expected(frame, [])
