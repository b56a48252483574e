"""A table after many publishes, with maintenance, beside one that was just made.

A publish stands for six seconds of a table that is busy all the time: maintenance comes after as
many of them as its interval has, and what it keeps for a time is kept for as many publishes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from statistics import median
from typing import Any, Final

from cdc_assets.config.maintenance import MaintenanceConfig
from cdc_assets.merge.plan.plan import OWN_BRANCH
from cdc_assets.merge.statements import sql
from cdc_assets.operate.services import utc_now
from cdc_assets.operations.maintain import upkeep_of
from cdc_assets_tests.bench.figures import Figures, of_table
from cdc_assets_tests.bench.tables import Many
from cdc_assets_tests.bench.world import World

EVERY: Final = timedelta(seconds=6)
ROWS_EACH: Final = 10
"""Times the rows of a small table: a scan is to be more than looking for files."""
SHOWN: Final = 8
SCANS: Final = 5


def measure(world: World) -> Iterator[Figures]:
    """Batches from the first to the last; then the same of a new table with the same rows."""
    old = Many(world, 1, ROWS_EACH * world.scale.small_rows, "months")
    try:
        yield from _figures(world, old)
    finally:
        old.close()


def _figures(world: World, old: Many) -> Iterator[Figures]:
    publishes, numbers = world.scale.publishes, count()
    between = round(timedelta(minutes=MaintenanceConfig().every_minutes) / EVERY)
    old.fill()
    old.merge()
    _seconds(old, numbers, 20)  # Spark's code for such batches
    rows, spent, seconds = [], list[float](), list[float]()
    begun, shown = time.monotonic(), max(1, publishes // SHOWN)
    for done in range(1, publishes + 1):
        seconds += _seconds(old, numbers, 1)
        passed = time.monotonic() - begun
        last = done == publishes or passed > 60 * world.scale.minutes
        if done % between == 0:
            spent.append(_looked_after(old, passed / done))
        if done % shown == 0 or last:
            rows.append(_row(world, old, done, seconds[-shown:]))
            world.say(f"after {passed / 60:.0f} minutes: {rows[-1]}")
        if last:
            break
    _require_rows(world, old)
    new = Many(world, 1, old.rows, "fresh")
    try:
        new.fill()
        new.merge()
        _seconds(new, count(), 20)
        fresh = _row(world, new, 0, _seconds(new, count(), 60))
    finally:
        new.close()
    first = fresh["median batch s"]
    plain = _scan(world, _written_at_once(world, old))
    notes = [
        f"{old.changes} updates a batch, {old.rows:,} rows; every row is as it was last written",
        f"median of the last 60 batches: {median(seconds[-60:]) / first:.2f} × that of the new "
        "table, goal: ≤ 1.3",
        f"full scan: {rows[-1]['scan s'] / plain:.2f} × that of a table written at once "
        f"({plain:.2f} s), goal: ≤ 1.2; metadata goal: ≤ 1,000 KB",
        f"maintenance: {len(spent)} times, {median(spent or [0]):.1f} s each, "
        f"{sum(spent) / (sum(seconds) or 1):.0%} of the time that batches took",
    ]
    fresh["publishes"] = "a new table"
    yield Figures(f"{len(seconds):,} publishes", [*rows, fresh], notes)


def _seconds(many: Many, numbers: Iterator[int], batches: int) -> list[float]:
    """Of some batches, from the first look at the log to the end of what follows the publish."""
    found = []
    for _ in range(batches):
        many.change(next(numbers))
        begun = time.monotonic()
        if len(many.merge()) != 1:
            msg = "what was written was not one batch"
            raise RuntimeError(msg)
        found.append(time.monotonic() - begun)
    return found


def _looked_after(many: Many, seconds_each: float) -> float:
    """As long after the snapshots as it is for a table with a publish in each `EVERY`."""
    slower = EVERY.total_seconds() / seconds_each
    (entry,) = many.entries
    said = many.config.source(entry.table.source).maintenance
    ahead = timedelta(minutes=said.keep_minutes * (1 - 1 / slower))
    with many.place() as place:
        begun = time.monotonic()
        upkeep = upkeep_of(
            many.config, (entry,), place.services.lake, place.session, lambda: utc_now() + ahead
        )
        for _ in upkeep.carry_out(orphans=False):
            pass
        return time.monotonic() - begun


def _row(world: World, many: Many, publishes: int, seconds: list[float]) -> dict[str, Any]:
    (entry,) = many.entries
    with many.place() as place:
        found = place.services.lake.figures(entry.target, OWN_BRANCH)
    if found is None:
        msg = "the table is gone"
        raise RuntimeError(msg)
    table = sql.table(many.config.lake.catalog.name, entry.target)
    return {
        "publishes": publishes,
        "median batch s": round(median(seconds), 2),
        "max": round(max(seconds), 2),
        **of_table(found),
        "scan s": round(_scan(world, table), 3),
    }


def _scan(world: World, table: str) -> float:
    def scan() -> float:
        begun = time.monotonic()
        world.session.table(table).write.format("noop").mode("overwrite").save()
        return time.monotonic() - begun

    return median(_repeated(scan))


def _repeated(measured: Callable[[], float]) -> list[float]:
    return [measured() for _ in range(SCANS)][1:]


def _written_at_once(world: World, many: Many) -> str:
    (entry,) = many.entries
    table = sql.table(many.config.lake.catalog.name, entry.target)
    copy = table.replace("`t0000`", "`at_once`")
    world.session.sql(f"CREATE TABLE {copy} USING iceberg AS SELECT * FROM {table}")
    return copy


def _require_rows(world: World, many: Many) -> None:
    """Row by row.

    Raises:
        RuntimeError: if one differs from what was last written of it.
    """
    (entry,) = many.entries
    table = sql.table(many.config.lake.catalog.name, entry.target)
    found = {row[0]: set(row[1:]) for row in _user_rows(world, table)}
    expected = {id_: {text} for id_, text in many.texts[entry.table.name].items()}
    if found != expected:
        msg = "the table is not what was written"
        raise RuntimeError(msg)


def _user_rows(world: World, table: str) -> list[Any]:
    frame = world.session.table(table)
    names = sorted((n for n in frame.columns if not n.startswith("_cdc")), key=lambda n: n != "id")
    return frame.select(*names).collect()
