"""Single messages and packets of Canal, decoded: what becomes of each, and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row

from cdc_assets.config.connector import ConnectorConfig
from cdc_assets.formats.format import Format
from cdc_assets.formats.registered import format_of
from cdc_assets.formats.spec import LINE_BITS, ReadSpec
from cdc_assets.schema.overrides import as_digest
from cdc_assets_tests.formats import canal
from cdc_assets_tests.formats.canal import BEGIN, END, GTID, HEARTBEAT, entry, mark, packet
from cdc_assets_tests.formats.decoding import (
    TABLE,
    Bytes,
    Table,
    decoded,
    raw,
    read_by,
    table_of,
)
from cdc_assets_tests.formats.protobuf_trees import varint
from cdc_assets_tests.formats.test_fuzz_canal import source
from cdc_assets_tests.formats.test_golden import change_of
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parent / "golden"
JSON, PROTOBUF = format_of(source("canal-json")), format_of(source("canal-protobuf"))
FORMATS = pytest.mark.parametrize("fmt", [JSON, PROTOBUF], ids=["json", "protobuf"])
USUALLY_JSON = pytest.mark.parametrize(
    "fmt",
    [pytest.param(JSON, id="json"), pytest.param(PROTOBUF, id="protobuf", marks=profiles.in_soak)],
)
USUALLY_PROTOBUF = pytest.mark.parametrize(
    "fmt",
    [pytest.param(JSON, id="json", marks=profiles.in_soak), pytest.param(PROTOBUF, id="protobuf")],
)
TYPES = {"id": "int", "name": "varchar(20)"}
XA = "a prepared transaction was rolled back"
NAMELESS = "it does not name its database and table"
UNTYPED = (
    "it does not tell its types (mysqlType); they are read from the configuration if "
    "tables.<schema.table>.columns names every column, before the table is made"
)


def flat(kind: str, data: list | None, **more: Any) -> dict[str, Any]:
    return {**canal.flat(kind, data, table="public.t", types=TYPES), **more}


GOOD = flat("INSERT", [{"id": "1", "name": "a"}])


def alone(fmt: Format, said: dict[str, Any]) -> Bytes:
    written = canal.as_json(said) if fmt.name == JSON.name else canal.as_packet([said])
    return Bytes(None, written.value)


def became(spark: Session, fmt: Format, *records: Bytes) -> list[tuple[Any, ...]]:
    """``(op, reject, line)`` of each row of each record, after a good one."""
    given = [alone(fmt, GOOD), *records]
    table = table_of(fmt, given[:1])
    changes = decoded(spark, fmt, table, given)
    assert [row["reject"] for row in changes.pop(0)] == [None]
    mask = (1 << LINE_BITS) - 1
    return [
        (row["op"], row["reject"], None if row["n0"] is None else row["n0"] & mask)
        for rows in changes.values()
        for row in rows
    ]


@USUALLY_PROTOBUF
def test_what_is_known_of_no_table_stops_each_of_them(spark: Session, fmt: Format) -> None:
    nobody = {"database": "", "table": ""}
    said = [
        flat("XAROLLBACK", None, **nobody, mysqlType=None),
        flat("INSERT", [{"id": "2", "name": "b"}], **nobody),
        flat("TRUNCATE", None, **nobody, isDdl=True),
        flat("UPDATE", None, mysqlType=None),
    ]
    found = became(spark, fmt, *(alone(fmt, each) for each in said))
    reasons = [reject for _, reject, _ in found]
    assert reasons[0].startswith(XA)
    assert reasons[1:] == [NAMELESS, NAMELESS, UNTYPED]


@USUALLY_JSON
def test_what_changes_no_rows_is_told_apart(spark: Session, fmt: Format) -> None:
    nobody = {"database": "", "table": "", "mysqlType": None}
    said = [
        flat("QUERY", None, **nobody),
        flat("XACOMMIT", None, **nobody),
        flat("CREATE", None, isDdl=True, mysqlType=None),
        flat("INSERT", [{"id": "2", "name": "b"}], database="public", table="other"),
    ]
    found = became(spark, fmt, *(alone(fmt, each) for each in said))
    ops = ["control", "control", "statement", "other"]
    assert [(op, reject) for op, reject, _ in found] == [(op, None) for op in ops]


@USUALLY_JSON
def test_a_character_that_canal_could_not_read_is_refused_unless_it_is_data(
    spark: Session, fmt: Format
) -> None:
    lost = flat("INSERT", [{"id": "2", "name": "caf\ufffd"}])
    raw = Bytes(None, (alone(fmt, lost).value or b"").replace(b"\\ufffd", "\ufffd".encode()))
    spelt = flat("INSERT", [{"id": "3", "name": "\\ufffd"}])
    elsewhere = flat("QUERY", None, sql="UPDATE t SET name = 'caf\ufffd'", mysqlType=None)
    found = became(spark, fmt, raw, *(alone(fmt, each) for each in (lost, spelt, elsewhere)))
    told = "column 'name': its text holds U+FFFD"
    assert [(reject or "").startswith(told) for _, reject, _ in found] == [
        True, True, False, False,
    ]  # fmt: skip
    assert [op for op, _, _ in found[2:]] == ["c", "control"]
    keeps = fmt.source.model_copy(
        update={"connector": ConnectorConfig(replacement_characters="keep")}
    )
    found = became(spark, format_of(keeps), alone(fmt, lost))
    assert [(op, reject) for op, reject, _ in found] == [("c", None)]


READ = {"id": "int", "code": "varchar(9)", "name": "varchar(20)"}
ALL = {**READ, "note": "varchar(20)", "sort": "enum('a','\ufffd')"}


def with_code(kind: str, old: dict[str, Any] | None = None, **given: str) -> dict[str, Any]:
    image = {"id": "1", "code": "x", "name": "a", "note": "b", "sort": "1", **given}
    olds = None if old is None else [old]
    codes = {"id": 4, "code": 12, "name": 12, "note": 12, "sort": 4}
    return flat(kind, [image], old=olds, mysqlType=ALL, sqlType=codes, pkNames=["code"])


def read_in_part(
    spark: Session, fmt: Format, *said: dict[str, Any], masked: str = ""
) -> list[tuple[str, bool]]:
    """Kind of each change, and whether U+FFFD stops it, of a table without all other columns."""
    records = [alone(fmt, each) for each in said]
    table = table_of(fmt, records[:1], ("code",))
    columns = (
        as_digest(each) if each.name == masked else each
        for each in table.schema.columns
        if each.name in READ
    )
    mine = replace(table, schema=replace(table.schema, columns=tuple(columns)))
    found = read_as(spark, fmt, mine, records)
    return [(row["op"], "holds U+FFFD" in (row["reject"] or "")) for row in found]


def read_as(spark: Session, fmt: Format, table: Table, records: list[Bytes]) -> list[Row]:
    """The changes, of records whose types are those of the first, by the table's columns."""
    schema = table.schema
    messages = [each for record in raw(records[:1]) for each in fmt.unpacked(record, TABLE)]
    written = fmt.written(messages[0], table.layout)
    assert written is not None
    assert written.number is not None
    writers = {written.number: written.text}
    spec = ReadSpec(schema, table.layout, schema, TABLE, parse_here=True, writers=writers)
    return read_by(spark, fmt, [spec], records)


@USUALLY_PROTOBUF
def test_only_texts_that_the_table_reads_are_looked_at(spark: Session, fmt: Format) -> None:
    lost = "caf\ufffd"
    said = [
        with_code("INSERT"),
        with_code("INSERT", note=lost),
        with_code("INSERT", sort="2"),
        {**with_code("INSERT"), "sql": lost},
        with_code("UPDATE", {"name": lost, "note": lost}),
        with_code("DELETE", name=lost),
        with_code("INSERT", name=lost),
        with_code("UPDATE", {"name": "b"}, name=lost),
        with_code("UPDATE", {"code": lost}),
        with_code("DELETE", code=lost),
    ]
    assert read_in_part(spark, fmt, *said) == [
        ("c", False), ("c", False), ("c", False), ("c", False), ("u", False), ("d", False),
        ("c", True), ("u", True), ("u", True), ("d", True),
    ]  # fmt: skip
    assert read_in_part(spark, fmt, *said[-4:], masked="name")[0] == ("c", True)


def test_what_ticdc_marks_as_its_own_is_text_as_it_was(spark: Session) -> None:
    said = {**flat("INSERT", [{"id": "2", "name": "\ufffd"}]), "_tidb": {"commitTs": 5}}
    ((op, reject, _),) = became(spark, JSON, alone(JSON, said))
    assert (op, reject) == ("c", None)


def test_half_a_character_is_refused(spark: Session) -> None:
    half = json.dumps(GOOD).replace('"a"', r'"\ud800"').encode()
    ((_, reject, _),) = became(spark, JSON, Bytes(None, half))
    assert reject == "a text holds half of a surrogate pair"


ODD_TYPES = {
    "id": "int", "note": "TEXT(1000)", "plain": "text", "doc": "json", "of_mariadb": "JSON",
    "flag": "BINARY", "many": "binary(3)",
}  # fmt: skip
ODD_CODES = {
    "id": 4, "note": 2004, "plain": 2005, "doc": 12, "of_mariadb": 2004, "flag": 2004, "many": 2004,
}  # fmt: skip


def odd(**given: str | None) -> dict[str, Any]:
    image = {**dict.fromkeys(ODD_TYPES), "id": "1", **given}
    return flat("INSERT", [image], mysqlType=ODD_TYPES, sqlType=ODD_CODES)


def as_read(spark: Session, fmt: Format, *said: dict[str, Any]) -> list[Any]:
    """The row of each message, or why it is rejected."""
    records = [alone(fmt, each) for each in said]
    changes = decoded(spark, fmt, table_of(fmt, records), records)
    return [row["reject"] or row["row"].asDict() for rows in changes.values() for row in rows]


@USUALLY_JSON
def test_a_text_that_canal_wrote_as_bytes_has_its_characters(spark: Session, fmt: Format) -> None:
    garbled = "Käse, 日本".encode().decode("latin-1")
    said = [
        odd(note=garbled, plain="Käse, 日本", of_mariadb=garbled),
        odd(note="Ã©", plain="Ã©"),
        odd(note="", plain=""),
        odd(note="é"),  # a byte that UTF-8 does not have alone: the column is of another encoding
        odd(note="日"),
    ]
    *read, latin, wide = as_read(spark, fmt, *said)
    names = ("note", "plain", "of_mariadb")
    assert [tuple(row[name] for name in names) for row in read] == [
        ("Käse, 日本", "Käse, 日本", "Käse, 日本"), ("é", "Ã©", None), ("", "", None),
    ]  # fmt: skip
    assert latin == wide == "column 'note': its value does not fit string"


@USUALLY_PROTOBUF
def test_a_text_is_read_as_its_own_message_tells(spark: Session, fmt: Format) -> None:
    codes = {**ODD_CODES, "note": 2005}
    said = [odd(note="Ã©"), {**odd(note="Ã©"), "sqlType": codes}, {**odd(note="Ã©")}]
    assert [row["note"] for row in as_read(spark, fmt, *said)] == ["é", "Ã©", "é"]


@pytest.mark.parametrize(
    "none", [None, *(pytest.param(each, marks=profiles.in_soak) for each in ({}, {"note": "x"}, 5))]
)
def test_a_message_without_the_other_types_is_read(spark: Session, none: object) -> None:
    (row,) = as_read(spark, JSON, {**odd(note="Ã©"), "sqlType": none})
    assert row["note"] == "Ã©"


@FORMATS
def test_a_part_of_a_json_value_is_no_json_value(spark: Session, fmt: Format) -> None:
    values = ('{"a": 1.0E10, "b": [null, "\\u0007"]}', '"x"', "12", "null", "", None)
    said = [*(odd(doc=each) for each in values), odd(doc="JSON_REPLACE(doc, '$.a', 2)")]
    *read, partial = as_read(spark, fmt, *said)
    assert [row["doc"] for row in read] == [*values]
    assert partial == "column 'doc': its value does not fit string"


@USUALLY_JSON
def test_a_text_that_is_configured_need_not_be_json(spark: Session, fmt: Format) -> None:
    """Canal before 1.1.8 does not escape the keys of objects."""
    records = [alone(fmt, odd(doc=each)) for each in ('{"a"b": 1}', '{"a": 1}', "", None)]
    (unfit, *_) = read_as(spark, fmt, table_of(fmt, records), records)
    assert unfit["reject"] == "column 'doc': its value does not fit string"
    given = table_of(fmt, records, columns={"doc": "string"})
    read = [row["row"]["doc"] for row in read_as(spark, fmt, given, records)]
    assert read == ['{"a"b": 1}', '{"a": 1}', "", None]


@FORMATS
def test_a_binary_without_a_width_has_a_byte(spark: Session, fmt: Format) -> None:
    read = as_read(spark, fmt, *(odd(flag=each, many=each) for each in ("", "ÿ", "\0a", None)))
    assert [(row["flag"], row["many"]) for row in read] == [
        (b"\0", b"\0\0\0"), (b"\xff", b"\xff\0\0"), (b"\0a", b"\0a\0"), (None, None),
    ]  # fmt: skip


def test_packets_that_canals_own_classes_wrote_are_read(spark: Session) -> None:
    """Made by ``golden/RecordCanalPackets.java``."""
    packets = json.loads((GOLDEN / "canal_packets.json").read_text())
    expected = json.loads((GOLDEN / "canal_changes.json").read_text())
    records = [Bytes(None, bytes.fromhex(each)) for each in packets.values()]
    table = table_of(PROTOBUF, records)
    changes = decoded(spark, PROTOBUF, table, records)
    told = {
        what: [_told(row, table) for row in rows]
        for what, rows in zip(packets, changes.values(), strict=True)
    }
    assert told == expected


def _told(row: Row, table: Table) -> dict[str, Any]:
    return {"other": row["other_table"]} if row["op"] == "other" else change_of(row, table)


def odd_packets() -> dict[str, tuple[bytes, str]]:
    said = entry(GOOD)
    column = {"name": "id", "value": "1", "isKey": True, "mysqlType": "int"}
    change = canal.change(GOOD)

    def changed(edit: Callable[[Any], None]) -> bytes:
        made = canal.change(GOOD)
        edit(made)
        return packet([entry(GOOD, storeValue=made.SerializeToString())])

    many = b"\x10\x01" + b"\x62\x05\x12\x03\x1a\x01a" * (2**LINE_BITS + 1)
    return {
        "cut off": (packet([said])[:-1], "it is not protobuf, or was cut off"),
        "an entry is cut off": (packet([said[:-1]]), "it is not protobuf, or was cut off"),
        "JSON": (json.dumps(GOOD).encode(), "it is not protobuf, or was cut off"),
        "empty": (b"", "not a packet of Canal's that holds messages"),
        "announces two gigabytes": (
            b"\x18\x07\x2a" + varint(2**31 - 1), "it is not protobuf, or was cut off",
        ),
        "a group": (packet([said]) + b"\x33\x34", "it is not protobuf, or was cut off"),
        "zlib": (packet([said], compression=2),
                 "its body is compressed (ZLIB), which Canal does not read either"),
        "another compression": (
            packet([said], compression=9),
            "its body is compressed (a way that is not known), which Canal does not read either",
        ),
        "an entry type of the future": (
            packet([said, entry(GOOD, entryType=6)]), "an entry of a type that is not known",
        ),
        "no entry type": (
            packet([entry(GOOD, entryType=0)]), "an entry of a type that is not known",
        ),
        "a body twice": (packet([said]) + b"\x2a\x00", "a field that comes once is there twice"),
        "a text for a number": (b"\x1a\x00", "a field is of another type than Canal's"),
        "an event of the future": (
            changed(lambda made: setattr(made, "eventType", 99)),
            "an entry has rows, but does not say before them what became of them",
        ),
        "the row of another event": (
            changed(lambda made: setattr(made, "eventType", 3)), "a row has no columns",
        ),
        "no UTF-8": (
            packet([said]).replace(b"a\x52\x0bvarchar", b"\xff\x52\x0bvarchar"),
            "a text is not UTF-8",
        ),
        "a column without a name": (
            changed(lambda made: made.rowDatas[0].afterColumns.add(value="x")),
            "a column has no name",
        ),
        "a column twice": (
            changed(lambda made: made.rowDatas[0].afterColumns.add(**column)),
            "a column is there twice",
        ),
        "rows unlike each other": (
            changed(lambda made: made.rowDatas.add(afterColumns=[column])),
            "rows of one entry have different columns",
        ),
        "too many rows": (
            packet([entry(GOOD, storeValue=many)]), "it holds more than 1,048,576 rows",
        ),
        "nothing is stored": (
            packet([entry(GOOD, storeValue=b"")]),
            "not a message of Canal, or of a type that is not known",
        ),
        "fine": (packet([entry(GOOD, storeValue=change.SerializeToString())]), ""),
    }  # fmt: skip


def test_odd_packets_are_refused_with_the_reason(spark: Session) -> None:
    odd = odd_packets()
    found = became(spark, PROTOBUF, *(Bytes(None, each) for each, _ in odd.values()))
    assert {what: reject or "" for what, (_, reject, _) in zip(odd, found, strict=True)} == {
        what: reason for what, (_, reason) in odd.items()
    }


def test_an_entry_that_cannot_be_read_stops_its_own_table_only(spark: Session) -> None:
    bad = {"storeValue": b"\x10\x01\x62\xff"}
    other = flat("INSERT", [{"id": "2", "name": "b"}], table="other")
    given = [
        packet([entry(GOOD), entry(other, **bad), entry(GOOD)]),
        packet([entry(GOOD), entry(GOOD, **bad)]),
    ]
    found = became(spark, PROTOBUF, *(Bytes(None, each) for each in given))
    assert [(op, reject is None) for op, reject, _ in found] == [
        ("c", True), ("other", True), ("c", True), ("c", True), (None, False),
    ]  # fmt: skip


def test_rows_are_counted_through_the_whole_packet(spark: Session) -> None:
    two = flat("INSERT", [{"id": "1", "name": "a"}, {"id": "2", "name": "b"}])
    marks = [mark(kind) for kind in (BEGIN, END, HEARTBEAT, GTID)]
    given = packet([*marks, entry(two), *marks, entry(GOOD), entry(two)])
    found = became(spark, PROTOBUF, Bytes(None, given), Bytes(None, packet(marks)))
    assert found == [*(("c", None, line) for line in range(5)), ("control", None, 0)]
