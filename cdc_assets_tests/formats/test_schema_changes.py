"""Debezium's schema change events: as 3.5 wrote them for MariaDB, and as others may be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.formats.debezium.schema_changes import read_ddl
from cdc_assets.schema.ddl import Relation

pytestmark = pytest.mark.unit

RECORDED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "golden" / "mariadb_schema_changes.json").read_text()
)
PEOPLE = Relation("shop", "people")
AT = Coordinate("shop", 0, 7)


def changed(**fields: Any) -> dict[str, Any]:
    return {**RECORDED[4], **fields}


def said(event: dict[str, Any]) -> list[str]:
    found = read_ddl(event, AT)
    return [] if found is None else [each.describe() for each in found.statement.of(PEOPLE)]


def test_recorded_events_are_read() -> None:
    assert [said(each) for each in RECORDED] == [
        *([[]] * 4),  # the connector's snapshot, and a table of another database
        ["change age; add city"],
        ["rename name to called; change called"],
        ["add more"],
        ["the table is called shop.persons now"],
        [],
        ["the table was created"],
    ]
    found = read_ddl(RECORDED[4], AT)
    assert found is not None
    assert (found.position, found.coordinate) == ("file=binlog.000001 pos=2958 gtid=0-7-13", AT)
    assert found.at is not None
    assert found.at.timestamp() == RECORDED[4]["source"]["ts_ms"] / 1000


@pytest.mark.parametrize("snapshot", ["true", "first", "last", True])
def test_a_snapshot_tells_columns_and_no_statement(snapshot: object) -> None:
    source = {**RECORDED[4]["source"], "snapshot": snapshot}
    found = read_ddl(changed(source=source), AT)
    assert found is not None
    assert found.is_of_snapshot
    assert [*found.statement.of(PEOPLE)] == []
    assert found.columns_of(PEOPLE) == ("id", "name", "age", "pass", "city")


def test_columns_afterwards_and_the_place_in_the_binlog_are_read() -> None:
    found = [read_ddl(each, AT) for each in RECORDED[4:]]
    assert [each and each.columns_of(PEOPLE) for each in found] == [
        ("id", "name", "age", "pass", "city"),
        ("id", "called", "age", "pass", "city"),
        ("id", "called", "age", "pass", "city", "more"),
        None,
        None,
        ("id",),
    ]
    places = [each and each.place for each in found]
    assert places == [(1, each["source"]["pos"]) for each in RECORDED[4:]]


def test_a_change_of_sql_server_without_a_statement_tells_columns_alone() -> None:
    source = {**RECORDED[4]["source"], "connector": "sqlserver"}
    found = read_ddl(changed(source=source, ddl="N/A"), AT)
    assert found is not None
    assert [*found.statement.of(PEOPLE)] == []
    assert found.columns_of(PEOPLE) == ("id", "name", "age", "pass", "city")


def test_other_databases_and_other_events_say_nothing() -> None:
    assert said(changed(databaseName="other", tableChanges=[])) == []
    assert read_ddl({"op": "c", "after": {"ddl": "DROP TABLE people"}}, AT) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"ddl": "ALTER TABLE people (("},
        {"ddl": None},
        {"ddl": ""},
        {"source": {**RECORDED[4]["source"], "connector": "informix"}},
        {"ddl": "ALTER TABLE ((", "tableChanges": [{"type": "ALTER", "id": '"shop"."people"'}]},
    ],
)
def test_what_cannot_be_read_is_told_of_the_tables_that_it_names(fields: dict[str, Any]) -> None:
    assert "the statement cannot be read" in said(changed(**fields))


@pytest.mark.parametrize(
    ("id_", "table"),
    [
        ('"shop"."a""b"', Relation("shop", 'a"b')),
        ('"shop"."a"".""b""""c"', Relation("shop", 'a"."b""c')),
        ('"shop"."a.b"', Relation("shop", "a.b")),
        ('"shop"."dbo"."Ä b"', Relation("dbo", "Ä b")),
    ],
)
def test_a_table_may_have_any_name(id_: str, table: Relation) -> None:
    columns = RECORDED[4]["tableChanges"][0]["table"]
    change = {"type": "ALTER", "id": id_, "table": columns}
    found = read_ddl(changed(ddl="ALTER TABLE ((", tableChanges=[change]), AT)
    assert found is not None
    assert found.after == {table: ("id", "name", "age", "pass", "city")}
    assert [each.describe() for each in found.statement.of(table)] == [
        "the statement cannot be read"
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"source": None},
        {"source": "x"},
        {"source": {"ts_ms": "now", "connector": ["mysql"], "snapshot": {}}},
        {"source": {"ts_ms": 10**18}},
        {"databaseName": 7, "schemaName": []},
        {"tableChanges": 5},
        {"tableChanges": [None, "x", {"id": 5}, {"id": ""}]},
        {"ddl": {"a": 1}},
    ],
)
def test_hostile_events_raise_nothing(fields: dict[str, Any]) -> None:
    said(changed(**fields))
