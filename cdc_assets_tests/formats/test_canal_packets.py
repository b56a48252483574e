"""Canal's packets in Python: the same messages as its JSON; and the jar for Spark."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.formats.canal.protobuf import messages_of
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.registered import format_of
from cdc_assets.log.kinds import TopicKind
from cdc_assets_tests.formats import canal
from cdc_assets_tests.formats.canal import OTHER, TABLE, ddl, flat, mark, row
from cdc_assets_tests.formats.decoding import Bytes, raw
from cdc_assets_tests.formats.test_fuzz_canal import source

pytestmark = pytest.mark.unit

JSON, PROTOBUF = format_of(source("canal-json")), format_of(source("canal-protobuf"))
ITEMS = TableName("s", *TABLE.split("."))
LAYOUT = Layout("canal")
SAID = [
    flat("INSERT", [row(1, "a"), row(2, None)]),
    flat("UPDATE", [row(3, "")], [{"id": "1"}]),
    flat("INSERT", [{"id": "1", "text": "ü"}], table=OTHER, types={"id": "int", "text": "text"}),
    ddl("ALTER", "ALTER TABLE items ADD x INT"),
    flat("DELETE", [row(2, None)]),
]
SHARED = ("database", "table", "type", "isDdl", "es", "sql")
OF_ROWS = ("data", "mysqlType", "sqlType", "pkNames")
GOLDEN = Path(__file__).parent / "golden" / "canal_packets.json"


def record(value: bytes | None) -> Any:
    (found,) = raw([Bytes(None, value)])
    return found


def test_a_packet_holds_the_messages_that_json_has() -> None:
    found = messages_of(canal.as_packet(SAID).value or b"")
    assert found is not None
    assert [dict(each) for each in found] == [
        {name: said[name] for name in (*SHARED, *(OF_ROWS if said["data"] else ()))}
        for said in SAID
    ]


def test_a_table_is_told_by_a_packet_as_by_json() -> None:
    packed = [record(canal.as_packet(SAID).value)]
    written = [record(canal.as_json(each).value) for each in SAID]
    assert PROTOBUF.tables(packed, "s") == JSON.tables(written, "s") == {
        ITEMS, TableName("s", *OTHER.split(".")),
    }  # fmt: skip
    found, expected = PROTOBUF.look(packed, ITEMS), JSON.look(written, ITEMS)
    assert replace(found, count=0) == replace(expected, count=0)
    assert (found.count, found.events) == (1, 3)
    assert PROTOBUF.holds_row(packed[0], ITEMS)
    assert not PROTOBUF.holds_row(packed[0], TableName("s", "shop", "none"))


def test_each_schema_of_a_packet_is_told() -> None:
    wider = {**canal.TYPES, "added": "double"}
    said = [SAID[0], flat("INSERT", [{**row(1, "a"), "added": "1"}], types=wider), SAID[2]]
    (packed,) = [record(canal.as_packet(said).value)]
    found = [PROTOBUF.written(each, LAYOUT) for each in PROTOBUF.unpacked(packed, ITEMS)]
    assert [each.described.names for each in found if each] == [tuple(canal.TYPES), tuple(wider)]
    alone = [JSON.written(record(canal.as_json(each).value), LAYOUT) for each in said[:2]]
    assert [each and each.number for each in found] == [each and each.number for each in alone]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (canal.as_packet([]).value, TopicKind.TRANSACTIONS),
        (canal.packet([]), TopicKind.TRANSACTIONS),
        (canal.as_packet(SAID[3:4]).value, TopicKind.SCHEMA_CHANGES),
        (canal.as_packet(SAID[3:]).value, TopicKind.CHANGES),
        (canal.packet([mark(9)]), TopicKind.UNREADABLE),
        (canal.packet([], compression=3), TopicKind.UNREADABLE),
        (canal.packet([b"\x0a\x05"]), TopicKind.UNREADABLE),
        (canal.as_json(SAID[0]).value, TopicKind.UNREADABLE),
        (b"", TopicKind.UNREADABLE),
        (b"\x18\x07\x2a\xff\xff\xff\xff\x07", TopicKind.UNREADABLE),
    ],
    ids=range(10),
)
def test_a_packet_is_of_the_kind_of_its_messages(value: bytes, kind: TopicKind) -> None:
    assert PROTOBUF.kind(record(value)) == kind


def test_looking_at_broken_packets_raises_nothing() -> None:
    rng = random.Random(5)
    for text in json.loads(GOLDEN.read_text()).values():
        good = bytes.fromhex(text)
        for _ in range(200):
            at = rng.randrange(len(good))
            broken = good[:at] + rng.choice([b"", rng.randbytes(1) + good[at + 1 :], good[at:] * 2])
            given = record(broken)
            assert PROTOBUF.look([given], ITEMS).count == 1
            assert PROTOBUF.kind(given)
            for message in PROTOBUF.unpacked(given, ITEMS):
                PROTOBUF.written(message, LAYOUT)
