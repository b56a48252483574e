"""Inline Connect schemas, beyond what PostgreSQL's fixture shows."""

import pytest

from cdc_assets.schema import stand_ins
from cdc_assets.schema.connect import describe_envelope, is_envelope_schema, map_field
from cdc_assets.schema.evolution import plan_evolution
from cdc_assets.schema.existing import EMPTY
from cdc_assets.schema.policy import Policy
from cdc_assets.schema.stored import from_json, to_json
from cdc_assets.schema.types import (
    Column,
    Decimal,
    ListOf,
    Primitive,
    TableSchema,
    UnmappedColumn,
    Wire,
    WireDetail,
)


def field(type_, name=None, **more):
    return {
        "field": "c",
        "type": type_,
        "optional": True,
        **({"name": name} if name else {}),
        **more,
    }


def decimal(scale, precision=None):
    parameters = {"scale": str(scale)}
    if precision is not None:
        parameters["connect.decimal.precision"] = str(precision)
    return field("bytes", "org.apache.kafka.connect.data.Decimal", parameters=parameters)


def bits(length):
    return field("bytes", "io.debezium.data.Bits", parameters={"length": str(length)})


@pytest.mark.unit
@pytest.mark.parametrize(
    ("given", "type_", "wire"),
    [
        (field("int16"), Primitive.INT, Wire.INT),
        (field("int64"), Primitive.LONG, Wire.LONG),
        (field("float"), Primitive.FLOAT, Wire.FLOAT),
        (field("double"), Primitive.DOUBLE, Wire.DOUBLE),
        (field("bytes"), Primitive.BINARY, Wire.BYTES_BASE64),
        (field("int32", "io.debezium.time.Date"), Primitive.DATE, Wire.EPOCH_DAYS),
        (field("int64", "io.debezium.time.Timestamp"), Primitive.TIMESTAMP, Wire.EPOCH_MILLIS),
        (field("int64", "io.debezium.time.MicroTimestamp"), Primitive.TIMESTAMP, Wire.EPOCH_MICROS),
        (field("int64", "io.debezium.time.NanoTimestamp"), Primitive.TIMESTAMP, Wire.EPOCH_NANOS),
        (
            field("int64", "org.apache.kafka.connect.data.Timestamp"),
            Primitive.TIMESTAMP,
            Wire.EPOCH_MILLIS,
        ),
        (field("string", "io.debezium.time.ZonedTimestamp"), Primitive.TIMESTAMPTZ, Wire.ISO_ZONED),
        (field("int32", "io.debezium.time.Time"), Primitive.LONG, Wire.MILLIS_OF_DAY),
        (field("int64", "io.debezium.time.MicroTime"), Primitive.LONG, Wire.LONG),
        (field("string", "io.debezium.data.Json"), Primitive.STRING, Wire.STRING),
        (decimal(2, 12), Decimal(12, 2), Wire.DECIMAL_BYTES),
        (decimal(5, 2), Decimal(5, 5), Wire.DECIMAL_BYTES),
        (field("array", items={"type": "int32"}), ListOf(Primitive.INT), Wire.LIST),
        (decimal(2), Decimal(38, 2), Wire.DECIMAL_BYTES),
        (decimal(0, 39), Primitive.STRING, Wire.DECIMAL_BYTES),
        (decimal(-2, 5), Primitive.STRING, Wire.DECIMAL_BYTES),
        (
            field("struct", "io.debezium.data.VariableScaleDecimal", fields=[]),
            Primitive.STRING,
            Wire.VARIABLE_SCALE_DECIMAL,
        ),
        (field("struct", "io.debezium.data.geometry.Point"), stand_ins.POINT.type, Wire.POINT),
        (
            field("struct", "io.debezium.data.geometry.Geography"),
            stand_ins.GEOMETRY.type,
            Wire.GEOMETRY,
        ),
        (field("int64", "io.debezium.time.MicroDuration"), Primitive.LONG, Wire.LONG),
        (field("int64", "io.debezium.time.NanoTime"), Primitive.LONG, Wire.NANOS_OF_DAY),
        (field("string", "io.debezium.time.Interval"), Primitive.STRING, Wire.STRING),
        (field("string", "io.debezium.time.ZonedTime"), Primitive.STRING, Wire.STRING),
        (field("string", "io.debezium.time.IsoDate"), Primitive.DATE, Wire.ISO_DATE),
        (field("string", "io.debezium.time.IsoTime"), Primitive.LONG, Wire.ISO_TIME),
        (field("string", "io.debezium.time.IsoTimestamp"), Primitive.TIMESTAMP, Wire.ISO_TIMESTAMP),
        (bits(3), Primitive.LONG, Wire.BITS),
        (bits(64), Decimal(20, 0), Wire.BITS),
        (bits(65), Primitive.STRING, Wire.BITS),
        (field("string", "acme.Thing"), Primitive.STRING, Wire.STRING),
        (field("int64", "acme.Thing"), Primitive.LONG, Wire.LONG),
        (field("struct", fields=[]), Primitive.STRING, Wire.JSON),
        (field("map"), Primitive.STRING, Wire.JSON),
        (field("array", items={"type": "struct"}), Primitive.STRING, Wire.JSON),
        (
            field("array", items={"type": "array", "items": {"type": "int32"}}),
            Primitive.STRING,
            Wire.JSON,
        ),
    ],
    ids=lambda value: value.get("name") or value["type"] if isinstance(value, dict) else None,
)
def test_a_semantic_name_decides_the_unit(given, type_, wire):
    found = map_field(given)
    assert isinstance(found, Column)
    assert (found.type, found.wire) == (type_, wire)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("given", "words", "wire"),
    [
        (field("bytes", "io.debezium.data.Bits"), "how many bits", Wire.BITS),
        (bits(0), "how many bits", Wire.BITS),
        (field("union"), "is known for: union", None),
        (
            field("array", items={"type": "union"}),
            "elements: no lake type is known for: union",
            None,
        ),
    ],
    ids=lambda value: value.get("name") or value["type"] if isinstance(value, dict) else None,
)
def test_what_has_no_exact_type_is_refused(given, words, wire):
    found = map_field(given)
    assert isinstance(found, UnmappedColumn)
    assert words in found.reason
    assert found.wire is wire
    assert found.name == "c"


@pytest.mark.unit
def test_optional_and_documentation_are_kept():
    found = map_field({"field": "c", "type": "string", "optional": False, "doc": "what it is"})
    assert isinstance(found, Column)
    assert (found.required, found.comment, found.unchanged_marker) == (True, "what it is", True)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("given", "told"),
    [
        (field("int64", "io.debezium.time.MicroTime"), "microseconds since midnight"),
        (field("string", "io.debezium.time.Interval"), "an interval, as in ISO 8601"),
    ],
)
def test_the_comment_of_the_source_comes_before_that_of_the_type(given, told):
    assert map_field(given).comment == told
    assert map_field({**given, "doc": "what it is"}).comment == f"what it is; {told}"


@pytest.mark.unit
def test_a_schema_without_a_row_describes_no_table():
    heartbeat = {"type": "struct", "fields": [{"field": "ts_ms", "type": "int64"}]}
    assert describe_envelope(heartbeat).columns == ()


AFTER = {"field": "after", "type": "struct", "fields": [{"field": "id", "type": "int64"}]}


@pytest.mark.unit
@pytest.mark.parametrize(
    "value",
    [
        None, 7, "text", [], {}, {"type": "struct"}, {"type": 7, "fields": [AFTER]},
        {"type": "struct", "fields": "text"}, {"type": "struct", "fields": [7]},
        {"type": "struct", "fields": [AFTER, AFTER]},
        {"type": "struct", "fields": [{**AFTER, "fields": []}]},
        {"type": "struct", "fields": [{**AFTER, "type": "string"}]},
        {"type": "struct", "fields": [{**AFTER, "fields": [{"type": "int64"}]}]},
        {"type": "struct", "fields": [{**AFTER, "fields": [{"field": 7, "type": "int64"}]}]},
        {"type": "struct", "fields": [{**AFTER, "fields": [{**decimal(2), "items": 7}]}]},
        {"type": "struct", "fields": [{**AFTER, "fields": [decimal("9" * 5000)]}]},
        {"type": "struct", "fields": [{**AFTER, "fields": [{**decimal(2), "parameters": [1]}]}]},
        {"type": "struct", "fields": [AFTER, {**decimal(2), "name": ["x"]}]},
    ],
)  # fmt: skip
def test_what_is_no_schema_of_an_envelope(value):
    assert not is_envelope_schema(value)


@pytest.mark.unit
def test_what_is_one():
    value = {"type": "struct", "fields": [AFTER, {**decimal(2, 10), "field": "x"}]}
    assert is_envelope_schema(value)
    assert describe_envelope(value).names == ("id",)


def told(type_, length=None, scale=None):
    given = {"type": type_, "length": length, "scale": scale}
    parameters = {
        f"__debezium.source.column.{n}": str(v) for n, v in given.items() if v is not None
    }
    return field("string", parameters=parameters)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("given", "type_", "wire", "detail"),
    [
        (told("NUMERIC", 10, 2), Decimal(10, 2), Wire.DECIMAL_TEXT, None),
        (told("numeric", 38, 0), Decimal(38, 0), Wire.DECIMAL_TEXT, None),
        (told("NUMERIC", 131089, 0), Primitive.STRING, Wire.STRING, WireDetail(number=True)),
        (told("NUMERIC", 3, 2046), Primitive.STRING, Wire.STRING, WireDetail(number=True)),
        (told("NUMERIC"), Primitive.STRING, Wire.STRING, WireDetail(number=True)),
        (told("NUMERIC", "x", 2), Primitive.STRING, Wire.STRING, WireDetail(number=True)),
        (told("VARCHAR", 10), Primitive.STRING, Wire.STRING, None),
    ],
)
def test_a_decimal_as_text_is_one_if_its_source_type_is_propagated(given, type_, wire, detail):
    found = map_field(given)
    assert isinstance(found, Column)
    assert (found.type, found.wire, found.detail) == (type_, wire, detail)


@pytest.mark.unit
def test_a_number_that_is_stored_as_text_stays_so_once_its_type_is_told():
    lake = TableSchema((Column("c", Primitive.STRING, Wire.STRING),))
    record = TableSchema((map_field(told("NUMERIC", 10, 2)),))
    assert plan_evolution(lake, record, Policy()).is_empty


@pytest.mark.unit
@pytest.mark.parametrize("name", ["Enum", "EnumSet"])
def test_labels_are_the_records_own_and_not_stored(name):
    full = field("string", f"io.debezium.data.{name}", parameters={"allowed": "a,b"})
    found = map_field(full)
    is_set = name == "EnumSet"
    assert found.detail == WireDetail(("a", "b"), many=is_set, is_closed=is_set)
    (stored,) = from_json(to_json(TableSchema((found,)))).columns
    assert not (stored.detail and stored.detail.labels)
    for allowed in ("", "x" * 30_000):
        more = {**full, "parameters": {"allowed": allowed}}
        assert map_field(more).detail is None


@pytest.mark.unit
@pytest.mark.parametrize("default", [0, "", "1970-01-01T00:00:00Z", False, [], "00000000-0000"])
def test_a_default_is_no_value_of_a_row(default):
    assert map_field({**field("string"), "default": default}).existing == EMPTY
    assert map_field(field("string")).existing is None
