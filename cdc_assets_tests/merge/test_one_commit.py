"""A batch of one write is one commit to ``main``, and only to the head that it was planned on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.table import Table

from cdc_assets.effects import Moment, hooked
from cdc_assets.lake import Lake
from cdc_assets.merge.statements import sql
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE, Make, names, start
from cdc_assets_tests.pipeline import Message, Pipeline

pytestmark = pytest.mark.stack


def change(op: str, id_: int, name: str, lsn: int) -> Message:
    return event(op, {"id": id_, "name": name}, lsn, commit=lsn - 1)


CHANGES = (change("u", 1, "changed", 40), change("d", 2, "b", 50), change("c", 4, "new", 60))


def table_of(pipeline: Make, mode: str | None = "merge-on-read") -> Pipeline:
    rows = (change("c", n, "abc"[n - 1], 10 * n) for n in (1, 2, 3))
    return start(pipeline, *rows, tables={TABLE: {"layout": {"delete_mode": mode}}})


def now(table: Pipeline) -> Table:
    found = read_table(table.config, table.entry(TABLE).target)
    assert found is not None
    return found


def head(table: Table) -> int | None:
    return table.metadata.current_snapshot_id


def test_rows_go_and_come_in_one_commit_without_a_branch(pipeline: Make) -> None:
    table = table_of(pipeline)
    before = now(table)
    table.produce(TABLE, CHANGES)
    table.merge(TABLE)
    after = now(table)
    assert names(table) == {1: "changed", 3: "c", 4: "new"}
    assert len(after.snapshots()) == len(before.snapshots()) + 1
    snapshot = after.current_snapshot()
    assert snapshot is not None
    assert snapshot.parent_snapshot_id == head(before)
    assert set(after.metadata.refs) == {"main"}
    assert len(after.metadata.metadata_log) == len(before.metadata.metadata_log) + 1


def test_a_batch_of_several_writes_is_published_as_a_whole(pipeline: Make) -> None:
    table = table_of(pipeline)
    before = now(table)
    table.produce(TABLE, [event("t", None, 35, commit=34), *CHANGES])
    table.merge(TABLE)
    assert names(table) == {1: "changed", 4: "new"}
    line = table.lake.parents(table.entry(TABLE).target)
    assert head(before) in line
    assert set(now(table).metadata.refs) == {"main"}


def set_a_property(table: Pipeline) -> None:
    target = sql.table("lake", table.entry(TABLE).target)
    table.spark().sql(f"ALTER TABLE {target} SET TBLPROPERTIES ('of' = 'a person')")


def move_main(table: Pipeline) -> None:
    """A commit that changes no file, as of a publish without rows: Iceberg finds no conflict."""
    target = sql.table("lake", table.entry(TABLE).target)
    table.spark().table(target).limit(0).writeTo(target).append()


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
@pytest.mark.parametrize(
    ("meanwhile", "is_moved"), [(set_a_property, False), (move_main, True)], ids=["same", "moved"]
)
def test_it_is_refused_only_once_main_has_moved(
    pipeline: Make, meanwhile: Callable[[Pipeline], None], mode: str, *, is_moved: bool
) -> None:
    table, tries = table_of(pipeline, mode), list[int | None]()

    def hook(point: str, moment: Moment) -> None:
        if (point, moment) == ("spark: publish rows", Moment.BEFORE):
            if not tries:
                with hooked(lambda *_: None):
                    meanwhile(table)
            tries.append(head(now(table)))

    table.produce(TABLE, CHANGES)
    with hooked(hook):
        table.merge(TABLE)
    assert len(tries) == 1 + is_moved
    assert names(table) == {1: "changed", 3: "c", 4: "new"}
    history = table.lake.history(table.entry(TABLE).target, 10)
    assert [each.start.get(0) for each in history] == [3, 0], "each range is published once"


def test_files_are_copied_where_a_person_has_set_it_so(pipeline: Make) -> None:
    table = table_of(pipeline, None)
    target = sql.table("lake", table.entry(TABLE).target)
    copies = f"ALTER TABLE {target} SET TBLPROPERTIES ('write.merge.mode' = '%s')"
    table.spark().sql(copies % "copy-on-write")
    table.produce(TABLE, CHANGES)
    table.merge(TABLE)
    assert names(table) == {1: "changed", 3: "c", 4: "new"}
    assert marked(table) == 0
    table.spark().sql(copies % "merge-on-read")
    table.produce(TABLE, [change("d", 3, "c", 70)])
    table.merge(TABLE)
    assert names(table) == {1: "changed", 4: "new"}
    assert marked(table) == 1


def test_a_mode_that_changes_while_a_batch_is_at_work_is_obeyed(pipeline: Make) -> None:
    table = table_of(pipeline, None)
    for mode, lsn in (("copy-on-write", 100), ("merge-on-read", 200)):
        target = sql.table("lake", table.entry(TABLE).target)
        statement = f"ALTER TABLE {target} SET TBLPROPERTIES ('write.merge.mode' = '{mode}')"
        tries = list[str]()

        def hook(point: str, moment: Moment, tries: list[str] = tries, s: str = statement) -> None:
            if (point, moment) == ("spark: publish rows", Moment.BEFORE):
                if not tries:
                    with hooked(lambda *_: None):
                        table.spark().sql(s)
                tries.append(s)

        table.produce(TABLE, [change("u", 1, mode, lsn)])
        with hooked(hook):
            table.merge(TABLE)
        assert len(tries) == 2
        assert names(table) == {1: mode, 2: "b", 3: "c"}
        assert marked(table) == (mode == "merge-on-read")


def marked(table: Pipeline) -> int:
    head = now(table).current_snapshot()
    assert head is not None
    assert head.summary is not None
    return int(head.summary["total-position-deletes"] or 0)


def test_of_equal_rows_without_a_key_one_goes_in_either_format(pipeline: Make) -> None:
    for version in (2, 3):
        table = pipeline()
        lake = table.config.lake.model_copy(update={"format_version": version})
        table.config = table.config.model_copy(update={"lake": lake})
        table.create_topic(TABLE)
        table.lake = Lake(table.config)
        rows: list[dict[str, Any]] = [{"n": 1}, {"n": 1}, {"n": 2}]
        events = [
            event("c", row, 10 * n, commit=10 * n - 1, key=()) for n, row in enumerate(rows, 1)
        ]
        table.produce(TABLE, events)
        table.merge(TABLE)
        assert now(table).format_version == version
        table.produce(TABLE, [event("d", {"n": 1}, 40, commit=39, key=())])
        table.merge(TABLE)
        assert sorted(row["n"] for row in table.rows(TABLE)) == [1, 2]
