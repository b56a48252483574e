"""Whatever a record of Canal's formats holds, it is changes or a rejection."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from cdc_assets.config import SourceConfig
from cdc_assets.formats.registered import format_of
from cdc_assets_tests.formats import canal, protobuf_trees
from cdc_assets_tests.formats.decoding import Bytes, table_of
from cdc_assets_tests.formats.fuzz import require_told
from cdc_assets_tests.pipeline import Session

pytestmark = pytest.mark.spark

TYPES = {
    "id": "int", "name": "varchar(20)", "price": "decimal(10,2)", "big": "bigint unsigned",
    "at": "datetime(3)", "data": "varbinary(8)", "kind": "enum('a','b')", "f": "double",
}  # fmt: skip
COLUMN: protobuf_trees.Shape = {}
ROW = {1: COLUMN, 2: COLUMN}
PACKET = {5: {2: {1: {}, 3: {12: ROW}}}}


def row(id_: int, **more: Any) -> dict[str, Any]:
    usual = {
        "id": str(id_), "name": "x", "price": "1.50", "big": str(2**64 - 1),
        "at": "2026-01-31 12:00:00.125", "data": "ÿ", "kind": "1", "f": "1.5",
    }  # fmt: skip
    return {**usual, **more}


def flat(kind: str, *given: Any) -> dict[str, Any]:
    return canal.flat(kind, *given, table="public.t", types=TYPES)


MESSAGES = [
    flat("INSERT", [row(1), row(2, name=None, kind=None)]),
    flat("UPDATE", [row(3, name="")], [{"id": "1", "name": "x"}]),
    flat("DELETE", [row(2)]),
    canal.ddl("TRUNCATE", "TRUNCATE t", "public.t"),
    canal.ddl("ALTER", "ALTER TABLE t ADD x INT", "public.t"),
]


def source(name: str) -> SourceConfig:
    return SourceConfig.model_validate({"format": name, "topics": {"include": [".*"]}})


def test_every_message_of_json_is_changes_or_a_rejection(spark: Session) -> None:
    fmt = format_of(source("canal-json"))
    good = [Bytes(None, canal.as_json(each).value) for each in MESSAGES]
    counts = require_told(spark, fmt, table_of(fmt, good), good, count=400)
    assert counts["rejected"] > 40
    assert sum(counts.values()) - counts["rejected"] > 40


@st.composite
def broken_packets(draw: DrawFn, good: list[Bytes]) -> Bytes:
    packet = draw(st.sampled_from([each.value for each in good]))
    return Bytes(None, draw(protobuf_trees.broken(packet, PACKET)))


def test_every_packet_is_changes_or_a_rejection(spark: Session) -> None:
    fmt = format_of(source("canal-protobuf"))
    packets = [canal.as_packet([each]) for each in MESSAGES] + [canal.as_packet(MESSAGES)]
    good = [Bytes(None, each.value) for each in packets]
    odd = broken_packets(good)
    counts = require_told(spark, fmt, table_of(fmt, good), good, count=600, odd=odd)
    assert counts["rejected"] > 60
    assert sum(counts.values()) - counts["rejected"] > 60
