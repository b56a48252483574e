"""`cdc-assets adopt`: tables that other tools made become lake tables, and equal their source."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.changes.names import LakeName
from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import Hook, Moment, hooked
from cdc_assets.errors import CdcError, ConflictError, TerminalError
from cdc_assets.lake import Lake
from cdc_assets.merge.statements import sql
from cdc_assets.operate.services import Services
from cdc_assets.operations.adopt.comparing import TableComparison
from cdc_assets.operations.adopt.operation import ADOPT, AdoptOptions
from cdc_assets.operations.adopt.table_adoption import TableAdoption
from cdc_assets.operations.running import Runner
from cdc_assets.orchestration.operation_console import open_console
from cdc_assets.orchestration.operation_jobs import operation_job
from cdc_assets.registry import Registry, RegistryFile
from cdc_assets_tests.command import run_command
from cdc_assets_tests.faults import Anywhere, Death, How, Injected
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack import other_tools
from cdc_assets_tests.stack.other_tools import (
    CONNECT_SINK,
    DEBEZIUM_SERVER,
    MERGE_JOB,
    OLAKE,
    Tool,
    delete_by_equality,
    make_ledger,
)
from cdc_assets_tests.stack.read_beside import (
    MARIADB,
    POSTGRES,
    SIZES,
    Kind,
    build,
    change,
    merge,
)
from cdc_assets_tests.stack.replicated import Replicated, replicated
from cdc_assets_tests.toy.profiles import in_soak

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

ROWS = 1_200
SPOILED = (
    "UPDATE {table} SET n = -7 WHERE id % 97 = 1",
    "UPDATE {table} SET note = NULL WHERE id = 403",
    "DELETE FROM {table} WHERE id BETWEEN 700 AND 710 OR id = 3",
)
"""What a tool has lost, or not followed yet."""
FOLLOWED = (
    "UPDATE ledger SET n = n + 1000 WHERE id IN (13, 23, 33, 511)",
    "DELETE FROM ledger WHERE id BETWEEN 100 AND 104",
    "INSERT INTO ledger VALUES (5000, 1, 'new'), (5003, 1, repeat('large', 900))",
    "UPDATE ledger SET id = 6003 WHERE id = 43",
)


BY_BUCKET = {"partition_by": ["bucket(2, id)"], "sort_by": ["n"]}


@contextmanager
def world(
    stack: LocalStack, base: ReplicationConfig, name: str, kind: Kind = POSTGRES, **source: object
) -> Iterator[Replicated]:
    """A table that its connector delivers, and that nothing has merged."""
    dsn = kind.make(stack, name)
    verify = {**kind.verify, "bucket_rows": 50}
    said = {"verify": verify, "resnapshot": SIZES, **source}
    none = {"snapshot.mode": "no_data"}
    with replicated(stack, base, name, dsn, debezium=none, **said) as database:
        database.wait_until_delivered()  # the slot is there: what follows is streamed
        change(database, FOLLOWED)
        RegistryFile(database.config.registry).add([database.entry("ledger")])
        database.wait_until_delivered()
        yield database


def adopt(database: Replicated, existing: LakeName, **options: Any) -> dict[str, Any]:
    """What the command does, in its process."""
    services = Services(database.config)
    wish = AdoptOptions(table="ledger", existing=str(existing), **options)
    with open_console(services) as console:
        results = Runner(services, console.host, lambda each: print(each.words)).run(ADOPT, wish)
    (report,) = results.reports.values()
    return dict(report.document)


def spoil(spark: Session, name: LakeName) -> None:
    for statement in SPOILED:
        spark().sql(statement.format(table=sql.table("lake", name)))


def rows_of(database: Replicated) -> dict[object, dict[str, Any]]:
    """By key, which no two of them share; with all columns."""
    table = read_table(database.config, database.entry("ledger").target)
    assert table is not None
    rows = table.scan().to_arrow().to_pylist()
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def require_followed(database: Replicated, spark: Session, tool: Tool) -> None:
    """The table equals its source, and does so after more changes."""
    assert database.differences("ledger", ignoring=[*tool.extra]) == []
    change(database, ("UPDATE ledger SET n = 0 WHERE id < 20", "DELETE FROM ledger WHERE id = 9"))
    database.wait_until_delivered()
    merge(database, spark)
    assert database.differences("ledger", ignoring=[*tool.extra]) == []


def test_a_table_of_debezium_server_is_taken_over_with_its_equality_deletes(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, tmp_path: Path
) -> None:
    with world(stack, stack_config, "adopted") as database:
        found, lake = LakeName("raw", "adopted_ledger"), Lake(database.config)
        make_ledger(spark, found, DEBEZIUM_SERVER, ROWS)
        spoil(spark, found)
        delete_by_equality(database.config, found, "id", range(50, 60))
        other_tools.insert(spark, found, DEBEZIUM_SERVER, "range(55, 60)")
        before, files = lake.state(found), lake.foreign(found)
        assert before is not None
        assert files is not None
        assert files.equality_deletes == 1
        said = adopt(database, found, dry_run=True)
        assert "rewrite the files that 1 files of equality deletes concern" in said["changes"]
        assert lake.state(found) == before, "a dry run changes nothing"
        done = adopt(database, found)
        assert (done["is_done"], done["equal"], done["existing"]) == (True, True, str(found))
        assert done["lake_table"] == str(database.entry("ledger").target)
        assert lake.state(found) is None
        rows = rows_of(database)
        assert rows[2]["__op"] == "r", "a row that was equal is as it was"
        assert rows[2][sql.POSITION] is None
        assert rows[700]["__op"] is None, "a row that was put is ours"
        require_followed(database, spark, DEBEZIUM_SERVER)
        again = ("adopt", "ledger", "--existing", str(found), "--dry-run", "--json")
        shown = run_command(tmp_path, *again, config=database.config.path)
        assert json.loads(shown.stdout)["said"] == "it was adopted already"
        job = operation_job(ADOPT)(database.config, Registry.of([]))
        config = {"table": "ledger", "existing": str(found), "verify": False}
        with dg.DagsterInstance.ephemeral() as instance:
            run = {"ops": {"adopt": {"config": config}}}
            assert job.execute_in_process(run, instance=instance).success


@in_soak
@pytest.mark.parametrize("tool", [CONNECT_SINK, OLAKE, MERGE_JOB], ids=["sink", "olake", "merge"])
def test_tables_of_other_tools_are_taken_over_where_they_are(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, tool: Tool
) -> None:
    """By the name that the configuration gives the table; partitions and wider types stay."""
    name = f"adopted{len(tool.extra)}"
    with world(stack, stack_config, name) as database:
        found = database.entry("ledger").target
        make_ledger(spark, found, tool, ROWS)
        spoil(spark, found)
        done = adopt(database, found)
        assert done["equal"] is True
        assert [*done["extra"]] == [*tool.extra]
        lake = Lake(database.config)
        state, foreign = lake.state(found), lake.foreign(found)
        assert state is not None
        assert foreign is not None
        types = {each.name: each.type for each in state.columns}
        assert types["id"] == ("int" if "int" in tool.key.split() else "long")
        assert dict(foreign.partitioned_by) == ({"id_bucket": "id"} if tool.ending else {})
        require_followed(database, spark, tool)


@in_soak
def test_with_soft_deletes_rows_that_the_source_has_deleted_stay_marked(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    soft = {"public.ledger": {"deletes": "soft"}}
    with world(stack, stack_config, "adoptedsoft", tables=soft) as database:
        found = LakeName("raw", "soft")
        make_ledger(spark, found, OLAKE, ROWS + 5)
        assert adopt(database, found)["is_done"]
        rows = rows_of(database)
        assert {key for key, row in rows.items() if row[sql.DELETED]} == {
            *range(100, 105), *range(ROWS, ROWS + 5), 43,
        }  # fmt: skip
        assert {row[sql.DELETED] for row in rows.values()} == {True, False}
        assert rows[ROWS + 4]["note"] == f"row {ROWS + 4}", "with its values"
        living = {key: (row["n"], row["note"]) for key, row in rows.items() if not row[sql.DELETED]}
        source = database.side.table("ledger").rows
        assert living == {row["id"]: (row["n"], row["note"]) for row in source}


def test_another_writer_ends_an_adoption_and_the_next_run_begins_again(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    """So do rows that occur twice or have no key; all of that is refused before it begins.

    Files that are written from then on have the configured layout.
    """
    with world(stack, stack_config, "adoptedbusy", tables=laid_out(BY_BUCKET)) as database:
        found = LakeName("raw", "busy")
        make_ledger(spark, found, MERGE_JOB, ROWS)
        spoil(spark, found)
        table = sql.table("lake", found)
        spark().sql(f"INSERT INTO {table} SELECT * FROM {table} WHERE id < 3")
        with pytest.raises(TerminalError, match="3 keys have more than one row"):
            adopt(database, found)
        spark().sql(f"INSERT INTO {table} VALUES (NULL, 1, 'x')")
        with pytest.raises(TerminalError, match="1 rows of the table have NULL"):
            adopt(database, found, replace_duplicates=True)
        spark().sql(f"DELETE FROM {table} WHERE id IS NULL")
        writes = [sql.table("lake", database.entry("ledger").target)]

        def intrude(point: str, moment: Moment) -> None:
            if (point, moment) == ("source: read a wave", Moment.BEFORE) and writes:
                spark().sql(f"UPDATE {writes.pop()} SET n = -9 WHERE id = 1")

        with hooked(intrude), pytest.raises(TerminalError, match="another writer added a snap"):
            adopt(database, found, replace_duplicates=True)
        merging = pytest.raises(ConflictError, match="is being adopted, and its rows are yet")
        with merging:
            merge(database, spark)
        done = adopt(database, found, verify=False)
        assert done["is_done"]
        require_laid_out(database, BY_BUCKET)
        require_followed(database, spark, MERGE_JOB)
        with pytest.raises(TerminalError, match="since the table of another tool was adopted"):
            build(database, verify=False)


def laid_out(layout: dict[str, Any]) -> dict[str, Any]:
    return {"public.ledger": {"layout": layout}}


def require_laid_out(database: Replicated, layout: dict[str, list[str]]) -> None:
    """The table's layout is the configured one."""
    state = Lake(database.config).state(database.entry("ledger").target)
    assert state is not None
    assert [str(each) for each in state.parted_by] == layout["partition_by"]
    assert [str(each.term) for each in state.sort_order] == layout["sort_by"]


@in_soak
def test_another_layout_than_the_tables_is_a_changed_layout(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    """Its field goes, others come; a rewrite gives the old files the new layout."""
    layout = {"partition_by": ["bucket(3, n)", "truncate(5, note)"], "sort_by": ["id"]}
    with world(stack, stack_config, "adoptedother", tables=laid_out(layout)) as database:
        found = LakeName("raw", "other")
        make_ledger(spark, found, CONNECT_SINK, ROWS)
        spoil(spark, found)
        said = adopt(database, found, dry_run=True)["changes"]
        assert "partition new files no longer by id_bucket" in said
        assert adopt(database, found)["equal"] is True
        require_laid_out(database, layout)
        require_followed(database, spark, CONNECT_SINK)
        database.run("compact", "ledger", "--rewrite")
        require_followed(database, spark, CONNECT_SINK)
        table = read_table(database.config, database.entry("ledger").target)
        assert table is not None
        files = table.inspect.files().to_pylist()
        assert {each["spec_id"] for each in files if each["content"] == 0} == {table.spec().spec_id}
    newer = laid_out({"format_version": 2, "partition_by": [], "sort_by": []})
    with world(stack, stack_config, "adoptednewer", tables=newer) as database:
        make_ledger(spark, LakeName("raw", "newer"), MERGE_JOB, 10)
        with pytest.raises(TerminalError, match="the table has Iceberg's format version 3"):
            adopt(database, LakeName("raw", "newer"))


KILLS = (5, 9, 14)
"""Places of the effects at which the first tries die."""


def test_killed_and_run_again_it_is_equal_to_a_source_that_changes(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    name = "adoptedkilled"
    require_adopted_despite(stack, stack_config, spark, name, POSTGRES, places=KILLS, how=How.DEATH)


@in_soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("how", [How.BEFORE, How.LOST, How.DEATH])
@pytest.mark.parametrize("kind", [POSTGRES, MARIADB], ids=["postgres", "mariadb"])
def test_killed_at_any_effect_it_is_equal_to_a_source_that_changes(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, kind: Kind, how: How
) -> None:
    """Each try gets some effects further than the one before, until one is done."""
    name = f"adopted{how.name.lower()}{'mariadb' if kind is MARIADB else ''}"
    every_fourth = range(1, 400, 4)
    require_adopted_despite(stack, stack_config, spark, name, kind, places=every_fourth, how=how)


def require_adopted_despite(
    stack: LocalStack,
    base: ReplicationConfig,
    spark: Session,
    name: str,
    kind: Kind,
    *,
    places: Iterable[int],
    how: How,
) -> None:
    with world(stack, base, name, kind) as database:
        found, rng, seen = LakeName("raw", name), random.Random(5), Counter[str]()
        make_ledger(spark, found, DEBEZIUM_SERVER, ROWS)
        spoil(spark, found)
        delete_by_equality(database.config, found, "id", range(50, 60))
        for dies in [*(Anywhere(place=n, how=how) for n in places), Anywhere(place=0)]:
            try:
                with hooked(changing(database, kind, rng, seen, dies)):
                    done = adopt(database, found, verify=False)
            except (CdcError, Death, Injected):
                assert dies.happened
            else:
                break
        else:
            pytest.fail("none of the tries was done")
        assert done["is_done"]
        database.wait_until_delivered()
        merge(database, spark)
        require_followed(database, spark, DEBEZIUM_SERVER)


def changing(
    database: Replicated, kind: Kind, rng: random.Random, seen: Counter[str], dies: Anywhere
) -> Hook:
    """A few changes at each kind of effect."""

    def hook(point: str, moment: Moment) -> None:
        if moment is Moment.AFTER and seen[point] < 2:
            seen[point] += 1
            key = rng.randrange(ROWS) // 10 * 10 + 3
            change(database, (kind.random_change(rng, key, key + 10_000),))
        dies(point, moment)

    return hook


@in_soak
def test_without_the_comparison_rows_would_stay_wrong(
    stack: LocalStack,
    stack_config: ReplicationConfig,
    spark: Session,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The naive way: columns are added, and the log is merged from its end on."""
    with world(stack, stack_config, "adoptednaive") as database:
        found = LakeName("raw", "naive")
        make_ledger(spark, found, MERGE_JOB, ROWS)
        spoil(spark, found)
        monkeypatch.setattr(TableComparison, "waves", lambda _: ())
        monkeypatch.setattr(TableAdoption, "settle_doubts", lambda naive, _: naive.doubts)
        assert adopt(database, found, verify=False)["is_done"]
        assert "rows that differ" in database.differences("ledger")[0]
