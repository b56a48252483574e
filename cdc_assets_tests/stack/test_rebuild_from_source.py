"""`cdc-assets rebuild --from-source`: PostgreSQL's rows, with Debezium's changes over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

import pytest
from cdc_assets_devstack.stack import LocalStack
from pyspark.sql import functions as F

from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import Moment, hooked
from cdc_assets.errors import CdcError, RejectedRecordError
from cdc_assets.merge.fold import changeset
from cdc_assets.merge.replicate import Replicator
from cdc_assets.merge.statements import sql
from cdc_assets_tests.faults import Anywhere, Death, How
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.pipeline import Session, hours_since
from cdc_assets_tests.stack.killed_commands import require_rebuilt
from cdc_assets_tests.stack.ledger import ledger, writing
from cdc_assets_tests.stack.read_beside import (
    POSTGRES,
    ROWS,
    WHILE_NOBODY_MERGES,
    build,
    change,
    in_batches,
    kills_and_changes,
    lose_the_log,
    merge,
    require_no_need_of_a_lost_log,
    spoil,
    world,
)
from cdc_assets_tests.stack.replicated import NOW, Replicated, new_database
from cdc_assets_tests.toy.profiles import in_soak

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]


@in_soak
def test_an_update_of_a_row_that_was_gone_before_it_was_read_is_passed_over(
    stack: LocalStack,
    stack_config: ReplicationConfig,
    spark: Session,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor is a value taken from another row that has the key by then."""
    with world(stack, stack_config, "readbeside", POSTGRES, batches=8) as database:
        spoil(database, spark)
        change(database, WHILE_NOBODY_MERGES)
        database.wait_until_delivered()
        assert build(database, from_source=True, dry_run=True).is_done
        with monkeypatch.context() as patch:
            patch.setattr(changeset, "is_below", lambda _: F.lit(False))
            with pytest.raises(RejectedRecordError, match="an update without its unchanged"):
                build(database, from_source=True)
        done = build(database, verify=False)
        assert done.swapped
        assert (done.rows, done.waves) == (ROWS - 2, 3)
        database.wait_until_delivered()
        merge(database, spark)
        assert database.differences("ledger") == []
        larger = in_batches(database, stack_config, POSTGRES, of=10_000)
        replicator = Replicator(larger.config, spark)
        list(replicator.replay(database.entry("ledger"), hours_since(NOW), run_id="replay"))
        assert database.differences("ledger") == []


def test_a_log_that_was_lost_is_not_needed_however_often_it_is_killed(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    require_no_need_of_a_lost_log(stack, stack_config, "readlost", spark, POSTGRES)


@in_soak
def test_rows_that_the_source_has_deleted_are_kept_with_their_values(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    """Deleted before it, meanwhile, or where the log has lost it: only the last have no time."""
    kept = {"public.ledger": {"deletes": "soft"}}
    with world(stack, stack_config, "readsoft", POSTGRES, tables=kept) as database:
        first = all_rows(database)
        delete(database, spark, "id < 20", lost="id BETWEEN 20 AND 29")
        before = {row["id"]: row[sql.DELETED_AT] for row in all_rows(database) if row[sql.DELETED]}
        assert before.keys() == set(range(20))
        change(
            database,
            (
                "INSERT INTO ledger VALUES (3, 1, 'came back')",
                "UPDATE ledger SET n = -1 WHERE id IN (33, 43)",
                "DELETE FROM ledger WHERE id = 33",
            ),
        )
        meanwhile = ["DELETE FROM ledger WHERE id IN (43, 1103)"]

        def hook(point: str, moment: Moment) -> None:
            if (point, moment) == ("source: read a wave", Moment.AFTER) and meanwhile:
                change(database, (meanwhile.pop(),))

        with hooked(hook):
            assert build(database, from_source=True, verify=False).swapped
        database.wait_until_delivered()
        merge(database, spark)
        rows = {row["id"]: row for row in all_rows(database)}
        assert len(rows) == len(all_rows(database)) == ROWS
        gone = {number for number, row in rows.items() if row[sql.DELETED]}
        assert gone == ({*range(30)} - {3}) | {33, 43, 1103}
        assert {number for number in gone if rows[number][sql.DELETED_AT] is None} == {
            *range(20, 30)
        }
        for number in before.keys() - {3}:
            assert rows[number][sql.DELETED_AT] == before[number]
        was = {row["id"]: row for row in first}
        for number in gone:
            assert rows[number]["note"] == was[number]["note"], number
            assert rows[number]["n"] == (-1 if number in {33, 43} else number)
        live = [row for number, row in rows.items() if number not in gone]
        assert values(live) == values(database.side.table("ledger").rows)


@in_soak
def test_killed_at_any_effect_it_keeps_each_deleted_row_once(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    """Each try gets one effect further than the one before, until one is done."""
    kept = {"public.ledger": {"deletes": "soft"}}
    with world(stack, stack_config, "readsoftkilled", POSTGRES, tables=kept) as database:
        delete(database, spark, "id < 5", lost="id BETWEEN 5 AND 9")
        for place in count(1):
            dies = Anywhere(place=place, how=How.DEATH)
            try:
                with hooked(dies):
                    done = build(database, from_source=True, verify=False)
            except (CdcError, Death):
                assert dies.happened
            else:
                assert done.is_done
                break
        merge(database, spark)
        rows = all_rows(database)
        assert sorted(int(str(row["id"])) for row in rows) == [*range(ROWS)]
        assert {row["id"] for row in rows if row[sql.DELETED]} == {*range(10)}
        live = [row for row in rows if not row[sql.DELETED]]
        assert values(live) == values(database.side.table("ledger").rows)


@in_soak
def test_of_tables_that_are_merged_into_one_each_is_read_by_itself(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    """With rows that are kept: those of the other table have the same keys."""
    into = {"tables": r"public\.(?P<name>ledger|other)", "namespace": "{source}_all",
            "table": "both", "shard": "{name}"}  # fmt: skip
    kept = {f"public.{name}": {"deletes": "soft"} for name in ("ledger", "other")}
    other = "CREATE TABLE other (LIKE ledger INCLUDING ALL)", "INSERT INTO other TABLE ledger"
    kind = replace(
        POSTGRES, make=lambda stack, name: new_database(stack, name, *ledger(ROWS), *other)
    )
    said = {"merge_into": [into], "tables": kept}
    with world(stack, stack_config, "readshard", kind, **said) as database:  # pyright: ignore[reportArgumentType]
        change(database, [f"DELETE FROM {name} WHERE id < 5" for name in ("ledger", "other")])
        database.wait_until_delivered()
        database.replicate()
        of_other = of_shard(all_rows(database), "other")
        assert len(of_other) == len(of_shard(all_rows(database), "ledger")) == ROWS
        name = sql.table(database.config.lake.catalog.name, database.entry("ledger").target)
        spark().sql(f"DELETE FROM {name} WHERE shard = 'ledger' AND id BETWEEN 200 AND 300")
        spark().sql(f"UPDATE {name} SET note = 'wrong' WHERE shard = 'ledger' AND id > 700")
        change(database, ("DELETE FROM ledger WHERE id = 10", "UPDATE other SET n = 0"))
        assert build(database, from_source=True, verify=False).swapped
        assert of_shard(all_rows(database), "other") == of_other
        database.wait_until_delivered()
        database.replicate()
        for name, gone in (("ledger", {0, 1, 2, 3, 4, 10}), ("other", {0, 1, 2, 3, 4})):
            rows = of_shard(all_rows(database), name)
            assert {row["id"] for row in rows if row[sql.DELETED]} == gone
            live = [row for row in rows if not row[sql.DELETED]]
            assert values(live) == values(database.side.table(name).rows)


def delete(database: Replicated, spark: Session, merged: str, *, lost: str) -> None:
    """Delete rows, which is merged, and then others, of which the log loses the deletes."""
    change(database, (f"DELETE FROM ledger WHERE {merged}",))
    database.wait_until_delivered()
    merge(database, spark)
    change(database, (f"DELETE FROM ledger WHERE {lost}",))
    database.wait_until_delivered()
    lose_the_log(database)


def of_shard(rows: Sequence[Mapping[str, object]], shard: str) -> list[Mapping[str, object]]:
    """In the order of their keys."""
    mine = [row for row in rows if row["shard"] == shard]
    return sorted(mine, key=lambda row: int(str(row["id"])))


def values(rows: Sequence[Mapping[str, object]]) -> dict[object, tuple[object, object]]:
    """By key, which no two of them share."""
    found = {row["id"]: (row["n"], row["note"]) for row in rows}
    assert len(found) == len(rows)
    return found


def all_rows(database: Replicated) -> list[dict[str, object]]:
    """With our own columns."""
    table = read_table(database.config, database.entry("ledger").target)
    assert table is not None
    return table.scan().to_arrow().to_pylist()


@in_soak
@pytest.mark.parametrize("how", [How.BEFORE, How.DEATH])
def test_killed_at_any_effect_it_goes_on(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, how: How
) -> None:
    """Each try gets one effect further than the one before, until one is done."""
    name = f"readkilled{how.name.lower()}"
    with world(stack, stack_config, name, POSTGRES) as database:
        change(database, WHILE_NOBODY_MERGES)
        kills = [Anywhere(place=n, how=how) for n in range(1, 500)]
        kills_and_changes(database, spark, POSTGRES, kills)


@in_soak
@pytest.mark.parametrize("way", [("--from-source",), ()], ids=["source", "log"])
def test_killed_by_the_system_under_load_the_command_goes_on(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, way: tuple[str, ...]
) -> None:
    name = f"readload{len(way)}"
    with world(stack, stack_config, name, POSTGRES, batches=2_000) as database:
        spoil(database, spark)
        require_rebuilt(database, writing(database.dsn, ROWS), *way)
