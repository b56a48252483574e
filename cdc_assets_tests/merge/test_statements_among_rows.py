"""Statements that lie among a table's rows: followed where they stand in the log."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from cdc_assets.errors import TerminalError
from cdc_assets.lake.at_source import AtSource
from cdc_assets.merge.intake.same_table import AnotherTableError
from cdc_assets.merge.plan.table_steps import AddColumns, RenameColumn
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.faults import Death, Fault, How, faults
from cdc_assets_tests.formats import canal
from cdc_assets_tests.formats.messages import maxwell
from cdc_assets_tests.merge.one_table import Make, accept_restart
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

TABLE, OTHER, TOPIC = "shop.items", "shop.notes", "all"
COMMIT = 450_000_000_000_000_000
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Way:
    """How rows and statements are written in one format."""

    format: str
    row: Callable[[Row], Any]
    statement: Callable[..., Any]
    write: Callable[[Sequence[Any]], list[Message]]


def _flat(row: Row, **more: Any) -> canal.Flat:
    types = {name: "int" if name == "id" else "varchar(20)" for name in row}
    data = {name: None if value is None else str(value) for name, value in row.items()}
    return canal.flat("INSERT", [data], table=TABLE, types=types, **more)


def _ddl(text: Any, kind: str = "ALTER", table: str = TABLE, **more: Any) -> canal.Flat:
    return {**canal.ddl(kind, text, table), **more}


def _in_maxwell(text: Any, kind: str = "ALTER", table: str = TABLE, **more: Any) -> Message:
    said = {"ALTER": "table-alter", "CREATE": "table-create", "ERASE": "table-drop"}[kind]
    return maxwell(said, None, table=table, sql=text, **more)


def _jsons(said: Sequence[canal.Flat]) -> list[Message]:
    return [canal.as_json(each) for each in said]


JSON = Way("canal-json", _flat, _ddl, _jsons)
PACKETS = Way("canal-protobuf", _flat, _ddl, lambda said: [canal.as_packet(said)])
MAXWELL = Way("maxwell-json", lambda row: maxwell("insert", dict(row)), _in_maxwell, list)
MAYBE_ALL = pytest.mark.parametrize(
    "way",
    [JSON, *(pytest.param(each, marks=profiles.in_soak) for each in (PACKETS, MAXWELL))],
    ids=lambda each: each.format,
)
RENAME = "ALTER TABLE items CHANGE name called varchar(20)"
ANEW = (("DROP TABLE items", "ERASE"), ("CREATE TABLE items (id int PRIMARY KEY)", "CREATE"))


@dataclass
class Sent:
    """A topic in one format."""

    way: Way
    made: Pipeline

    def rows(self, *rows: Row) -> None:
        self.send(*map(self.way.row, rows))

    def tell(self, text: Any, kind: str = "ALTER", **more: Any) -> None:
        self.send(self.way.statement(text, kind, **more))

    def send(self, *said: Any) -> None:
        self.made.produce(TOPIC, self.way.write(said))

    def merge(self) -> Any:
        return self.made.merge(TABLE)

    @property
    def names(self) -> dict[object, object]:
        return {key: row.get("called", row.get("name")) for key, row in self.by_key.items()}

    @property
    def by_key(self) -> dict[object, dict[str, object]]:
        return self.made.by_key(TABLE)

    @property
    def at_source(self) -> AtSource:
        return AtSource.of(self.made.lake.state(self.made.entry(TABLE).target), "")


def begun(pipeline: Make, way: Way, *rows: Row, partitions: int = 1, **source: object) -> Sent:
    """With rows that are merged."""
    if way is MAXWELL:
        types = {"id": "int", "name": "string"}
        source["tables"] = {TABLE: {"columns": types}}
    made = pipeline(format=way.format, **source)
    made.shared = {TABLE: TOPIC, OTHER: TOPIC}
    made.create_topic(TOPIC, partitions)
    sent = Sent(way, made)
    if rows:
        sent.rows(*rows)
        sent.merge()
    return sent


OLD = ({"id": 1, "name": "old"}, {"id": 2, "name": "old"})


# ── columns ──────────────────────────────────────────────────────────────────────────────


@profiles.in_soak
@pytest.mark.parametrize("way", [JSON, PACKETS], ids=lambda each: each.format)
def test_a_column_is_renamed_in_the_middle_of_a_range(pipeline: Make, way: Way) -> None:
    sent = begun(pipeline, way, *OLD)
    sent.rows({"id": 3, "name": "before"})
    sent.tell(RENAME)
    sent.rows({"id": 1, "called": "after"})
    (done,) = sent.merge()
    assert sent.by_key == {
        1: {"id": 1, "called": "after"},
        2: {"id": 2, "called": "old"},
        3: {"id": 3, "called": "before"},
    }
    assert [each.text for each in done.statements] == [RENAME]
    sent.rows({"id": 4, "called": "later"})
    (done,) = sent.merge()
    assert (sent.names[4], done.statements) == ("later", ())


def test_a_plan_follows_the_statements_in_its_range(pipeline: Make) -> None:
    """A second statement is on another table: it is looked at, and changes nothing."""
    sent = begun(pipeline, JSON, *OLD)
    sent.tell(RENAME)
    sent.tell("ALTER TABLE notes ADD COLUMN more int", table=OTHER)
    sent.rows({"id": 1, "called": "after"})
    plan = sent.made.replicator().plan(sent.made.entry(TABLE))
    assert plan is not None
    steps = [each for each in plan.steps if isinstance(each, AddColumns | RenameColumn)]
    assert steps == [RenameColumn("name", "called")]
    assert sent.names == {1: "old", 2: "old"}, "nothing is changed"


@profiles.in_soak
@pytest.mark.parametrize("most", [1, 2, 100])
def test_it_is_renamed_wherever_batches_end(pipeline: Make, most: int) -> None:
    sent = begun(pipeline, JSON, batch={"max_records": most})
    sent.rows(*OLD)
    sent.tell(RENAME)
    sent.rows({"id": 1, "called": "after"}, {"id": 3, "called": "new"})
    sent.tell("ALTER TABLE items RENAME COLUMN called TO `name`")
    sent.rows({"id": 4, "name": "last"})
    sent.merge()
    assert sent.by_key == {
        key: {"id": key, "name": name}
        for key, name in {1: "after", 2: "old", 3: "new", 4: "last"}.items()
    }


@profiles.in_soak
@pytest.mark.parametrize(
    "fault",
    [
        Fault("spark: RememberSource", How.DEATH),
        pytest.param(Fault("spark: RememberSource", How.BEFORE), marks=profiles.in_soak),
        pytest.param(Fault("spark: DescribeColumns", How.DEATH), marks=profiles.in_soak),
        pytest.param(Fault("spark: RenameColumn", How.DEATH), marks=profiles.in_soak),
        pytest.param(Fault("spark: publish rows", How.DEATH), marks=profiles.in_soak),
    ],
    ids=str,
)
def test_a_second_try_follows_the_same_statements(pipeline: Make, fault: Fault) -> None:
    sent = begun(pipeline, JSON, *OLD)
    sent.rows({"id": 3, "name": "before"})
    sent.tell(RENAME)
    sent.rows({"id": 1, "called": "after"})
    with faults(fault) as hook:
        with pytest.raises((Death, Exception)):
            sent.merge()
        assert hook.happened, [*hook.seen]
    sent.merge()
    assert sent.names == {1: "after", 2: "old", 3: "before"}
    assert set(sent.by_key[1]) == {"id", "called"}


@profiles.in_soak
def test_columns_are_added_and_dropped(pipeline: Make) -> None:
    sent = begun(pipeline, JSON, *OLD)
    sent.tell("ALTER TABLE items ADD COLUMN more varchar(20), DROP COLUMN name")
    sent.rows({"id": 1, "more": "new"})
    sent.merge()
    assert sent.by_key == {
        1: {"id": 1, "name": None, "more": "new"},
        2: {"id": 2, "name": "old", "more": None},
    }


@profiles.in_soak
def test_names_that_are_swapped_stop_the_table(pipeline: Make) -> None:
    sent = begun(pipeline, JSON, {"id": 1, "a": "a", "b": "b"})
    sent.tell("ALTER TABLE items RENAME COLUMN a TO b, RENAME COLUMN b TO a")
    sent.rows({"id": 2, "b": "a", "a": "b"})
    with pytest.raises(AnotherTableError, match="the name of another one"):
        sent.merge()


@profiles.in_soak
def test_a_name_of_a_dropped_column_is_not_taken_for_it(pipeline: Make) -> None:
    sent = begun(pipeline, JSON, {"id": 1, "a": "a", "b": "b"})
    sent.tell("ALTER TABLE items DROP COLUMN b")
    sent.tell("ALTER TABLE items RENAME COLUMN a TO b")
    sent.rows({"id": 2, "b": "a"})
    with pytest.raises(TerminalError, match="dropped and added again"):
        sent.merge()


# ── what concerns the table, and what does not ───────────────────────────────────────────


@profiles.in_soak
@MAYBE_ALL
def test_statements_on_other_tables_are_passed_over(pipeline: Make, way: Way) -> None:
    sent = begun(pipeline, way, *OLD)
    for text, kind in (("ALTER TABLE notes DROP COLUMN name", "ALTER"), ("DROP TABLE x", "ERASE")):
        sent.tell(text, kind, table=OTHER)
    sent.tell("ALTER TABLE items_2 CHANGE name called int", table="shop.items_2")
    sent.rows({"id": 3, "name": "new"})
    (done,) = sent.merge()
    assert sent.names == {1: "old", 2: "old", 3: "new"}
    assert done.statements == ()
    history = sent.at_source.history
    assert history is not None
    assert (history.numbers, history.broken) == ({}, None)


@profiles.in_soak
def test_a_statement_that_cannot_be_read_stops_until_it_is_accepted(pipeline: Make) -> None:
    sent = begun(pipeline, JSON, *OLD)
    sent.rows({"id": 3, "name": "before"})
    sent.tell("ALTER TABLE items (( not sql")
    sent.rows({"id": 4, "name": "after"})
    with pytest.raises(AnotherTableError, match="cannot be read") as stopped:
        sent.merge()
    assert "partition=0 offset=3" in str(stopped.value)
    assert sent.names == {1: "old", 2: "old"}
    made = sent.made
    RegistryFile(made.config.registry).add([made.entry(TABLE)])
    assert "accepted" in accept_restart(made, str(made.entry(TABLE).table), dry_run=False)
    sent.merge()
    assert sent.names == {1: "old", 2: "old", 3: "before", 4: "after"}


@profiles.in_soak
@pytest.mark.parametrize(
    ("way", "text"),
    [
        pytest.param(JSON, None, marks=profiles.in_soak),
        pytest.param(JSON, {"sql": 1}, marks=profiles.in_soak),
        (JSON, "ALTER TABLE items ADD x " + "(" * 200_000),
        pytest.param(PACKETS, "", marks=profiles.in_soak),
        pytest.param(JSON, "", marks=profiles.in_soak),
        pytest.param(JSON, "ALTER TABLE items " + "x" * 900_000, marks=profiles.in_soak),
    ],
    ids=["null", "object", "deep", "packet", "empty", "long"],
)
def test_a_statement_without_a_text_to_read_stops_its_table_alone(
    pipeline: Make, way: Way, text: Any
) -> None:
    sent = begun(pipeline, way, *OLD)
    sent.tell(text, table=OTHER) if not isinstance(text, str) or not text else None
    sent.rows({"id": 3, "name": "new"})
    sent.merge()
    sent.tell(text)
    sent.rows({"id": 4, "name": "new"})
    with pytest.raises(AnotherTableError, match="cannot be read"):
        sent.merge()
    assert sent.names == {1: "old", 2: "old", 3: "new"}


# ── another table ────────────────────────────────────────────────────────────────────────


@profiles.in_soak
@MAYBE_ALL
def test_a_table_that_is_made_anew_stops_or_loses_older_rows(pipeline: Make, way: Way) -> None:
    stops, goes = (
        begun(pipeline, way, *OLD, **policy) for policy in ({}, {"recreated_table": "truncate"})
    )
    for sent in (stops, goes):
        sent.rows({"id": 3, "name": "before"})
        for text, kind in ANEW:
            sent.tell(text, kind)
        sent.rows({"id": 2, "name": "new"})
    with pytest.raises(AnotherTableError, match="dropped and recreated"):
        stops.merge()
    assert stops.names == {1: "old", 2: "old"}
    goes.merge()
    assert goes.names == {2: "new"}
    goes.rows({"id": 4, "name": "next"})
    goes.merge()
    assert goes.names == {2: "new", 4: "next"}


@profiles.in_soak
def test_a_first_batch_has_the_rows_of_the_last_table_only(pipeline: Make) -> None:
    sent = begun(pipeline, JSON)
    sent.rows({"id": 1, "name": "gone"})
    for text, kind in ANEW:
        sent.tell(text, kind)
    sent.rows({"id": 2, "name": "new"})
    sent.merge()
    assert sent.names == {2: "new"}


@profiles.in_soak
@pytest.mark.parametrize("partitions", [1, 2])
def test_the_statement_that_made_a_table_is_no_other_table(pipeline: Make, partitions: int) -> None:
    sent = begun(pipeline, JSON, partitions=partitions, batch={"max_records": partitions})
    sent.tell("CREATE TABLE notes (id int)", "CREATE", table=OTHER)
    sent.tell(*ANEW[1])
    sent.rows(*OLD)
    sent.merge()
    assert sent.names == {1: "old", 2: "old"}


@profiles.in_soak
def test_with_several_partitions_nothing_tells_what_is_older(pipeline: Make) -> None:
    sent = begun(pipeline, JSON, *OLD, partitions=2, recreated_table="truncate")
    for text, kind in ANEW:
        sent.tell(text, kind)
    sent.rows({"id": 2, "name": "new"})
    with pytest.raises(AnotherTableError, match="dropped and recreated"):
        sent.merge()


@profiles.in_soak
def test_another_table_that_is_given_the_name_stops_it(pipeline: Make) -> None:
    sent = begun(pipeline, JSON, *OLD)
    sent.tell("RENAME TABLE items TO old, notes TO items", "RENAME", table="shop.old")
    sent.rows({"id": 2, "name": "new"})
    with pytest.raises(AnotherTableError, match="was given its name"):
        sent.merge()


@profiles.in_soak
def test_a_renamed_table_stays_as_it_is(pipeline: Make) -> None:
    sent = begun(pipeline, JSON, *OLD)
    sent.tell("RENAME TABLE items TO renamed", "RENAME", table="shop.renamed")
    sent.merge()
    assert sent.names == {1: "old", 2: "old"}
    history = sent.at_source.history
    assert history is not None
    assert not history.is_there


@profiles.in_soak
def test_a_copy_that_takes_the_name_is_the_table(pipeline: Make) -> None:
    sent = begun(pipeline, JSON, *OLD)
    swap = "RENAME TABLE shop.items TO shop._items_del, shop._items_gho TO shop.items"
    sent.tell(swap, "RENAME", table="shop._items_del")
    sent.rows({"id": 3, "name": "new"})
    sent.merge()
    assert sent.names == {1: "old", 2: "old", 3: "new"}


# ── TiCDC ────────────────────────────────────────────────────────────────────────────────


@profiles.in_soak
def test_commit_timestamps_tell_in_all_partitions_where_a_table_begins(pipeline: Make) -> None:
    made = pipeline(format="canal-json", recreated_table="truncate")
    made.shared = {TABLE: TOPIC}
    made.create_topic(TOPIC, 2)

    def put(commit: int, partition: int, row: Row) -> Message:
        said = _flat(row, commit=COMMIT + commit)
        return Message(None, json.dumps(said).encode(), partition)

    def tell(commit: int, text: str, kind: str) -> Message:
        extension = {"commitTs": COMMIT + commit}
        return canal.as_json(_ddl(text, kind, _tidb=extension))

    made.produce(TOPIC, [put(1, 0, OLD[0]), put(2, 1, OLD[1])])
    made.merge(TABLE)
    made.produce(
        TOPIC,
        [
            put(9, 1, {"id": 3, "called": "new"}),
            put(3, 1, {"id": 1, "name": "before"}),
            *(tell(4 + i, *each) for i, each in enumerate(ANEW)),
            tell(6, RENAME, "ALTER"),
            tell(7, "ALTER TABLE items SET TIFLASH REPLICA 1", "QUERY"),
        ],
    )
    made.merge(TABLE)
    assert made.by_key(TABLE) == {3: {"id": 3, "called": "new"}}
