"""Upkeep changes no row, loses no offset, and may end at any point."""

from __future__ import annotations

import os
import re
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlparse

import pytest

from cdc_assets.changes import upkeep as rules
from cdc_assets.changes.names import LakeName
from cdc_assets.changes.upkeep import Task
from cdc_assets.errors import CdcError, TransientError
from cdc_assets.lake.side import side_name
from cdc_assets.merge.plan.plan import OWN_BRANCH
from cdc_assets.merge.statements import sql
from cdc_assets.merge.upkeep import Upkeep, UpkeepStep
from cdc_assets_tests.faults import Death, Fault, How, faults
from cdc_assets_tests.lake_view import open_catalog, read_table
from cdc_assets_tests.merge import changing_table
from cdc_assets_tests.merge.changing_table import KINDS, World, deletes, upserts
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE, Make
from cdc_assets_tests.pipeline import Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

SMALL_FILES = 4
BY_HAND = {"enabled": False, "tiny_files": SMALL_FILES, "small_files": SMALL_FILES,
           "keep_snapshots": 2, "keep_minutes": 60, "expired_at_once": 1,
           "manifests": 3}  # fmt: skip


def started(pipeline: Make, maintenance: dict[str, object]) -> World:
    """A narrow table: its batches take less time."""
    return changing_table.started(pipeline, tables={}, maintenance=maintenance)


def target(made: Pipeline) -> LakeName:
    return made.entry(TABLE).target


def upkeep(made: Pipeline, after: timedelta = timedelta(hours=2)) -> Upkeep:
    """As it is when so much time has passed."""
    entry = made.entry(TABLE)
    return Upkeep(made.config, [entry], made.lake, made.spark, lambda: datetime.now(UTC) + after)


def sizes(made: Pipeline, name: LakeName) -> tuple[int, int]:
    """Files and snapshots."""
    figures = made.lake.figures(name, OWN_BRANCH)
    assert figures is not None
    return figures.files, len(figures.history.snapshots)


def tasks_of(done: list[UpkeepStep], name: LakeName) -> set[str]:
    return {each.task.value for each in done if each.name == name}


def batches(world: World, count: int) -> None:
    for n in range(count):
        world.pipeline.produce(TABLE, KINDS[n % 3](world.source))
        world.settle()


def test_a_table_has_fewer_files_and_snapshots_and_goes_on(pipeline: Make) -> None:
    world = started(pipeline, maintenance=BY_HAND)
    made = world.pipeline
    batches(world, 9)
    name, side = target(made), side_name(target(made))
    before = {each: sizes(made, each) for each in (name, side)}
    published = made.lake.history(name, 2)
    done = list(upkeep(made).carry_out(orphans=False))
    assert tasks_of(done, name) >= {"compact", "expire snapshots"}
    assert "expire snapshots" in tasks_of(done, side)
    after = {each: sizes(made, each) for each in (name, side)}
    assert after[name][0] < SMALL_FILES < before[name][0]
    assert after[name][1] < before[name][1]
    assert after[side][1] < before[side][1]
    world.check("upkeep")
    assert made.lake.history(name, 2) == published
    batches(world, 3)
    world.check("batches after it")
    list(upkeep(made).carry_out(orphans=False))
    world.check("upkeep once more")


@profiles.in_soak
def test_readers_of_what_was_the_head_are_safe_for_the_time_that_is_promised(
    pipeline: Make,
) -> None:
    world = started(pipeline, maintenance=BY_HAND | {"keep_snapshots": 1})
    made = world.pipeline
    batches(world, 6)
    name = target(made)
    table = read_table(made.config, name)
    assert table is not None
    heads = [each.snapshot_id for each in table.metadata.snapshot_log]
    rows = {each: table.scan(snapshot_id=each).to_arrow().num_rows for each in heads}
    list(upkeep(made, timedelta(minutes=50)).carry_out(orphans=True))
    for each, count in rows.items():
        assert table.scan(snapshot_id=each).to_arrow().num_rows == count
    list(upkeep(made, timedelta(minutes=70)).carry_out(orphans=True))
    now = read_table(made.config, name)
    assert now is not None
    assert {each.snapshot_id for each in now.metadata.snapshots}.isdisjoint(heads[:-1])
    world.check("expiry")


@profiles.in_soak
def test_what_a_kept_publish_remembers_of_deletes_stays(pipeline: Make) -> None:
    world = started(pipeline, maintenance=BY_HAND | {"keep_snapshots": 3, "keep_minutes": 1})
    made = world.pipeline
    made.produce(TABLE, upserts(world.source))
    world.settle()
    for _ in range(5):
        made.produce(TABLE, deletes(world.source))
        world.settle()
    name = target(made)
    done = list(upkeep(made).carry_out(orphans=False))
    assert "expire snapshots" in tasks_of(done, side_name(name))
    kept = [each for each in made.lake.history(name, 10) if each.carried.side]
    assert len(kept) == 3
    side = made.lake.side(side_name(name))
    assert side is not None
    for each in kept:
        assert each.carried.side is not None
        assert side.readable(each.carried.side) == each.carried.side.snapshot
    oldest = read_table(made.config, name)
    assert oldest is not None
    back = next(
        each.snapshot_id
        for each in oldest.metadata.snapshots
        if each.summary and each.summary.additional_properties.get("cdc-assets.attempt")
        == kept[-1].attempt
    )  # fmt: skip
    made.spark().sql(sql.set_current_snapshot("lake", name, back))
    world.settle()  # reads again what came after
    world.check("a rollback")


@pytest.mark.parametrize("version", [2, pytest.param(3, marks=profiles.in_soak)])
def test_deleted_rows_are_written_out(pipeline: Make, version: int) -> None:
    """Of a table of any format version, whatever is configured for new ones by now."""
    made = pipeline(maintenance=BY_HAND)
    now = made.config
    made.config = now.model_copy(
        update={"lake": now.lake.model_copy(update={"format_version": version})}
    )
    rows = [event("c", {"id": n, "n": 0}, n, commit=n) for n in range(1, 101)]
    made.create_topic(TABLE)
    made.produce(TABLE, rows)
    made.merge(TABLE)
    made.produce(TABLE, [event("u", {"id": n, "n": 1}, 1000 + n, commit=n) for n in range(1, 41)])
    made.merge(TABLE)
    figures = made.lake.figures(target(made), OWN_BRANCH)
    assert figures is not None
    assert figures.marked == 40
    made.config = now
    done = list(upkeep(made).carry_out(orphans=False))
    assert "compact" in tasks_of(done, target(made))
    after = made.lake.figures(target(made), OWN_BRANCH)
    assert after is not None
    assert (after.rows, after.marked) == (100, 0)
    assert {key: row["n"] for key, row in made.by_key(TABLE).items()} == {
        n: int(n <= 40) for n in range(1, 101)
    }
    assert made.merge(TABLE) == []


@profiles.in_soak
def test_batches_put_tiny_files_together(pipeline: Make) -> None:
    world = started(pipeline, maintenance={"tiny_files": SMALL_FILES})
    made, most = world.pipeline, 0
    for n in range(10):
        made.produce(TABLE, KINDS[n % 2](world.source))
        world.settle()
        most = max(most, sizes(made, target(made))[0])
    assert most < 2 * SMALL_FILES
    world.check("batches")
    assert len(made.lake.history(target(made), 20)) == 10


@profiles.in_soak
def test_tiny_files_are_put_together_a_few_with_each_commit(
    pipeline: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = started(pipeline, maintenance=BY_HAND | {"tiny_files": 2})
    made = world.pipeline
    batches(world, 8)
    figures = made.lake.figures(target(made), OWN_BRANCH)
    assert figures is not None
    assert figures.tiny >= 6
    three = 3 * figures.undersized_bytes // figures.undersized
    monkeypatch.setattr(rules, "AT_ONCE", three)
    done = [each for each in upkeep(made).carry_out(orphans=False) if each.task is Task.COMPACT]
    mine = [each.counts for each in done if each.name == target(made)]
    assert len(mine) >= 2
    assert max(each["rewritten_data_files_count"] for each in mine) <= 4
    after = made.lake.figures(target(made), OWN_BRANCH)
    assert after is not None
    assert after.tiny < figures.tiny / 2
    world.check("upkeep")


@profiles.in_soak
def test_batches_leave_files_alone_where_that_is_switched_off(pipeline: Make) -> None:
    world = started(pipeline, maintenance=BY_HAND)
    batches(world, 9)
    assert sizes(world.pipeline, target(world.pipeline))[0] > SMALL_FILES


@profiles.in_soak
def test_branches_of_dead_writers_go_and_others_stay(pipeline: Make) -> None:
    world = started(pipeline, maintenance=BY_HAND)
    made = world.pipeline
    batches(world, 1)
    name, spark = target(made), made.spark()
    table = read_table(made.config, name)
    assert table is not None
    old = table.metadata.current_snapshot_id
    batches(world, 2)
    now = read_table(made.config, name)
    assert now is not None
    head = now.metadata.current_snapshot_id
    dead, alive = f"cdc_{'0' * 32}", f"cdc_{'1' * 32}"
    spark.sql(sql.create_branch("lake", name, dead, old))
    spark.sql(sql.create_branch("lake", name, "people", old))
    spark.sql(sql.create_branch("lake", name, alive, head))
    spark.sql(f"DELETE FROM {sql.table('lake', name, alive)} WHERE id = -1 OR id >= 0")
    done = list(upkeep(made).carry_out(orphans=False))
    assert "drop branches" in tasks_of(done, name)
    refs = made.lake.branches(name)
    assert {alive, "people"} <= set(refs)
    assert dead not in refs
    (count,) = spark.sql(f"SELECT count(*) FROM {sql.table('lake', name, alive)}").collect()[0]
    assert count == 0
    world.check("branches")


def test_files_that_no_snapshot_names_go_once_they_are_old(pipeline: Make) -> None:
    world = started(pipeline, maintenance=BY_HAND)
    made = world.pipeline
    batches(world, 3)
    table = read_table(made.config, target(made))
    assert table is not None
    folder = Path(urlparse(table.location()).path, "data")
    old, fresh = folder / "old.parquet", folder / "fresh.parquet"
    for each in (old, fresh):
        each.write_bytes(b"left by a writer that was killed")
    days_ago = datetime.now(UTC).timestamp() - 4 * 86_400
    os.utime(old, (days_ago, days_ago))
    list(upkeep(made, timedelta()).carry_out(orphans=False))
    assert old.exists()
    done = list(upkeep(made, timedelta()).carry_out(orphans=True))
    assert "remove orphans" in tasks_of(done, target(made))
    assert not old.exists()
    assert fresh.exists()
    world.check("orphans")


def test_files_of_a_table_that_was_registered_again_stay(pipeline: Make) -> None:
    """A table of its former name is at the same location, and its upkeep sees no use of them."""
    made = pipeline(maintenance=BY_HAND)
    made.create_topic(TABLE)
    made.produce(TABLE, [event("c", {"id": n, "n": 0}, n, commit=n) for n in range(1, 6)])
    made.merge(TABLE)
    name, catalog = target(made), open_catalog(made.config)
    last = made.lake.drop(name)
    old = catalog.register_table((name.namespace, f"{name.name}_old"), last)
    made.merge(TABLE)
    now = read_table(made.config, name)
    assert now is not None
    assert now.location() == old.location()
    days_ago = datetime.now(UTC).timestamp() - 4 * 86_400
    for each in Path(urlparse(old.location()).path).rglob("*.*"):
        os.utime(each, (days_ago, days_ago))
    done = list(upkeep(made, timedelta()).carry_out(orphans=True))
    assert any(f"another table has its files at {old.location()} too" in each.left for each in done)
    assert catalog.load_table(old.name()).scan().to_arrow().num_rows == 5
    assert len(made.rows(TABLE)) == 5


def points() -> list[str]:
    return ["spark: drop branches", "spark: compact", "spark: expire snapshots",
            "spark: merge manifests", "lake: read manifests"]  # fmt: skip


@pytest.mark.timeout(900)
def test_it_may_end_at_any_point(pipeline: Make) -> None:
    world = started(
        pipeline, maintenance=BY_HAND | {"keep_snapshots": 1, "manifests": 2, "tiny_files": 2}
    )
    made = world.pipeline
    batches(world, 3)
    reached = set[str]()
    tried = points() if profiles.is_soak() else ["spark: expire snapshots"]
    for turn, point in enumerate(tried):
        for nth in (1, 2) if profiles.is_soak() else (1,):
            batches(world, 2)
            table = read_table(made.config, target(made))
            assert table is not None
            old = table.metadata.snapshot_log[-2].snapshot_id
            branch = sql.create_branch("lake", target(made), f"cdc_{turn:031x}{nth}", old)
            made.spark().sql(branch)
            fault = Fault(point, list(How)[(turn + nth) % 3], nth)
            with faults(fault) as seen:
                try:
                    list(upkeep(made).carry_out(orphans=False))
                except (CdcError, Death, OSError):
                    assert seen.happened
            reached.update(each.point for each in seen.happened)
            world.check(fault)
            world.settle()
            list(upkeep(made).carry_out(orphans=False))
            world.check(f"{fault}, and once more")
    assert reached == set(tried)


@pytest.mark.timeout(600)
def test_it_goes_on_beside_the_merge(pipeline: Make) -> None:
    world = started(pipeline, maintenance=BY_HAND | {"keep_snapshots": 1})
    made, over, failed = world.pipeline, threading.Event(), list[BaseException]()
    batches(world, 3)
    rounds = []

    def keep() -> None:
        try:
            while not over.is_set():
                try:
                    rounds.append(len(list(upkeep(made).carry_out(orphans=False))))
                except TransientError:
                    rounds.append(0)
        except BaseException as error:
            failed.append(error)

    beside = threading.Thread(target=keep)
    beside.start()
    try:
        for n in range(40 if profiles.is_soak() else 3):
            made.produce(TABLE, KINDS[n % 3](world.source))
            world.settle()
    finally:
        over.set()
        beside.join()
    assert not failed, failed[0]
    assert sum(rounds) > 0
    world.check("upkeep beside it")


@profiles.in_soak
def test_rows_of_a_table_without_a_key_are_counted_as_before(pipeline: Make) -> None:
    made = pipeline(maintenance=BY_HAND)
    made.create_topic(TABLE)
    expected = list[str]()

    def change(op: str, n: int, at: int) -> None:
        made.produce(TABLE, [event(op, {"n": n}, at, commit=at, key=())])
        made.merge(TABLE)

    for at in range(1, 8):
        change("c", at % 3, at)
        expected.append(str(at % 3))
    list(upkeep(made).carry_out(orphans=False))
    change("d", 1, 20)
    expected.remove("1")
    assert sorted(str(row["n"]) for row in made.rows(TABLE)) == sorted(expected)
    list(upkeep(made).carry_out(orphans=False))
    change("c", 1, 30)
    assert sorted(str(row["n"]) for row in made.rows(TABLE)) == sorted([*expected, "1"])


@profiles.in_soak
def test_what_is_needed_is_told_without_spark(pipeline: Make) -> None:
    def no_session() -> None:
        raise AssertionError

    world = started(pipeline, maintenance=BY_HAND)
    made = world.pipeline
    batches(world, 6)
    entry = made.entry(TABLE)
    later = datetime.now(UTC) + timedelta(hours=2)
    found = Upkeep(made.config, [entry], made.lake, no_session, lambda: later).needs()
    assert {each.name for each in found} == {entry.target, side_name(entry.target)}
    assert found[0].tasks
    assert open_catalog(made.config)
    assert re.fullmatch(r"\d+", str(found[0].figures.metadata_bytes))
