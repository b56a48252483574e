"""A run of maintenance that has little time, or a task that fails, keeps no other task out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cdc_assets.changes.names import LakeName
from cdc_assets.changes.upkeep import Task
from cdc_assets.errors import TransientError
from cdc_assets.log.common_cut import CommonCut, EndAt
from cdc_assets.log.pending_cuts import PendingCut, PendingCuts
from cdc_assets.merge.statements import sql
from cdc_assets.merge.upkeep import UpkeepStep
from cdc_assets.operations.maintain import words
from cdc_assets_tests.lake_view import open_catalog
from cdc_assets_tests.merge.upkeep_desk import Spark, UpkeepDesk

pytestmark = pytest.mark.slow


@pytest.fixture
def desk(tmp_path: Path) -> UpkeepDesk:
    return UpkeepDesk(tmp_path)


def run(
    desk: UpkeepDesk, turn: int = 0, steps: int = 1, *, orphans: bool = False
) -> list[UpkeepStep]:
    """One run, with time for some steps; compaction would take all of it."""
    begun = desk.spark.begun
    ends = len(begun) + steps
    of = desk.upkeep.carry_out(orphans=orphans, is_over=lambda: len(begun) >= ends, turn=turn)
    return list(of)


def test_compaction_that_never_ends_keeps_no_expiry_out(desk: UpkeepDesk) -> None:
    run(desk, steps=3)
    both = {(desk.target.name, Task.EXPIRE), (desk.side.name, Task.EXPIRE)}
    assert both <= set(desk.spark.begun)
    assert desk.spark.begun[2][1] is not Task.EXPIRE


@pytest.mark.parametrize(
    ("begun", "stays"),
    [(timedelta(minutes=-1), True), (timedelta(minutes=1), False), (timedelta(days=-2), False)],
    ids=["before them", "after them", "longer ago than cuts are kept"],
)
def test_snapshots_that_a_pending_cut_may_need_stay(
    tmp_path: Path, begun: timedelta, stays: bool
) -> None:
    desk, now = UpkeepDesk(tmp_path, consistent={"keep": "1d"}), datetime.now(UTC)
    cut = CommonCut("9:1", EndAt(3, now), now, {})
    pending = PendingCut(4, "shop.a.transaction", cut, {}, now + begun)
    PendingCuts(desk.world.config.registry).write("shop", pending.log, pending)
    of_table, of_side = desk.upkeep.needs()
    assert (of_table.name, len(of_table.expirable)) == (desk.target, 0 if stays else 3)
    assert (of_side.name, len(of_side.expirable)) == (desk.side, 3)
    PendingCuts(desk.world.config.registry).write("shop", pending.log, None)
    assert len(desk.upkeep.needs()[0].expirable) == 3


def test_runs_of_one_step_do_all_in_time(desk: UpkeepDesk) -> None:
    for turn in range(8):
        run(desk, turn)
    assert len(desk.spark.begun) == 8
    wanted = (Task.EXPIRE, Task.MERGE_MANIFESTS, Task.COMPACT)
    assert {(each.name, task) for each in (desk.target, desk.side) for task in wanted} == set(
        desk.spark.begun
    )
    first_two = {name for name, task in desk.spark.begun[:2] if task is Task.EXPIRE}
    assert first_two == {desk.target.name, desk.side.name}


@pytest.mark.parametrize("fails", [Task.COMPACT, Task.EXPIRE, Task.REMOVE_ORPHANS])
def test_a_task_that_fails_ends_that_task_alone(desk: UpkeepDesk, fails: Task) -> None:
    desk.spark = Spark({fails})
    with pytest.raises(TransientError, match="2 tasks have failed") as failed:
        run(desk, steps=20, orphans=True)
    done = {task for _, task in desk.spark.begun}
    assert done == {Task.EXPIRE, Task.MERGE_MANIFESTS, Task.REMOVE_ORPHANS, Task.COMPACT}
    assert [str(failed.value).count(f"lake={each}") for each in (desk.target, desk.side)] == [1, 1]


def test_a_table_whose_files_cannot_be_read_keeps_no_other_out(desk: UpkeepDesk) -> None:
    table = desk.world.services.lake  # opens the catalog
    assert table.exists(desk.target)
    broken = next(desk.folder.rglob(f"{desk.target.name}/metadata/snap-*.avro")).parent
    for each in broken.glob("*.avro"):
        each.unlink()
    with pytest.raises(TransientError, match="the lake did not answer"):
        run(desk, steps=3)
    assert {name for name, _ in desk.spark.begun} == {desk.side.name}


def test_what_fails_after_a_batch_does_not_hold_the_table_up(
    desk: UpkeepDesk, caplog: pytest.LogCaptureFixture
) -> None:
    """Of other errors than ours only the class is shown."""
    desk.spark.raises = ValueError("a row: 4711")
    desk.upkeep.after_batch(desk.files)
    assert desk.spark.begun == [(desk.target.name, Task.COMPACT)]
    assert "its files were not put together: ValueError" in caplog.text
    assert "4711" not in caplog.text


def test_compaction_that_changes_nothing_ends(desk: UpkeepDesk) -> None:
    """Nothing is rewritten here, whatever Spark says: the figures show it."""
    run(desk, steps=100)
    assert [task for _, task in desk.spark.begun].count(Task.COMPACT) == 2


def test_files_of_a_table_that_was_registered_again_are_no_orphans(desk: UpkeepDesk) -> None:
    """Another table of its former name is at the same location."""
    catalog = open_catalog(desk.world.config)
    last = desk.world.services.lake.drop(desk.target)
    old = catalog.register_table((desk.target.namespace, "orders_old"), last)
    desk.world.publish(desk.target, {0: 0}, {0: 1})
    now = catalog.load_table((desk.target.namespace, desk.target.name))
    assert now.location() == old.location()
    done = run(desk, steps=20, orphans=True)
    (left,) = (words(each) for each in done if each.left)
    assert f"remove orphans left out: another table has its files at {old.location()} too" in left
    removed = [name for name, task in desk.spark.begun if task is Task.REMOVE_ORPHANS]
    assert removed == [desk.side.name]


def test_a_table_whose_files_others_may_have_keeps_them(desk: UpkeepDesk) -> None:
    """Iceberg refuses to expire its snapshots, and to remove its orphans."""
    name = (desk.target.namespace, desk.target.name)
    with open_catalog(desk.world.config).load_table(name).transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    done = run(desk, steps=20, orphans=True)
    assert [words(each) for each in done if each.left] == [
        f"{desk.target}: remove orphans left out: the table has gc.enabled = false: other tables "
        "may have its files"
    ]
    assert {task for table, task in desk.spark.begun if table == desk.target.name} == {
        Task.MERGE_MANIFESTS, Task.COMPACT,
    }  # fmt: skip


@pytest.mark.parametrize(("by_prefix", "expected"), [(True, True), (False, False)], ids=str)
def test_a_store_is_listed_without_a_file_system_of_sparks(
    *, by_prefix: bool, expected: bool
) -> None:
    said = sql.remove_orphans(
        "lake", LakeName("shop", "t"), datetime(2026, 1, 2, tzinfo=UTC), by_prefix=by_prefix
    )
    assert said.startswith(
        "CALL `lake`.system.remove_orphan_files(table => '`shop`.`t`', "
        "older_than => TIMESTAMP '2026-01-02 00:00:00'"
    )
    assert ("prefix_listing => true" in said) is expected
