"""Updates of a few days' rows in a large table, with and without partitions by day.

Keys say nothing about days: without partitions each batch reads the keys of the whole table.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from statistics import median

from pyspark.sql import functions as F

from cdc_assets_tests.bench.figures import Figures, Row, spread
from cdc_assets_tests.bench.world import World
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE
from cdc_assets_tests.pipeline import Message, Pipeline

DAYS = 365
TOUCHED = (60, 180, 300)
UPDATES = 10_000
LAYOUTS: dict[str, dict[str, list[str]]] = {
    "no partitions": {},
    f"{DAYS} days": {"partition_by": ["day"]},
}
_STEP = 7_919
"""A prime: keys are in another order than days."""
_AT_ONCE = 2_000_000
"""Rows that one statement adds: a writer has a buffer for each day that it meets."""


def measure(world: World) -> Iterator[Figures]:
    """Each repetition updates the same rows again; one more before, to warm up.

    The table has ten times ``ROWS`` rows: ``ROWS=5000000`` for 50 million.
    """
    rows = world.scale.rows * 10
    found = [_row(world, name, layout, rows) for name, layout in LAYOUTS.items()]
    least = float(str(found[0]["median s"]))
    yield Figures(
        f"{UPDATES:,} updates in {len(TOUCHED)} days of a table of {rows:,} rows in {DAYS} days",
        [
            {**each, "times as fast": round(least / float(str(each["median s"])), 2)}
            for each in found
        ],
    )


def _row(world: World, name: str, layout: dict[str, list[str]], rows: int) -> Row:
    world.say(f"filling a table with {name}")
    made = _filled(world, layout, rows)
    seconds, steps = list[float](), list[dict[str, float]]()
    for number in range(world.scale.repeats + 1):
        world.say(f"updates {number} of {world.scale.repeats}")
        made.produce(TABLE, _updates(rows, number))
        begun = datetime.now(UTC)
        (batch,) = made.merge(TABLE)
        seconds.append((datetime.now(UTC) - begun).total_seconds())
        steps.append(dict(batch.steps))
    written = median(each.get("write rows", 0.0) for each in steps[1:])
    return {"layout": name, **spread(seconds[1:]), "write rows": round(written, 2)}


def _filled(world: World, layout: dict[str, list[str]], rows: int) -> Pipeline:
    columns = {"id": "bigint", "day": "date", "v": "string"}
    table = {"columns": columns, "layout": layout}
    base = world.config("app", ["t"], database=None)
    made = Pipeline(base, lambda: world.session, world.home, {"tables": {TABLE: table}})
    made.create_topic(TABLE)
    made.produce(TABLE, [event("c", {"id": rows, "day": 0, "v": ""}, 10, commit=9)])
    made.merge(TABLE)
    n, target = F.col("n"), f"lake.{made.entry(TABLE).target}"
    for begin in range(0, rows, _AT_ONCE):
        numbers = world.session.range(begin, min(rows, begin + _AT_ONCE))
        filled = numbers.withColumnRenamed("id", "n").select(
            (n * _STEP % rows).alias("id"),
            F.date_from_unix_date((n * DAYS / rows).cast("int")).alias("day"),
            F.sha2(n.cast("string"), 256).alias("v"),
            F.lit(None).cast("binary").alias("_cdc_position"),
            F.lit(None).cast("timestamp").alias("_cdc_ts"),
        )  # fmt: skip
        filled.writeTo(target).append()
    return made


def _updates(rows: int, number: int) -> list[Message]:
    found = list[Message]()
    for at in range(UPDATES):
        day = TOUCHED[at % len(TOUCHED)]
        n = -(-day * rows // DAYS) + at // len(TOUCHED)
        row = {"id": n * _STEP % rows, "day": int(n * DAYS / rows), "v": f"{number}"}
        lsn = 1_000 + number * UPDATES * 10 + at * 10
        found.append(event("u", row, lsn, commit=lsn - 1))
    return found
