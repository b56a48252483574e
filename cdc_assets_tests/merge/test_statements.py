"""Statements of MariaDB, in a topic of their own: rows go, columns are renamed, tables stop."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from cdc_assets.changes.position import Scheme
from cdc_assets.errors import SilentChangeError, TerminalError
from cdc_assets.formats.histories import Histories
from cdc_assets.lake.at_source import AtSource
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.merge.intake.same_table import AnotherTableError
from cdc_assets.merge.statements import sql
from cdc_assets.operate.schema_drift import Drift, newest_drift
from cdc_assets.operate.services import Services
from cdc_assets.registry import RegistryFile
from cdc_assets.schema.history import StatementHistory
from cdc_assets.schema.silent import SilentKind
from cdc_assets_tests.faults import Death, Fault, How, faults
from cdc_assets_tests.merge.one_table import Make, accept_restart
from cdc_assets_tests.merge.stated import (
    MADE,
    OLD,
    TABLE,
    change,
    of_another,
    started,
    statement,
    tell,
    with_schema,
)
from cdc_assets_tests.operated import run_rebuild
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

TRUNCATING = {"recreated_table": "truncate"}


def counted(op: str, pos: int, word: str) -> Message:
    """Of a table without a key."""
    plain = change(op, pos, {"id": 1, "word": word})
    return Message(None, plain.value)


ANEW = [
    statement(600, "DROP TABLE t"),
    statement(700, "CREATE TABLE t (id int PRIMARY KEY, name text)", "id", "name"),
]
LAST = change("u", 500, {"id": 1, "name": "last"})
NEW = change("c", 800, {"id": 2, "name": "new"})


def begun(pipeline: Make, *messages: Message, **of_source: object) -> Pipeline:
    made = started(pipeline, **of_source)
    tell(made, *MADE)
    made.produce(TABLE, messages or OLD)
    made.merge(TABLE)
    return made


def names(made: Pipeline) -> dict[object, object]:
    return {row["id"]: row["name"] for row in made.rows(TABLE)}


def drift(made: Pipeline) -> Drift:
    state = made.lake.state(made.entry(TABLE).target)
    assert state is not None
    return newest_drift(Services(made.config), made.entry(TABLE), state)


def at_source(made: Pipeline) -> AtSource:
    return AtSource.of(made.lake.state(made.entry(TABLE).target), "")


# ── a table that is recreated ────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "fault",
    [
        Fault("spark: RememberSource", How.DEATH),
        pytest.param(None, marks=profiles.in_soak),
        pytest.param(Fault("spark: RememberSource", How.BEFORE), marks=profiles.in_soak),
        pytest.param(Fault("spark: fast-forward main", How.BEFORE), marks=profiles.in_soak),
        pytest.param(Fault("spark: fast-forward main", How.DEATH), marks=profiles.in_soak),
    ],
    ids=str,
)
def test_older_rows_go_where_the_new_table_begins(pipeline: Make, fault: Fault | None) -> None:
    made = begun(pipeline, **TRUNCATING)
    assert names(made) == {1: "old", 2: "old"}
    tell(made, *ANEW)
    made.produce(TABLE, [LAST, NEW])
    if fault is not None:
        with faults(fault) as hook:
            try:
                made.merge(TABLE)
            except (Death, Exception):
                assert hook.happened
        assert hook.happened, [*hook.seen]
    made.merge(TABLE)
    assert names(made) == {2: "new"}
    made.produce(TABLE, [LAST, change("c", 900, {"id": 3, "name": "next"})])
    made.merge(TABLE)
    assert names(made) == {2: "new", 3: "next"}, "what is sent again is older than the table"


def test_a_statement_that_is_read_late_takes_the_same_rows(pipeline: Make) -> None:
    made = begun(pipeline, **TRUNCATING)
    made.produce(TABLE, [LAST, NEW])
    made.merge(TABLE)
    assert names(made) == {1: "last", 2: "new"}
    tell(made, *ANEW)
    made.produce(TABLE, [change("c", 900, {"id": 3, "name": "next"})])
    made.merge(TABLE)
    assert names(made) == {2: "new", 3: "next"}


def test_a_first_batch_takes_no_rows_of_the_table_before(pipeline: Make) -> None:
    made = started(pipeline)
    tell(made, *MADE, *ANEW)
    made.produce(TABLE, [*OLD, LAST, NEW])
    made.merge(TABLE)
    assert names(made) == {2: "new"}


@profiles.in_soak
def test_rows_that_are_kept_are_marked_and_rows_without_a_key_go(pipeline: Make) -> None:
    soft = begun(pipeline, tables={TABLE: {"deletes": "soft"}}, **TRUNCATING)
    bag = begun(pipeline, counted("c", 100, "a"), counted("c", 200, "b"), **TRUNCATING)
    for made, new in ((soft, NEW), (bag, counted("c", 800, "c"))):
        tell(made, *ANEW)
        made.produce(TABLE, [new])
        made.merge(TABLE)
    table = sql.table("lake", soft.entry(TABLE).target)
    live = {row["id"]: row["_cdc_deleted"] for row in soft.spark().table(table).collect()}
    assert live == {1: True, 2: False}
    assert [row["word"] for row in bag.rows(TABLE)] == ["c"]


def test_it_stops_unless_something_says_what_becomes_of_its_rows(pipeline: Make) -> None:
    made = begun(pipeline)
    tell(made, *ANEW)
    made.produce(TABLE, [LAST, NEW])
    with pytest.raises(AnotherTableError) as stopped:
        made.merge(TABLE)
    said = str(stopped.value)
    for part in ("dropped and recreated", f"{made.prefix} partition=0 offset=2", "accept-restart"):
        assert part in said
    assert names(made) == {1: "old", 2: "old"}
    assert "dropped and recreated" in drift(made).is_another
    RegistryFile(made.config.registry).add([made.entry(TABLE)])
    told = accept_restart(made, str(made.entry(TABLE).table), dry_run=True)
    assert "would be accepted" in told
    with pytest.raises(AnotherTableError):
        made.merge(TABLE)
    accept_restart(made, str(made.entry(TABLE).table), dry_run=False)
    assert drift(made).is_another == ""
    made.merge(TABLE)
    assert names(made) == {1: "last", 2: "new"}
    tell(made, *ANEW)  # again, as a connector does that was killed
    made.produce(TABLE, [change("c", 850, {"id": 4, "name": "more"})])
    made.merge(TABLE)
    assert names(made) == {1: "last", 2: "new", 4: "more"}
    tell(made, statement(900, "ALTER TABLE t DROP PARTITION p", "id", "name"))
    made.produce(TABLE, [change("c", 950, {"id": 3, "name": "next"})])
    with pytest.raises(SilentChangeError, match="whole partitions"):
        made.merge(TABLE)
    tell(made, statement(990, "DROP TABLE t"))
    assert drift(made).is_gone


@profiles.in_soak
def test_a_table_that_is_built_anew_is_the_new_one(pipeline: Make) -> None:
    made = begun(pipeline)
    tell(made, *ANEW)
    made.produce(TABLE, [LAST, NEW])
    RegistryFile(made.config.registry).add([made.entry(TABLE)])
    assert run_rebuild(made.config, str(made.entry(TABLE).table)).is_done
    assert names(made) == {2: "new"}
    made.produce(TABLE, [change("c", 900, {"id": 3, "name": "next"})])
    made.merge(TABLE)
    assert names(made) == {2: "new", 3: "next"}


@profiles.in_soak
def test_rows_that_went_with_a_partition_go_by_a_new_snapshot(pipeline: Make) -> None:
    made = begun(pipeline)
    tell(made, statement(600, "ALTER TABLE t TRUNCATE PARTITION p", "id", "name"))
    made.produce(TABLE, [NEW])
    with pytest.raises(SilentChangeError, match="whole partitions"):
        made.merge(TABLE)
    RegistryFile(made.config.registry).add([made.entry(TABLE)])
    table = str(made.entry(TABLE).table)
    assert not run_rebuild(made.config, table, from_snapshot=True).is_done
    made.produce(TABLE, [snapshot_row(NEW, "first"), snapshot_row(NEW, "last")])
    assert run_rebuild(made.config, table).is_done
    assert names(made) == {2: "new"}
    made.produce(TABLE, [change("c", 900, {"id": 3, "name": "next"})])
    made.merge(TABLE)
    assert names(made) == {2: "new", 3: "next"}


def snapshot_row(message: Message, mark: str) -> Message:
    value: dict[str, Any] = json.loads(message.value or b"")
    value["source"] |= {"snapshot": mark, "server_id": 0, "gtid": None}
    return Message(message.key, json.dumps({**value, "op": "r"}).encode())


def test_in_a_log_that_was_numbered_anew_nothing_tells_where(pipeline: Make) -> None:
    made = begun(pipeline, **TRUNCATING)
    made.produce(TABLE, [change("u", 50, {"id": 1, "name": "failed over"}, server=8)])
    made.merge(TABLE)
    assert names(made) == {1: "failed over", 2: "old"}
    tell(made, *ANEW)
    made.produce(TABLE, [change("c", 800, {"id": 2, "name": "new"}, server=8)])
    with pytest.raises(AnotherTableError):
        made.merge(TABLE)
    assert names(made) == {1: "failed over", 2: "old"}


# ── rows that change without events ──────────────────────────────────────────────────────────


def test_statements_that_change_rows_stop_the_table_or_put_it_in_doubt(pipeline: Make) -> None:
    """Without a database to ask: a type by what the lake's column may have held."""
    made = begun(pipeline)
    tell(made, statement(600, "ALTER TABLE t MODIFY name varchar(3)", "id", "name"))
    made.produce(TABLE, [change("c", 700, {"id": 3, "name": "new"})])
    made.merge(TABLE)
    (doubt,) = at_source(made).silent
    assert (doubt.kind, doubt.columns) == (SilentKind.REWRITTEN, ("name",))
    assert [each.why for each in drift(made).silent] == [doubt.why]
    tell(made, statement(800, "ALTER TABLE t MODIFY name longtext", "id", "name"))
    key = "ALTER TABLE t ADD CONSTRAINT fk FOREIGN KEY (id) REFERENCES p (id) ON DELETE CASCADE"
    tell(made, statement(810, key, "id", "name"))
    made.produce(TABLE, [change("c", 900, {"id": 4, "name": "x"})])
    assert drift(made).stops, "before a record comes"
    for _ in range(2):
        with pytest.raises(SilentChangeError, match="foreign key fk"):
            made.merge(TABLE)
    tell(made, statement(910, "ALTER TABLE t DROP FOREIGN KEY fk", "id", "name"))
    made.merge(TABLE)
    assert names(made)[4] == "x"
    kinds = [(each.kind, each.is_standing) for each in at_source(made).silent]
    assert kinds == [(SilentKind.REWRITTEN, False), (SilentKind.CASCADES, False)]


# ── columns ──────────────────────────────────────────────────────────────────────────────


def test_a_renamed_column_waits_for_its_statement_and_keeps_its_values(pipeline: Make) -> None:
    made = begun(pipeline, *(with_schema(each, "id", "name") for each in OLD))
    change_ = change("u", 500, {"id": 1, "called": "new"})
    made.produce(TABLE, [with_schema(change_, "id", "called")])
    with pytest.raises(TerminalError, match="called is new, and name is lacking"):
        made.merge(TABLE)
    assert names(made) == {1: "old", 2: "old"}
    tell(made, statement(400, "ALTER TABLE t CHANGE name called longtext", "id", "called"))
    assert list(drift(made).lines()) == ["rename name to called"]
    made.merge(TABLE)
    assert list(drift(made).lines()) == []
    rows = {row["id"]: row for row in made.rows(TABLE)}
    assert rows == {1: {"id": 1, "called": "new"}, 2: {"id": 2, "called": "old"}}


def test_a_chain_of_renames_within_a_batch_is_one_column(pipeline: Make) -> None:
    made = begun(pipeline, *(with_schema(each, "id", "name") for each in OLD))
    tell(
        made,
        statement(300, "ALTER TABLE t RENAME COLUMN name TO a", "id", "a"),
        statement(400, "ALTER TABLE t RENAME COLUMN a TO b", "id", "b"),
        statement(450, "CREATE TABLE other (id int)"),
    )
    made.produce(
        TABLE,
        [
            with_schema(change("u", 500, {"id": 1, "b": "newest"}), "id", "b"),
            with_schema(change("u", 350, {"id": 2, "a": "between"}), "id", "a"),
            with_schema(change("c", 290, {"id": 3, "name": "before"}), "id", "name"),
        ],
    )
    made.merge(TABLE)
    rows = {row["id"]: row for row in made.rows(TABLE)}
    expected = {1: "newest", 2: "between", 3: "before"}
    assert rows == {id_: {"id": id_, "b": text} for id_, text in expected.items()}
    history = at_source(made).history
    assert history is not None
    assert history.numbers == {"id": 1, "b": 2}
    assert history.former == {"name": 2, "a": 2}


def test_a_column_that_is_dropped_and_added_again_is_another_one(pipeline: Make) -> None:
    """Also if the statement that made the table has expired."""
    made = started(pipeline)
    tell(made, *of_another(1))
    made.produce(TABLE, [with_schema(each, "id", "name") for each in OLD])
    made.merge(TABLE)
    tell(
        made,
        statement(300, "ALTER TABLE t DROP name", "id"),
        statement(400, "ALTER TABLE t ADD name text", "id", "name"),
    )
    made.produce(TABLE, [with_schema(change("u", 500, {"id": 1, "name": "b"}), "id", "name")])
    with pytest.raises(TerminalError, match="dropped and added again"):
        made.merge(TABLE)
    assert names(made) == {1: "old", 2: "old"}


def test_statements_that_have_expired_are_no_cut(pipeline: Make) -> None:
    made = begun(pipeline)
    tell(made, *of_another(2))
    log = KafkaLog(made.config.kafka.librdkafka())
    histories, fmt = Histories(log), Services(made.config).formats[made.prefix]

    def history() -> StatementHistory | None:
        stored = at_source(made).history
        return histories.of(made.entry(TABLE), fmt, Scheme.MARIADB, stored)

    before = history()
    assert before is not None
    for future in made.admin.delete_records([TopicPartition(made.prefix, 0, 3)]).values():
        future.result(30)
    tell(made, statement(600, "ALTER TABLE t CHANGE name called longtext", "id", "called"))
    found = history()
    assert found is not None
    assert found.broken == before.broken
    assert found.numbers == {"id": 1, "called": 2}
    assert len(found.seen or ()) == len(before.seen or ()) + 1


def test_what_only_the_connector_can_read_stops_where_a_column_may_be_renamed(
    pipeline: Make,
) -> None:
    made = begun(pipeline, *(with_schema(each, "id", "name") for each in OLD))
    tell(made, statement(400, "ALTER TABLE t ADD (( more text))", "id", "name", "more"))
    row = {"id": 1, "name": "a", "more": "b"}
    made.produce(TABLE, [with_schema(change("u", 500, row), *row)])
    made.merge(TABLE)
    assert {"id": 2, "name": "old", "more": None} in made.rows(TABLE)
    tell(made, statement(600, "ALTER TABLE t (( name", "id", "called", "more"))
    row = {"id": 1, "called": "a", "more": "b"}
    made.produce(TABLE, [with_schema(change("u", 700, row), *row)])
    with pytest.raises(AnotherTableError, match="cannot be read") as stopped:
        made.merge(TABLE)
    assert stopped.value.page == "statement-unreadable"
