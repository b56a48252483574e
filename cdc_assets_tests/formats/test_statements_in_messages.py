"""Statements in messages of Canal, TiCDC and Maxwell, as these projects document them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.changes.position import Scheme
from cdc_assets.log.values import RawRecord
from cdc_assets.schema.ddl import Ddl, Relation, TableChangeKind
from cdc_assets_tests.formats import canal
from cdc_assets_tests.formats.messages import format_named

AT = Coordinate("all", 0, 7)
ITEMS = Relation("shop", "items")

CANAL: dict[str, Any] = {
    "data": None, "database": "shop", "es": 1_589_373_560_000, "id": 9, "isDdl": True,
    "mysqlType": None, "old": None, "pkNames": None,
    "sql": "ALTER TABLE items CHANGE name called varchar(20)", "sqlType": None, "table": "items",
    "ts": 1_589_373_560_798, "type": "ALTER",
}  # fmt: skip
TICDC: dict[str, Any] = {
    "id": 0, "database": "shop", "table": "", "pkNames": None, "isDdl": True, "type": "QUERY",
    "es": 1_639_633_094_670, "ts": 1_639_633_095_489, "sql": "drop database if exists shop",
    "sqlType": None, "mysqlType": None, "data": None, "old": None,
    "_tidb": {"commitTs": 429_918_007_904_436_226},
}  # fmt: skip
MAXWELL: dict[str, Any] = {
    "type": "table-alter", "database": "shop", "table": "items",
    "old": {"database": "shop", "charset": "utf8mb4", "table": "items", "columns": [
        {"type": "int", "name": "id", "signed": True}, {"type": "varchar", "name": "name"},
    ], "primary-key": ["id"]},
    "def": {"database": "shop", "charset": "utf8mb4", "table": "items", "columns": [
        {"type": "int", "name": "id", "signed": True}, {"type": "varchar", "name": "called"},
    ], "primary-key": ["id"]},
    "ts": 1_477_053_126_000, "sql": "alter table items change name called varchar(20)",
    "position": "master.000006:800050",
}  # fmt: skip


def statements(name: str, value: bytes | None, scheme: Scheme = Scheme.OFFSET) -> tuple[Ddl, ...]:
    record = RawRecord(AT, datetime(2026, 1, 31, tzinfo=UTC), None, value)
    return tuple(format_named(name).statements(record, scheme))


def told(name: str, said: dict[str, Any], scheme: Scheme = Scheme.OFFSET) -> tuple[Ddl, ...]:
    return statements(name, json.dumps(said).encode(), scheme)


def does(ddl: Ddl, table: Relation = ITEMS) -> list[str]:
    return [each.describe() for each in ddl.statement.of(table)]


@pytest.mark.unit
def test_canal_tells_the_text_the_time_and_the_place() -> None:
    (found,) = told("canal-json", CANAL)
    assert does(found) == ["rename name to called; change called"]
    assert found.text == CANAL["sql"]
    assert found.at == datetime(2020, 5, 13, 12, 39, 20, tzinfo=UTC)
    assert (found.place, found.after) == ((7 << 20, 0), {})


@pytest.mark.unit
def test_a_packet_tells_each_of_its_statements() -> None:
    said = [
        canal.flat("INSERT", [canal.row(1, "a"), canal.row(2, "b")]),
        canal.ddl("ALTER", "ALTER TABLE items ADD x int"),
        canal.ddl("TRUNCATE", "TRUNCATE items"),
        {**canal.ddl("ERASE", "DROP TABLE items, notes"), "table": "notes"},
    ]
    first, last = statements("canal-protobuf", canal.as_packet(said).value)
    assert does(first) == ["add x"]
    assert does(last) == ["the table was dropped"]
    places = [(7 << 20) + 2, (7 << 20) + 4]
    assert [first.place, last.place] == [(places[0], 0), (places[1], 0)]


@pytest.mark.unit
def test_ticdc_tells_commit_timestamps() -> None:
    (found,) = told("canal-json", TICDC, Scheme.TIDB)
    assert does(found) == ["the table was dropped"]
    assert found.place == (TICDC["_tidb"]["commitTs"], 0)
    assert found.position == f"commitTs={TICDC['_tidb']['commitTs']}"
    (untold,) = told("canal-json", {**TICDC, "_tidb": None}, Scheme.TIDB)
    assert untold.place is None


@pytest.mark.unit
@pytest.mark.parametrize("text", [None, 7, "", " ", {"sql": "x"}, "ALTER TABLE items ADD ((("])
def test_what_has_no_text_to_read_concerns_its_table_alone(text: object) -> None:
    for name, said in (("canal-json", CANAL), ("maxwell-json", MAXWELL)):
        (found,) = told(name, {**said, "sql": text})
        assert [each.kind for each in found.statement.of(ITEMS)] == [TableChangeKind.UNREAD]
        assert does(found, Relation("shop", "notes")) == []


@pytest.mark.unit
def test_a_text_of_many_characters_is_not_parsed() -> None:
    text = "ALTER TABLE items ADD x int COMMENT " + "y" * 2_000_000
    (found,) = told("canal-json", {**CANAL, "sql": text})
    assert does(found) == ["the statement cannot be read"]


@pytest.mark.unit
@pytest.mark.parametrize(
    "said",
    [
        {**CANAL, "isDdl": False},
        {**CANAL, "isDdl": "true"},
        {**CANAL, "type": "TRUNCATE", "sql": "TRUNCATE TABLE items"},
        canal.flat("INSERT", [canal.row(1, "a")]),
        {},
    ],
)
def test_other_messages_of_canal_tell_none(said: dict[str, Any]) -> None:
    assert told("canal-json", said) == ()
    assert statements("canal-json", b"[") == statements("canal-protobuf", b"\xff") == ()
    assert statements("maxwell-json", None) == ()


@pytest.mark.unit
def test_maxwell_tells_the_columns_that_a_table_has_afterwards() -> None:
    (found,) = told("maxwell-json", MAXWELL)
    assert does(found) == ["rename name to called; change called"]
    assert found.columns_of(ITEMS) == ("id", "called")
    assert (found.position, found.place) == ("master.000006:800050", (7, 0))
    assert found.at == datetime(2016, 10, 21, 12, 32, 6, tzinfo=UTC)


@pytest.mark.unit
def test_a_message_of_maxwell_is_of_one_table() -> None:
    text = "RENAME TABLE items TO old, notes TO items"
    definition = {**MAXWELL["def"], "table": "old"}
    (found,) = told("maxwell-json", {**MAXWELL, "sql": text, "def": definition})
    assert does(found) == ["the table is called shop.old now"]
    other = {**MAXWELL, "table": "notes", "sql": text}
    (found,) = told("maxwell-json", other)
    (change,) = found.statement.of(ITEMS)
    assert change.table == Relation("shop", "notes")
    assert found.columns_of(ITEMS) == ("id", "called")


@pytest.mark.unit
@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"type": "table-drop", "database": "shop", "table": "items", "sql": None}, "dropped"),
        ({"type": "database-drop", "database": "shop", "sql": "DROP DATABASE shop"}, "dropped"),
        ({"type": "table-create", "database": "shop", "table": "items"}, "created"),
    ],
    ids=lambda each: each if isinstance(each, str) else each["type"],
)
def test_maxwell_tells_without_a_text_what_was_made_and_dropped(
    said: dict[str, Any], expected: str
) -> None:
    (found,) = told("maxwell-json", {**said, "ts": 1})
    assert does(found) == [f"the table was {expected}"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "odd",
    [
        {"type": "table-alter"},
        {"type": "table-alter", "database": 7, "table": [], "def": 1, "sql": []},
        {"type": "table-alter", "database": "shop", "table": "x", "def": {"columns": [{}, 1]}},
        {"type": "database-create", "database": "shop", "def": {"columns": {}}},
        {"isDdl": True, "database": 1, "table": None, "sql": ["x"], "es": "x", "type": []},
        {"isDdl": True, "sql": "(" * 100_000, "es": 10**30, "_tidb": {"commitTs": -1}},
    ],
)
def test_odd_messages_raise_nothing(odd: dict[str, Any]) -> None:
    for name in ("canal-json", "maxwell-json"):
        for scheme in (Scheme.OFFSET, Scheme.TIDB, Scheme.BINLOG):
            for found in told(name, odd, scheme):
                assert does(found) == []
