"""What our functions count of rows is what Python counts of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.latency import BOUNDS, LatencyHistogram
from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.formats.spec import CONTROL, OTHER, STATEMENT, TOMBSTONE
from cdc_assets.merge.fold.summary import read_through
from cdc_assets.merge.intake.observe import BatchFigures, BatchObserver, OptionalFigures
from cdc_assets.merge.statements.observed import Observed
from cdc_assets_tests.decode.records import decoded
from cdc_assets_tests.pipeline import Session

pytestmark = pytest.mark.spark

ASKED = datetime(2026, 3, 1, tzinfo=UTC)
RANGES = (OffsetRange(0, 10, 30), OffsetRange(1, 0, 25), OffsetRange(7, 5, 20))
NO_CHANGES = (TOMBSTONE, CONTROL, STATEMENT, OTHER)
OPS = ("c", "u", "r", "d", "t", *NO_CHANGES)
SCHEMA = (
    "partition int, offset bigint, op string, ts timestamp, is_unwritten boolean, reject string, "
    "in_doubt boolean, key struct<id: int>, old_key struct<id: int>, pair bigint, "
    "unknown array<string>, absent array<string>, other_table string, read_lsn bigint, "
    "floating_lsn bigint, told_ms bigint, key_schema bigint"
)
SIGNS = ("in_doubt", "rekeyed", "unwritten", "has_strays", "suspicious", "newest_told_ms",
         "key_schemas", "unlike")  # fmt: skip
ALL = OptionalFigures(others=True, key_schemas=True)


def age(rng: random.Random) -> timedelta:
    """At a bound, at either side of one, or anywhere."""
    bound = timedelta(seconds=rng.choice(BOUNDS))
    near = bound + timedelta(microseconds=rng.choice((-1, 0, 1)))
    return rng.choice((near, timedelta(seconds=rng.uniform(-5, 4e7))))


def record(rng: random.Random, partition: int, offset: int) -> dict[str, Any]:
    op = rng.choice((*OPS, "c", "u", "x", None))

    def maybe(value: object, often: float = 0.1) -> Any:
        return value if rng.random() < often else None

    return {
        "partition": partition, "offset": offset, "op": op, "ts": maybe(ASKED - age(rng), 0.8),
        "is_unwritten": rng.random() < 0.03, "reject": maybe("of this or that"),
        "in_doubt": maybe(rng.random() < 0.5), "key": (rng.randrange(3),),
        "old_key": maybe((rng.randrange(3),), 0.3), "pair": maybe(rng.getrandbits(62), 0.3),
        "unknown": maybe([*"ab"[: rng.randint(1, 2)]]),
        "absent": maybe([*"xyz"[: rng.randint(1, 3)]]),
        "other_table": maybe(rng.choice(("", "s.t1", "s.t2", "s.t3"))),
        "read_lsn": maybe(rng.randrange(99)),
        "floating_lsn": maybe(rng.randrange(99)), "told_ms": maybe(rng.randrange(10**12), 0.6),
        "key_schema": maybe(rng.randrange(25), 0.5),
    }  # fmt: skip


def records(rng: random.Random) -> list[dict[str, Any]]:
    found = [record(rng, r.partition, at) for r in RANGES for at in range(r.start, r.end)]
    return [each for each in found if rng.random() < 0.9]


def expected(rows: list[dict[str, Any]], pardoned: str) -> tuple[BatchFigures, dict[str, Any]]:
    """The figures, and those of the signs that are in no figure."""
    sound = [
        each
        for each in rows
        if each["op"] in OPS and each["reject"] is None and not each["is_unwritten"]
    ]
    by_op = Counter(each["op"] for each in sound)
    ends = {each.partition: each.end for each in RANGES}
    paired = 0
    for each in rows:
        is_last = each["op"] == "d" and each["offset"] + 1 == ends[each["partition"]]
        paired ^= 0 if is_last else (each["pair"] or 0)
    read = [each["read_lsn"] for each in rows if each["read_lsn"] is not None]
    floating = [each["floating_lsn"] for each in rows if each["floating_lsn"] is not None]
    told = [
        each["told_ms"]
        for each in rows
        if each["told_ms"] is not None and each["op"] not in ("t", None)
    ]
    begun = {(each.partition, each.start) for each in RANGES}
    begun -= {(each["partition"], each["offset"]) for each in rows if each["read_lsn"] is not None}
    others = {each["other_table"] for each in rows if each["other_table"] is not None}
    schemas = {each["key_schema"] for each in rows if each["key_schema"] is not None}
    signs = {
        "in_doubt": sum(each["in_doubt"] is True for each in sound),
        "rekeyed": sum(has_moved(each) for each in sound),
        "unwritten": sum(each["is_unwritten"] is True for each in rows),
        "has_strays": bool(others), "suspicious": False,
        "newest_told_ms": max(told, default=None),
        "key_schemas": sorted(schemas)[:16],
        **unlike(rows, pardoned),
    }  # fmt: skip
    figures = BatchFigures(
        records=len(rows) - sum(by_op[each] for each in NO_CHANGES),
        by_op={op: by_op[op] for op in ("c", "u", "r", "d", "t")},
        rejected=len(rows) - len(sound),
        ages=LatencyHistogram.of(
            (ASKED - each["ts"]).total_seconds() for each in rows if each["ts"]
        ),
        asked_at=ASKED,
        lone_tombstones=by_op[TOMBSTONE] > 0 and paired != 0,
        controls=by_op[CONTROL] + by_op[STATEMENT],
        others=by_op[OTHER],
        other_tables=tuple(sorted(others - {""})),
        max_read=max(read, default=None),
        min_floating=min(floating, default=None),
        begun_at_start=read[0] if len({*read}) == 1 and not begun else None,
    )
    return figures, signs


def has_moved(row: Mapping[str, Any]) -> bool:
    return row["old_key"] is not None and row["old_key"] != row["key"]


def unlike(rows: list[dict[str, Any]], pardoned: str) -> dict[str, dict[str, Any]]:
    """Of the record with most of both, the first of the lowest partition."""
    found = list[tuple[int, int, int, list[str], list[str]]]()
    for each in rows:
        absent = [name for name in each["absent"] or () if name != pardoned]
        unknown = each["unknown"] or []
        if each["reject"] is None and (absent or unknown):
            size = len(absent) + len(unknown)
            found.append((-size, each["partition"], each["offset"], unknown, absent))
    names = "partition", "offset", "unknown", "absent"
    return {"unlike": dict(zip(names, min(found)[1:], strict=True))} if found else {}


def told_of(observer: BatchObserver, frame: DataFrame) -> tuple[BatchFigures, dict[str, Any]]:
    found = observer.figures(read_through(observer.attach(decoded(frame))))
    assert found is not None
    return found, {name: found.signs[name] for name in SIGNS if name in found.signs}


@pytest.mark.parametrize("seed", range(8))
def test_the_figures_of_a_batch(spark: Session, seed: int) -> None:
    rng = random.Random(seed)
    rows = records(rng)
    if seed == 0:
        rows = rows[:1]
    if seed == 1:  # of one snapshot, from the first offsets on
        rows = [record(rng, r.partition, r.start) | {"read_lsn": 7} for r in RANGES]
    values = [tuple(each.values()) for each in rows]
    frame = spark().createDataFrame(values, SCHEMA).repartition(3, "partition")
    observer = BatchObserver(RANGES, ASKED, ALL, pardoned=["y"])
    assert told_of(observer, frame) == expected(rows, "y")


def test_no_records_have_no_figures_but_zero(spark: Session) -> None:
    frame = spark().createDataFrame([], SCHEMA).repartition(2)
    observer = BatchObserver(RANGES, ASKED, ALL)
    assert told_of(observer, frame) == expected([], "")


def test_a_frame_that_is_read_twice_is_counted_once(spark: Session) -> None:
    observed, frame = Observed("twice"), spark().range(0, 1_000, numPartitions=4)
    place = F.lit(0), F.col("id"), F.lit("c"), F.col("id").cast("string").cast("binary")
    parts = *place, F.lit(True), F.lit(False), F.lit(None).cast("bigint")
    counted = observed.attach(frame, "fold", {}, *parts)
    for _ in range(2):
        (row,) = observed.figures(read_through(counted))
        assert row["keys"] == 1_000
