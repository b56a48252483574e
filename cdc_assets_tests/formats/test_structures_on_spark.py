"""Columns of structures, from JSON and from Avro: read by their fields' names, or as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdc_assets.changes.position import Scheme
from cdc_assets.formats.layout import Layout
from cdc_assets.schema import stand_ins
from cdc_assets.schema.types import Column, Primitive, TableSchema, Wire
from cdc_assets_tests.formats import golden_records as golden
from cdc_assets_tests.formats.debezium import debezium_avro, debezium_json
from cdc_assets_tests.formats.decoding import Bytes, Table, decoded, table_of
from cdc_assets_tests.formats.registry_server import running, schema_reply
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.schema.avro_binary import encode

pytestmark = pytest.mark.spark

PLACEHOLDER = "__debezium_unavailable_value"
SOURCE = {"connector": "postgresql", "ts_ms": 1_760_000_000_000, "lsn": 7, "sequence": '["6","7"]'}


def test_a_point_of_avro_is_read_without_the_field_that_the_lake_has_not(spark: Session) -> None:
    said = golden.load(golden.AVRO)
    records = [
        Bytes(each.key, each.value) for each in golden.messages(said["records"], "public.odd_kinds")
    ]
    with golden.confluent_registry(said["schemas"]) as registry:
        fmt = debezium_avro(registry.url)
        read = decoded(spark, fmt, table_of(fmt, records), records)
    (first,) = read[0]
    row = first["row"].asDict(recursive=True)
    assert first["reject"] is None
    assert row["a_point"] == {"x": 1.5, "y": -2.0, "srid": None}
    assert (row["any_numeric"], row["some_bits"]) == ("3.14159", 22)


def test_structures_of_avro_are_json(spark: Session) -> None:
    pair = record("Pair", a="int", b=["null", "string"])
    value = record(
        "Value",
        id="long",
        attrs=["null", {"type": "map", "values": ["null", "string"]}],
        sub=["null", pair],
        pairs={"type": "array", "items": ["null", "Pair"]},
    )
    event = record("Envelope", after=["null", value], op="string")
    good = {
        "id": 1,
        "attrs": (1, {"k": (1, "v"), "n": (0, None)}),
        "sub": (1, {"a": 1, "b": (1, "x")}),
        "pairs": [(1, {"a": 2, "b": (0, None)}), (0, None)],
    }
    rows = [
        ("c", good),
        ("c", {**good, "attrs": (0, None), "sub": (0, None), "pairs": []}),
        ("u", {**good, "attrs": (1, {PLACEHOLDER: (1, PLACEHOLDER)})}),
    ]
    data = [encode(event, {"after": (1, row), "op": op}) for op, row in rows]
    data.append(data[0].replace(b"\x02x", b"\x02\xff"))
    records = [Bytes(b'{"id":1}', b"\x00\x00\x00\x00\x01" + each) for each in data]
    with running() as registry:
        registry.replies["/schemas/ids/1"] = schema_reply(event)
        fmt = debezium_avro(registry.url)
        read = [rows[0] for rows in decoded(spark, fmt, table_of(fmt, records), records).values()]
    found = [None if each["row"] is None else each["row"].asDict() for each in read]
    assert [each["reject"] for each in read] == [None, None, None, "column 'sub': it is not UTF-8"]
    assert found[0] == {
        "id": 1,
        "attrs": '{"k":"v","n":null}',
        "sub": '{"a":1,"b":"x"}',
        "pairs": '[{"a":2,"b":null},null]',
    }
    assert found[1] == {"id": 1, "attrs": None, "sub": None, "pairs": "[]"}
    assert [each["unset"]["attrs"] for each in read] == [False, False, True, False]


def test_structures_in_json_with_a_schema_are_json(spark: Session) -> None:
    line = {"type": "struct", "fields": [{"field": "sku", "type": "string"}]}
    fields = [
        {"field": "id", "type": "int64"},
        {"field": "lines", "type": "array", "items": line, "optional": True},
        {"field": "attrs", "type": "map", "optional": True},
    ]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}

    def event(op: str, **row: Any) -> Bytes:
        payload = {"op": op, "after": {"id": 1, **row}, "source": SOURCE}
        return Bytes(b'{"id":1}', compact({"schema": schema, "payload": payload}))

    unchanged = {PLACEHOLDER: PLACEHOLDER}
    records = [
        event("c", lines=[{"sku": "a"}], attrs=unchanged),
        event("u", lines=[{"sku": "b"}], attrs=unchanged),
        event("u", lines=None, attrs={"k": "v"}),
    ]
    fmt = debezium_json()
    read = [r[0] for r in decoded(spark, fmt, table_of(fmt, records, ("id",)), records).values()]
    assert [each["reject"] for each in read] == [None] * 3
    assert [each["row"]["lines"] for each in read] == ['[{"sku":"a"}]', '[{"sku":"b"}]', None]
    assert [each["row"]["attrs"] for each in read][::2] == [
        compact(unchanged).decode(),
        '{"k":"v"}',
    ]
    assert [each["unset"]["attrs"] for each in read] == [True, True, False]
    assert [each["unset"]["lines"] for each in read] == [False] * 3


def test_a_geometry_is_read_though_it_is_marked(spark: Session) -> None:
    """As tables of older releases have it: no geometry is ever a placeholder."""
    geometry = Column("place", stand_ins.GEOMETRY.type, Wire.GEOMETRY, unchanged_marker=True)
    schema = TableSchema(
        (Column("id", Primitive.LONG, Wire.LONG, required=True), geometry), ("id",)
    )
    table = Table(schema, Layout("bare", scheme=Scheme.POSTGRES))
    rows = [{"id": 1, "place": {"wkb": "AQID", "srid": 4326}}, {"id": 1, "place": None}]
    records = [
        Bytes(b'{"id":1}', compact({"op": "u", "before": None, "after": row, "source": SOURCE}))
        for row in rows
    ]
    read = [each[0] for each in decoded(spark, debezium_json(), table, records).values()]
    assert [each["reject"] for each in read] == [None, None]
    assert [each["row"]["place"] for each in read] == [(b"\1\2\3", 4326), None]
    assert [each["unset"]["place"] for each in read] == [False, False]


def record(called: str, **fields: object) -> dict[str, Any]:
    listed = [{"name": name, "type": type_} for name, type_ in fields.items()]
    return {"type": "record", "name": called, "fields": listed}


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
