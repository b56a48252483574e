"""A table that is taken back has the rows of that publish, and goes on to equal its source."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_assets.effects import Moment, hooked
from cdc_assets.errors import CdcError, TerminalError
from cdc_assets.lake.past import KeptPublish
from cdc_assets.lake.side import side_name
from cdc_assets.merge.plan.plan import OWN_BRANCH
from cdc_assets.merge.upkeep import Upkeep
from cdc_assets.operate.services import Services
from cdc_assets.operations.rewind.goal import Goal
from cdc_assets.operations.rewind.history import Reachability, read_history
from cdc_assets.operations.rewind.operation import HISTORY, REWIND
from cdc_assets.operations.rewind.table_rewind import RewindPlan, TableRewind
from cdc_assets.orchestration.keys import TAG_HAND_OVER, TAG_MODE, TAG_TABLE, TAIL, table_key
from cdc_assets.orchestration.operation_jobs import operation_job
from cdc_assets.registry import Registry, RegistryFile
from cdc_assets_tests.command import run_command
from cdc_assets_tests.faults import Death, Fault, How, faults
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.merge.changing_table import KINDS, LAID_OUT, started
from cdc_assets_tests.merge.events import event, tombstone
from cdc_assets_tests.merge.one_table import TABLE, Make, names, start
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

NARROW = {"tables": {}, "maintenance": {"enabled": False}}


def made(id_: int, name: str | None, lsn: int, op: str = "c") -> Message:
    return event(op, {"id": id_, "name": name}, lsn, commit=lsn - 1)


def rewind(table: Pipeline, name: str = TABLE) -> TableRewind:
    return TableRewind(Services(table.config), table.entry(name))


def back(table: Pipeline, to: object) -> RewindPlan:
    return rewind(table).carry_out(Goal(str(to)))


def line(table: Pipeline, name: str = TABLE) -> tuple[KeptPublish, ...]:
    """Publishes, newest first."""
    past = table.lake.past(table.entry(name).target)
    assert past is not None
    return past.line


def head(table: Pipeline) -> int:
    return table.lake.branches(table.entry(TABLE).target)["main"]


@pytest.mark.parametrize(
    "layout", [LAID_OUT, pytest.param({}, marks=profiles.in_soak)], ids=["laid out", "plain"]
)
def test_a_table_goes_back_to_any_publish_and_on_again(
    pipeline: Make, layout: dict[str, list[str]]
) -> None:
    columns = {TABLE: {"columns": {f"c{n}": "text" for n in range(3)}, "layout": layout}}
    world = started(pipeline, tables=columns)
    table, rows = world.pipeline, list[dict[object, Any]]()
    kinds = KINDS if profiles.is_soak() else KINDS[::2]
    for kind in kinds:
        table.produce(TABLE, kind(world.source))
        world.settle()
        rows.append(table.by_key(TABLE))
    publishes = line(table)[::-1]
    assert len(publishes) == len(kinds)
    for number, each in enumerate(publishes[:-1]):
        if number and not profiles.is_soak():
            continue
        replaced = head(table)
        plan = back(table, each.snapshot)
        names_now = {c for row in rows[-1].values() for c in row}
        expected = {k: dict.fromkeys(names_now) | row for k, row in rows[number].items()}
        assert table.by_key(TABLE) == expected
        assert table.lake.branches(table.entry(TABLE).target)[plan.tag] == replaced
        assert line(table)[0].published.offsets == each.published.offsets
        world.settle()
        world.check(f"back to publish {number}")
    list(table.replay(TABLE))
    world.check("a replay of all of it")


def test_what_was_replaced_can_be_restored_and_is_let_go_of(pipeline: Make) -> None:
    table = start(pipeline, made(1, "a", 10), made(2, "b", 20))
    first = head(table)
    table.produce(TABLE, [made(1, "A", 30, "u"), made(2, None, 40, "d"), tombstone(2)])
    table.merge(TABLE)
    replaced = head(table)
    back(table, first)
    assert names(table) == {1: "a", 2: "b"}
    assert rewind(table).carry_out(Goal(undo=True)).tag == "before_rewind_2"
    assert head(table) == replaced
    assert names(table) == {1: "A"}
    table.produce(TABLE, [made(2, "late", 35, "u"), made(3, "c", 50)])
    (merged,) = table.merge(TABLE)
    assert merged.stale == 1, "the delete is remembered again"
    assert names(table) == {1: "A", 3: "c"}
    back(table, first)
    table.merge(TABLE)
    assert names(table) == {1: "A", 3: "c"}
    assert rewind(table).forget() == ("before_rewind_3", "before_rewind_2", "before_rewind_1")
    assert set(table.lake.branches(table.entry(TABLE).target)) == {"main"}
    with pytest.raises(TerminalError, match="nothing to undo"):
        rewind(table).plan(Goal(undo=True))


def test_rows_that_somebody_has_changed_are_put_right(pipeline: Make) -> None:
    table = start(pipeline, made(1, "a", 10), made(2, "b", 20))
    (publish,) = line(table)
    table.spark().sql(f"UPDATE lake.{table.entry(TABLE).target} SET name = 'spoiled'")
    spoiled = head(table)
    plan = back(table, publish.snapshot)
    assert (plan.taken_back, plan.again) == (0, ())
    assert names(table) == {1: "a", 2: "b"}
    assert rewind(table).plan(Goal(str(publish.snapshot))).is_done
    with pytest.raises(TerminalError, match="no publish of the table"):
        rewind(table).plan(Goal(str(spoiled - 1)))
    rewind(table).carry_out(Goal(undo=True))
    assert names(table) == {1: "spoiled", 2: "spoiled"}, "as it was replaced, whatever that was"


@profiles.in_soak
def test_offsets_and_times_choose_the_newest_publish_that_does_not_pass_them(
    pipeline: Make,
) -> None:
    table = start(pipeline, made(1, "a", 10), made(2, "b", 20))
    for n in range(2):
        table.produce(TABLE, [made(1, f"a{n}", 30 + n, "u"), made(2, f"b{n}", 40 + n, "u")])
        table.merge(TABLE)
    newest, middle, oldest = line(table)

    def chosen(to: str) -> tuple[int, str]:
        plan = rewind(table).plan(Goal(to))
        return plan.chosen.snapshot, plan.chosen.by

    assert chosen("0:4") == (middle.snapshot, "the newest publish that ended there")
    assert chosen("0:5") == (middle.snapshot, "the newest publish that does not pass them")
    assert chosen("0:3")[0] == oldest.snapshot
    assert chosen("0:6")[0] == newest.snapshot
    assert chosen(middle.at.isoformat())[0] == middle.snapshot
    before = (middle.at - timedelta(milliseconds=1)).replace(tzinfo=None).isoformat()
    assert chosen(before)[0] == oldest.snapshot, "without a zone it is UTC"
    for text, why in (("0:1", "does not pass"), ("2000-01-01", "no publish"), ("3:1", "nothing")):
        with pytest.raises(TerminalError, match=why):
            rewind(table).plan(Goal(text))


def test_it_may_end_at_any_point(pipeline: Make) -> None:
    world = started(pipeline, **NARROW)
    table = world.pipeline
    for kind in (0, 1):
        table.produce(TABLE, KINDS[kind](world.source))
        world.settle()
    with faults() as seen:
        back(table, line(table)[-1].snapshot)
    points = sorted(seen.seen)
    assert {"lake: move main back", "lake: load table"} <= set(points)
    world.settle()
    ways = list(How) if profiles.is_soak() else [How.LOST, How.DEATH]
    for turn, point in enumerate(points if profiles.is_soak() else ["lake: move main back"]):
        own = point == "lake: move main back"
        for how in ways:
            table.produce(TABLE, KINDS[turn % 2](world.source))
            world.settle()
            before, to = head(table), line(table)[2].snapshot
            with faults(Fault(point, how)) as hook:
                try:
                    back(table, to)
                except (CdcError, Death):
                    assert hook.happened
            assert hook.happened, point
            assert head(table) in {before, to}
            if own and how is not How.BEFORE:
                assert head(table) == to
            back(table, to)
            assert head(table) == to, f"{point} {how}: the second try"
            world.settle()
            world.check(f"{point} {how}")


@profiles.in_soak
def test_a_publish_between_the_look_and_the_commit_is_not_lost(pipeline: Make) -> None:
    table = start(pipeline, made(1, "a", 10))
    (first,) = line(table)
    table.produce(TABLE, [made(2, "b", 20)])
    table.merge(TABLE)
    met, said = list[int](), list[str]()

    def another(point: str, moment: Moment) -> None:
        if point == "lake: move main back" and moment is Moment.BEFORE and not met:
            met.append(1)
            table.produce(TABLE, [made(3, "c", 30)])
            table.merge(TABLE)
            met.append(head(table))

    with hooked(another):
        plan = TableRewind(Services(table.config), table.entry(TABLE), said.append).carry_out(
            Goal(str(first.snapshot))
        )
    assert plan.past.head == met[1], "what was published meanwhile is what is replaced"
    assert plan.taken_back == 2
    assert "meanwhile" in said[0]
    assert names(table) == {1: "a"}
    table.merge(TABLE)
    assert names(table) == {1: "a", 2: "b", 3: "c"}


def test_a_batch_that_is_at_work_does_not_undo_it(pipeline: Make) -> None:
    """It would add its rows to what the table goes back to: Iceberg alone would publish it."""
    table = start(pipeline, made(1, "a", 10))
    (first,) = line(table)
    table.produce(TABLE, [made(2, "b", 20)])
    table.merge(TABLE)
    moved = list[RewindPlan]()

    def amid(at: str, moment: Moment) -> None:
        if at == "spark: publish rows" and moment is Moment.BEFORE and not moved:
            moved.append(back(table, first.snapshot))

    table.produce(TABLE, [made(3, "c", 30)])
    with hooked(amid):
        merged = table.merge(TABLE)
    assert moved
    assert [str(each.ranges[0]) for each in merged] == ["0:[1,3)"], "from where it went back to"
    assert names(table) == {1: "a", 2: "b", 3: "c"}
    replaced = moved[0].past.head
    assert replaced not in table.lake.parents(table.entry(TABLE).target)
    assert not [each for each in table.lake.branches(table.entry(TABLE).target)
                if OWN_BRANCH.fullmatch(each)]  # fmt: skip


@profiles.in_soak
def test_counted_events_go_back_with_rows_without_a_key(pipeline: Make) -> None:
    table = pipeline()
    table.create_topic(TABLE)
    expected = list[str]()

    def change(op: str, n: int, at: int) -> None:
        table.produce(TABLE, [event(op, {"n": n}, at, commit=at, key=())])
        table.merge(TABLE)

    for at, (op, n) in enumerate([("c", 1), ("c", 1), ("c", 2), ("d", 1), ("c", 2)], start=1):
        change(op, n, at)
        expected.append(str(n)) if op == "c" else expected.remove(str(n))
    for each in line(table)[1:] if profiles.is_soak() else line(table)[2::2]:
        back(table, each.snapshot)
        table.merge(TABLE)
        assert sorted(str(row["n"]) for row in table.rows(TABLE)) == sorted(expected)
    change("d", 2, 20)
    expected.remove("2")
    assert sorted(str(row["n"]) for row in table.rows(TABLE)) == sorted(expected)


@profiles.in_soak
def test_rows_that_are_marked_as_deleted_go_back(pipeline: Make) -> None:
    tables = {TABLE: {"deletes": "soft"}}
    table = start(pipeline, made(1, "a", 10), made(2, "b", 20), tables=tables)
    (first,) = line(table)
    table.produce(TABLE, [made(2, None, 30, "d"), tombstone(2)])
    table.merge(TABLE)

    def deleted() -> dict[int, bool]:
        rows = table.spark().table(f"lake.{table.entry(TABLE).target}").collect()
        return {row["id"]: bool(row["_cdc_deleted"]) for row in rows}

    back(table, first.snapshot)
    assert deleted() == {1: False, 2: False}
    table.merge(TABLE)
    assert deleted() == {1: False, 2: True}


@profiles.in_soak
def test_it_does_not_lose_what_has_left_the_quarantine(pipeline: Make) -> None:
    columns = {TABLE: {"columns": {"name": "string", "n": "bigint"}}}
    bad = event("c", {"id": 9, "name": "nine", "n": "no number"}, 15, commit=14)
    table = start(
        pipeline, event("c", {"id": 1, "name": "a", "n": 1}, 10, commit=9), bad,
        tables=columns, bad_records="quarantine",
    )  # fmt: skip
    (first,) = line(table)
    table.produce(TABLE, [event("c", {"id": 2, "name": "b", "n": 2}, 20, commit=19)])
    table.merge(TABLE)
    plan = rewind(table).plan(Goal(str(first.snapshot)))
    assert plan.quarantined == 0, "it lies before what is read again"
    back(table, first.snapshot)
    table.merge(TABLE)
    assert names(table) == {1: "a", 2: "b"}
    target = f"lake.cdc_assets_quarantine.{table.prefix}"
    table.spark().sql(f"DELETE FROM {target} WHERE `offset` = 1")
    with pytest.raises(TerminalError, match="left the quarantine"):
        rewind(table).plan(Goal(str(first.snapshot)))


def test_what_the_log_has_lost_bars_the_way(pipeline: Make) -> None:
    table = start(pipeline, made(1, "a", 10))
    for n in range(2):
        table.produce(TABLE, [made(1, f"a{n}", 20 + n, "u")])
        table.merge(TABLE)
    table.expire(TABLE, 2)
    lines = read_history(Services(table.config), table.entry(TABLE)).lines(10)
    found = [(each.standing, each.why) for each in lines]
    gone = "the log no longer holds 0:[1,2)"
    assert found == [
        (Reachability.CURRENT, ""), (Reachability.REACHABLE, ""), (Reachability.BARRED, gone),
    ]  # fmt: skip
    with pytest.raises(TerminalError, match=r"no longer holds 0:\[1,2\)"):
        back(table, lines[-1].snapshot)


@profiles.in_soak
def test_what_was_remembered_then_must_be_there(pipeline: Make) -> None:
    table = start(pipeline, made(1, "a", 10), made(2, "b", 20))
    for id_ in (1, 2):
        table.produce(TABLE, [made(id_, None, 30 + id_, "d"), tombstone(id_)])
        table.merge(TABLE)
    _, middle, oldest = line(table)
    side = f"cdc_assets_tombstones.`{side_name(table.entry(TABLE).target).name}`"
    table.spark().sql(
        f"CALL lake.system.expire_snapshots(table => '{side}', retain_last => 1, "
        "older_than => TIMESTAMP '2100-01-01 00:00:00')"
    )
    with pytest.raises(TerminalError, match=r"of the side table .* is gone"):
        back(table, middle.snapshot)
    back(table, oldest.snapshot)
    table.merge(TABLE)
    assert names(table) == {}


@profiles.in_soak
def test_upkeep_keeps_what_is_needed_to_go_back_and_again(pipeline: Make) -> None:
    keep = {"enabled": False, "keep_snapshots": 2, "keep_minutes": 1, "expired_at_once": 1}
    table = start(pipeline, made(1, "a", 10), maintenance=keep)
    (first,) = line(table)
    for n in range(4):
        table.produce(TABLE, [made(n + 2, "x", 20 + 10 * n), made(n + 1, None, 21 + 10 * n, "d")])
        table.merge(TABLE)
    rows, replaced = names(table), head(table)
    back(table, first.snapshot)

    def upkeep() -> None:
        later = datetime.now(UTC) + timedelta(hours=2)
        entry = table.entry(TABLE)
        list(Upkeep(table.config, [entry], table.lake, table.spark, lambda: later)
             .carry_out(orphans=False))  # fmt: skip

    upkeep()
    table.merge(TABLE)
    assert names(table) == rows
    upkeep()
    assert rewind(table).carry_out(Goal(undo=True)).chosen.snapshot == replaced
    assert names(table) == rows
    table.produce(TABLE, [made(1, "late", 15, "u"), made(9, "y", 90)])
    (merged,) = table.merge(TABLE)
    assert merged.stale == 1
    assert names(table) == rows | {9: "y"}
    rewind(table).forget()
    upkeep()
    now = read_table(table.config, table.entry(TABLE).target)
    assert now is not None
    assert now.snapshot_by_id(first.snapshot) is None
    assert names(table) == rows | {9: "y"}


def shards(pipeline: Callable[..., Pipeline]) -> tuple[Pipeline, str, str]:
    one, two = "shop_1.items", "shop_2.items"
    rule = {"tables": r"shop_(?P<n>\d+)\..*", "namespace": "{source}_all", "shard": "{n}"}
    table = pipeline(merge_into=[rule])
    for name in (one, two):
        table.create_topic(name)
        table.produce(name, [made(1, name, 10)])
        table.merge(name)
    return table, one, two


@profiles.in_soak
def test_a_shard_does_not_take_others_back(pipeline: Callable[..., Pipeline]) -> None:
    table, one, two = shards(pipeline)
    RegistryFile(table.config.registry).add([table.entry(one), table.entry(two)])

    def rows() -> dict[object, object]:
        found = table.by_key(one, ("shard", "id"))
        return {key: row["name"] for key, row in found.items()}

    before, start_of = rows(), line(table, one)[0].snapshot
    for name in (one, two, one):
        n = len(line(table, one))
        table.produce(name, [made(n, f"n{n}", 10 * n)])
        table.merge(name)
    newest, after_two = line(table, one)[:2]
    whole = rows()
    rewind(table, one).carry_out(Goal(str(after_two.snapshot)))
    table.merge(two)
    table.merge(one)
    assert rows() == whole, "of the other one nothing came since: it is where it was"
    with pytest.raises(TerminalError, match=r"other tables .*shards 2.*--all-shards"):
        rewind(table, one).plan(Goal(str(start_of)))
    plan = rewind(table, one).carry_out(Goal(str(start_of), all_shards=True))
    assert [each.table for each in plan.tables] == [table.entry(each).table for each in (one, two)]
    assert rows() == before
    for name in (two, one):
        table.merge(name)
    assert rows() == whole
    assert newest.snapshot not in [each.snapshot for each in line(table, one)]


def test_a_metadata_file_changes_in_what_is_moved_alone(pipeline: Make) -> None:
    table = start(pipeline, made(1, "a", 10), made(2, "b", 20))
    (first,) = line(table)
    table.produce(TABLE, [made(2, None, 30, "d")])
    table.merge(TABLE)
    target = table.entry(TABLE).target

    def document() -> tuple[str, dict[str, Any]]:
        now = read_table(table.config, target)
        assert now is not None
        with now.io.new_input(now.metadata_location).open() as file:
            return now.metadata_location, json.loads(file.read())

    at, before = document()
    back(table, first.snapshot)
    _, after = document()
    moved = {"refs", "current-snapshot-id", "snapshot-log", "metadata-log", "last-updated-ms"}
    assert {k: v for k, v in after.items() if k not in moved} == {
        k: v for k, v in before.items() if k not in moved
    }
    assert before["format-version"] == 3
    assert after["metadata-log"][-1]["metadata-file"] == at
    assert after["snapshot-log"][-1]["snapshot-id"] == first.snapshot


def test_dagster_does_it_and_shows_it_on_the_asset(pipeline: Make) -> None:
    table = start(pipeline, made(1, "a", 10))
    (first,) = line(table)
    table.produce(TABLE, [made(1, "b", 20, "u")])
    table.merge(TABLE)
    entry = table.entry(TABLE)
    RegistryFile(table.config.registry).add([entry])
    key, ops = (
        table_key(table.config, entry),
        {"table": str(entry.table), "to": str(first.snapshot)},
    )
    with dg.DagsterInstance.ephemeral() as instance:
        job, name = operation_job(REWIND)(table.config, Registry.of([])), "take_back"
        staying = instance.create_run_for_job(
            operation_job(HISTORY)(table.config, Registry.of([])),
            status=dg.DagsterRunStatus.STARTED,
            tags={TAG_MODE: TAIL, TAG_TABLE: f"x {entry.table}"},
        )  # fmt: skip
        dry = {"ops": {name: {"config": {**ops, "dry_run": True}}}}
        assert job.execute_in_process(dry, instance=instance).success
        assert names(table) == {1: "b"}
        done = job.execute_in_process({"ops": {name: {"config": ops}}}, instance=instance)
        assert done.success
        assert names(table) == {1: "a"}
        seen = [each.asset_observation_data.asset_observation for each in done.all_events
                if each.is_asset_observation]  # fmt: skip
        whole = next(each for each in seen if each.partition is None)
        assert whole.asset_key == key
        assert whole.metadata["rewound_to"].value == str(first.snapshot)
        assert whole.metadata["merged_again"].value == "0:[1,2)"
        hours = {each.partition for each in seen} - {None}
        now, before = datetime.now(UTC), datetime.now(UTC) - timedelta(hours=1)
        assert hours & {f"{each:%Y-%m-%d-%H:00}" for each in (now, before)}
        found = instance.get_run_by_id(staying.run_id)
        assert found is not None
        assert TAG_HAND_OVER in found.tags, "a run that stays takes the table for caught up"
        shown = operation_job(HISTORY)(table.config, Registry.of([])).execute_in_process(
            {"ops": {"show_history": {"config": {"table": str(entry.table)}}}}, instance=instance
        )
        (event,) = [each for each in shown.all_events if each.is_asset_observation]
        records = event.asset_observation_data.asset_observation.metadata["publishes"].records
        assert [(each.data["standing"], each.data["replaced"]) for each in records] == [
            ("current", ""), ("can be rewound to", "before_rewind_1"),
        ]  # fmt: skip
        wrong = {"ops": {name: {"config": {**ops, "to": "7"}}}}
        failed = job.execute_in_process(wrong, instance=instance, raise_on_error=False)
        assert not failed.success


def test_the_commands_say_what_they_do(pipeline: Make, tmp_path: Path) -> None:
    table = start(pipeline, made(1, "a", 10))
    (first,) = line(table)
    table.produce(TABLE, [made(1, "b", 20, "u")])
    table.merge(TABLE)
    RegistryFile(table.config.registry).add([table.entry(TABLE)])
    name, config = str(table.entry(TABLE).table), table.config.path

    def run(*arguments: str) -> str:
        done = run_command(tmp_path, *arguments, config=config)
        assert done.returncode == 0, done.stderr
        return done.stdout

    dry = json.loads(run("rewind", name, "--to", "0:1", "--dry-run", "--json"))
    assert (dry["done"], dry["dry_run"], dry["to"]["snapshot"]) == (False, True, first.snapshot)
    assert dry["merged_again"] == [{"partition": 0, "start": 1, "end": 2}]
    assert names(table) == {1: "b"}
    said = run("rewind", name, "--to", str(first.snapshot))
    assert "takes back 1 publishes of 1 records" in said
    assert "before_rewind_1" in said
    assert names(table) == {1: "a"}
    assert "nothing to do" in run("rewind", name, "--to", str(first.snapshot))
    listed = json.loads(run("history", name, "--json"))["publishes"]
    assert (listed[0]["snapshot"], listed[0]["standing"]) == (first.snapshot, "current")
    assert listed[1]["replaced_by_rewind"] == "before_rewind_1"
    assert "(replaced: before_rewind_1)" in run("history", name)
    run("rewind", name, "--undo")
    assert names(table) == {1: "b"}
    assert json.loads(run("rewind", name, "--forget", "--json"))["forgotten"] == [
        "before_rewind_2", "before_rewind_1",
    ]  # fmt: skip
