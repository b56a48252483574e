"""PostgreSQL's types, checked against what Debezium's own record schema says about them.

The fixtures are one table with (nearly) every type, as PostgreSQL 18's catalog described it
and as Debezium 3.6.1.Final wrote its row, with default modes.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.databases.postgres.columns import PostgresColumn, numeric_digits, toast_warning
from cdc_assets.databases.postgres.table import PostgresTable, ReplicaIdentity
from cdc_assets.databases.postgres.types import describe_table, map_column, without_lost
from cdc_assets.errors import TerminalError
from cdc_assets.schema import stand_ins
from cdc_assets.schema.connect import describe_envelope, describe_row, map_field
from cdc_assets.schema.modes import BinaryMode, ConnectorModes, DecimalMode, IntervalMode, TimeMode
from cdc_assets.schema.overrides import apply_overrides, with_bounds
from cdc_assets.schema.parse import parse_spec
from cdc_assets.schema.types import (
    Column,
    Decimal,
    ListOf,
    Primitive,
    UnmappedColumn,
    Wire,
    WireDetail,
)
from cdc_assets_tests.databases.postgres_columns import column, numeric

FIXTURES = Path(__file__).parent / "fixtures"
CATALOG = [
    PostgresColumn(**column)
    for column in json.loads((FIXTURES / "postgres_types.catalog.json").read_text())
]
RECORD = json.loads((FIXTURES / "postgres_types.record.json").read_text())
NEVER_IN_EVENTS = {"pr", "g", "xa", "dma"}
UNBOUNDED = Decimal(38, 10)
ONLY_THE_CATALOG_TELLS = {"rg", "inn", "bi"}
BITS_OF_3 = {"type": "bytes", "name": "io.debezium.data.Bits", "parameters": {"length": "3"}}
TEXT_FIELD = {"field": "c", "optional": True, "type": "string"}
GEOMETRY_FIELD = {"type": "struct", "name": "io.debezium.data.geometry.Geometry"}
TEXTS = (Wire.STRING, Wire.BYTES_BASE64, Wire.DECIMAL_BYTES, Wire.ISO_ZONED, Wire.BITS)


def mapped(source, **modes):
    found = map_column(source, ConnectorModes(**modes))
    assert isinstance(found, Column), found
    return found


def refused(source, **modes):
    found = map_column(source, ConnectorModes(**modes))
    assert isinstance(found, UnmappedColumn), found
    return found


@pytest.mark.unit
def test_catalog_and_record_schema_agree_on_every_type():
    catalog = {c.name: c for c in describe_table(CATALOG, ("part", "id"), ConnectorModes()).columns}
    record = describe_envelope(RECORD["value"]["schema"], RECORD["key"]["schema"])
    assert record.key == ("part", "id")
    assert set(record.names) == {each.name for each in CATALOG} - NEVER_IN_EVENTS
    for each in record.columns:
        other = catalog[each.name]
        assert each.wire == other.wire, each.name
        # A domain over a NOT NULL domain is NOT NULL; Debezium looks only one level deep.
        assert each.required == other.required or each.name == "dm3", each.name
        if each.name in ONLY_THE_CATALOG_TELLS:
            continue
        assert each.unchanged_marker == other.unchanged_marker, each.name
        assert getattr(each, "type", None) == getattr(other, "type", None), each.name
        assert getattr(each, "element_wire", None) == getattr(other, "element_wire", None)
        if not (isinstance(each, Column) and each.detail and each.detail.labels):
            assert getattr(each, "detail", None) == getattr(other, "detail", None), each.name


@pytest.mark.unit
def test_values_have_the_json_kind_of_their_wire():
    row = RECORD["value"]["payload"]["after"]
    kinds = {
        Wire.BOOLEAN: bool,
        Wire.FLOAT: float,
        Wire.DOUBLE: float,
        Wire.LIST: list,
        **dict.fromkeys((Wire.VARIABLE_SCALE_DECIMAL, Wire.POINT), dict),
        **dict.fromkeys(TEXTS, str),
    }
    for each in describe_envelope(RECORD["value"]["schema"]).columns:
        value = row[each.name]
        if value is not None and each.wire is not None:
            assert isinstance(value, kinds.get(each.wire, int)), each.name


@pytest.mark.unit
def test_what_never_arrives_is_told():
    described = describe_table(CATALOG, ("part", "id"), ConnectorModes())
    left = described.without({"g": "nobody sends it", "elsewhere": "nor this"})
    assert "g" in described.names
    assert "g" not in left.names
    assert left.warnings == ("column g is left out: nobody sends it",)
    assert left.left_out == ("g", "elsewhere")
    assert {each.name for each in described.unmapped} >= {"pr", "xa", "dma"}


@pytest.mark.unit
def test_a_table_with_refused_columns_has_no_schema_and_says_why():
    described = describe_table(CATALOG, ("part", "id"), ConnectorModes(), comment="the table")
    with pytest.raises(TerminalError) as caught:
        described.exact("table=x.s.t")
    message = str(caught.value)
    assert "pr (s.pair): the connector leaves this type out of its events" in message
    assert "table=x.s.t" in message
    assert "column.exclude.list" in caught.value.remedy


@pytest.mark.unit
@pytest.mark.parametrize(
    "type_name", ["text", "varchar", "bpchar", "json", "jsonb", "xml", "citext"]
)
def test_text_that_may_be_toasted_may_be_a_placeholder(type_name):
    found = mapped(column(type_name))
    assert (found.type, found.wire, found.unchanged_marker) == (Primitive.STRING, Wire.STRING, True)


@pytest.mark.unit
@pytest.mark.parametrize("mode", [DecimalMode.PRECISE, DecimalMode.STRING])
@pytest.mark.parametrize(
    ("source", "is_long"),
    [
        (column("numeric"), True),
        (numeric(39, 0), True),
        (numeric(38, 10), True),
        (numeric(5, -2), True),
        (numeric(33, 2), False),
        (numeric(12, 2), False),
    ],
    ids=["numeric", "(39,0)", "(38,10)", "(5,-2)", "(33,2)", "(12,2)"],
)
def test_a_long_number_may_be_a_placeholder_where_it_is_text(source, is_long, mode):
    is_marked = is_long and mode is DecimalMode.STRING
    assert mapped(source, decimal=mode).unchanged_marker is is_marked


@pytest.mark.unit
@pytest.mark.parametrize("type_name", ["int8", "uuid", "bool", "timestamptz", "date", "float8"])
def test_values_of_fixed_size_are_never_a_placeholder(type_name):
    assert not mapped(column(type_name)).unchanged_marker
    assert mapped(column(type_name, is_array=True)).unchanged_marker


@pytest.mark.unit
def test_an_enumeration_is_text_without_placeholder():
    found = mapped(column("mood", kind="e"))
    assert (found.type, found.unchanged_marker) == (Primitive.STRING, False)
    assert mapped(column("mood", kind="e", is_array=True)).type == ListOf(Primitive.STRING)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("precision", "scale", "expected"),
    [
        (12, 2, Decimal(12, 2)),
        (38, 0, Decimal(38, 0)),
        (2, 5, Decimal(5, 5)),
        (1, 0, Decimal(1, 0)),
    ],
)
def test_a_numeric_with_precision_is_that_decimal(precision, scale, expected):
    found = mapped(numeric(precision, scale))
    assert (found.type, found.wire) == (expected, Wire.DECIMAL_BYTES)
    assert mapped(numeric(precision, scale), decimal=DecimalMode.STRING).wire is Wire.DECIMAL_TEXT


@pytest.mark.unit
@pytest.mark.parametrize(
    ("source", "words"),
    [
        (column("varbit"), "zeros that its values begin with"),
        (column("pair", kind="c"), "leaves this type out"),
        (column("pg_lsn"), "leaves this type out"),
        (column("text", kind="c"), "leaves this type out"),
        (column("price", kind="d", is_array=True), "elements: the connector leaves this type out"),
        (column("name"), "include.unknown.datatypes=true"),
        (column("vector", may_be_toasted=True), "REPLICA IDENTITY FULL"),
        (column("vector", is_array=True, may_be_toasted=True), "REPLICA IDENTITY FULL"),
        (column("geometry", may_be_toasted=True), "REPLICA IDENTITY FULL"),
        (column("geography", may_be_toasted=True), "REPLICA IDENTITY FULL"),
        (column("sparsevec", is_array=True), "arrays of sparsevec"),
        (column("int2vector"), "empty arrays"),
        (column("bit", is_array=True), "arrays of bit"),
        (column("money", is_array=True), "arrays of money"),
        (column("int4", is_array=True, dimensions=2), "more than one dimension"),
    ],
    ids=lambda value: getattr(value, "type_name", None),
)
def test_what_has_no_exact_type_is_refused_with_the_reason(source, words):
    assert words in refused(source).reason


BASE64: dict[str, Any] = {"binary": BinaryMode.BASE64}


@pytest.mark.unit
@pytest.mark.parametrize(
    ("source", "modes", "is_lost"),
    [
        (column("bytea", may_be_toasted=True), BASE64, True),
        (column("bytea", may_be_toasted=True), {}, False),
        (column("bytea", may_be_toasted=True), {"binary": BinaryMode.HEX}, False),
        (column("bytea"), BASE64, False),
        (column("box", may_be_toasted=True), {**BASE64, "unknown": True}, True),
        (column("box", may_be_toasted=True), {"unknown": True}, False),
        (column("mood", kind="e", may_be_toasted=True), BASE64, False),
        (column("text", may_be_toasted=True), BASE64, False),
        (column("geometry"), {}, False),
    ],
    ids=lambda value: getattr(value, "type_name", None),
)
def test_bytes_without_a_placeholder_are_refused(source, modes, is_lost):
    found = map_column(source, ConnectorModes(**modes))
    assert isinstance(found, UnmappedColumn) is is_lost
    if isinstance(found, UnmappedColumn):
        assert "binary.handling.mode=base64" in found.reason


@pytest.mark.unit
@pytest.mark.parametrize(
    ("source", "modes"),
    [
        (column("vector", may_be_toasted=True, in_partitions=True), {}),
        (column("geometry", may_be_toasted=True, in_partitions=True), {}),
        (column("bytea", may_be_toasted=True, in_partitions=True), BASE64),
    ],
    ids=lambda value: getattr(value, "type_name", None),
)
def test_the_remedy_for_a_partitioned_table_is_one_of_each_partition(source, modes):
    words = "REPLICA IDENTITY FULL of each partition"
    assert words in refused(source, **modes).reason
    assert words not in refused(replace(source, in_partitions=False), **modes).reason


@pytest.mark.unit
@pytest.mark.parametrize(
    ("source", "modes", "stops"),
    [
        (column("vector", may_be_toasted=True), {}, True),
        (column("sparsevec", may_be_toasted=True), {}, True),
        (column("geography", may_be_toasted=True), {}, True),
        (column("bytea", may_be_toasted=True), BASE64, False),
        (column("box", may_be_toasted=True), {**BASE64, "unknown": True}, False),
    ],
    ids=lambda value: getattr(value, "type_name", None),
)
def test_a_connector_that_stops_at_failures_loses_nothing_but_bytes_as_base64(source, modes, stops):
    """Where there is no placeholder Debezium fails to convert; of base64 it only warns."""
    reason = refused(source, **modes).reason
    assert ("event.converting.failure.handling.mode=fail" in reason) is stops
    assert ("large_values: accept loses nothing" in reason) is stops


@pytest.mark.unit
@pytest.mark.parametrize("type_name", ["vector", "geometry", "bool[]"])
def test_values_that_are_out_of_line_are_brought_in_by_a_rewrite(type_name):
    name, is_array = type_name.removesuffix("[]"), type_name.endswith("[]")
    source = column(name, is_array=is_array, may_be_toasted=True)
    told = toast_warning([source], ConnectorModes()) if is_array else (refused(source).reason,)
    assert "SET STORAGE PLAIN and then VACUUM FULL" in told[0]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("source", "modes"),
    [
        (column("vector", may_be_toasted=True), {}),
        (column("geometry", may_be_toasted=True), {}),
        (column("bytea", may_be_toasted=True), BASE64),
    ],
    ids=lambda value: getattr(value, "type_name", None),
)
def test_the_loss_of_large_values_may_be_accepted(source, modes):
    whole = mapped(replace(source, may_be_toasted=False), **modes)
    described = describe_table([source], (), ConnectorModes(**modes))
    with pytest.raises(TerminalError) as caught:
        described.exact()
    assert "large_values: accept" in caught.value.remedy
    assert described.with_accepted(["other"]) == described
    assert described.with_accepted(["c"]).exact().columns == (whole,)


@pytest.mark.unit
def test_a_column_of_the_key_is_not_lost_unnoticed():
    source = column("bytea", may_be_toasted=True)
    assert not describe_table([source], ("c",), ConnectorModes(**BASE64)).unmapped
    told = replace(describe_row({"type": "struct", "fields": [TEXT_FIELD]}), key=("c",))
    assert without_lost(told, [source], ConnectorModes()) == told


@pytest.mark.unit
def test_only_the_catalog_tells_of_arrays_in_arrays():
    items = {"type": "array", "items": {"type": "int32"}, "optional": True}
    fields = [{"field": name, **items} for name in ("flat", "nested", "elsewhere")]
    told = describe_row({"type": "struct", "fields": fields})
    arrays = [
        PostgresColumn(name, "int4", "integer[]", is_array=True, dimensions=dimensions)
        for name, dimensions in (("flat", 1), ("nested", 2))
    ]
    found = without_lost(told, arrays, ConnectorModes())
    assert found.names == told.names
    assert [each.name for each in found.unmapped] == ["nested"]
    assert "more than one dimension" in found.unmapped[0].reason


@pytest.mark.unit
def test_arrays_that_lose_large_values_are_warned_of():
    arrays = [column(name, is_array=True, may_be_toasted=True) for name in ("int4", "bool")]
    whole = column("bool", is_array=True)
    modes = ConnectorModes()
    assert toast_warning([arrays[0], whole, column("text", may_be_toasted=True)], modes) == ()
    (warning,) = toast_warning(arrays, modes)
    assert warning.startswith("columns c: the connector sends NULL")
    assert "of each partition" not in warning
    assert len(toast_warning([replace(arrays[0], in_domain=True)], modes)) == 1
    (warning,) = toast_warning((replace(each, in_partitions=True) for each in arrays), modes)
    assert "of each partition" in warning


@pytest.mark.unit
@pytest.mark.parametrize(
    ("source", "modes", "field", "is_lost"),
    [
        (column("bit", 128), {}, None, False),
        (column("bit", 129), {}, None, True),
        (column("numeric"), {}, None, True),
        (column("numeric", stays_in_page=True), {}, None, False),
        (column("numeric"), {"decimal": DecimalMode.STRING}, None, False),
        (column("numeric"), {}, {"type": "string"}, False),
        (
            column("numeric"),
            {"decimal": DecimalMode.STRING},
            {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"},
            True,
        ),
        (numeric(38, 10), {}, None, True),
        (numeric(33, 10), {}, None, False),
        (column("point"), {}, None, False),
    ],
)
def test_bits_and_numbers_that_lose_large_values_are_warned_of(source, modes, field, is_lost):
    table = PostgresTable((replace(source, may_be_toasted=True),), (), ReplicaIdentity.DEFAULT, "")
    given = ConnectorModes(**modes)
    if field is None:
        found = table.described(given)
    else:
        fields = [{"field": "c", "optional": True, **field}]
        found = table.corrected(describe_row({"type": "struct", "fields": fields}), ["c"], given)
    assert ["the connector sends NULL" in each for each in found.warnings] == [True] * is_lost
    assert not found.unmapped


HEX: dict[str, Any] = {"binary": BinaryMode.HEX}
TEXT_ITEMS = {"type": "string", "optional": True}
DATE_ITEMS = {"type": "int32", "name": "io.debezium.time.Date", "optional": True}
ISO_ITEMS = {"type": "string", "name": "io.debezium.time.IsoDate", "optional": True}


@pytest.mark.unit
@pytest.mark.parametrize(
    ("element", "modes", "items", "words"),
    [
        ("bytea", {}, None, None),
        ("bytea", BASE64, None, "binary.handling.mode=base64 or hex"),
        ("bytea", HEX, None, "binary.handling.mode=base64 or hex"),
        ("bytea", {}, TEXT_ITEMS, "binary.handling.mode=base64 or hex"),
        ("bytea", HEX, {"type": "bytes", "optional": True}, None),
        *(
            ("date", {"time": mode}, None, None)
            for mode in TimeMode
            if mode not in {TimeMode.ISOSTRING, TimeMode.CONNECT}
        ),
        ("date", {"time": TimeMode.ISOSTRING}, None, "time.precision.mode=isostring or connect"),
        ("date", {"time": TimeMode.CONNECT}, None, "time.precision.mode=isostring or connect"),
        ("date", {}, ISO_ITEMS, "time.precision.mode=isostring or connect"),
        ("date", {"time": TimeMode.ISOSTRING}, DATE_ITEMS, None),
        (
            "date",
            {"time": TimeMode.CONNECT},
            DATE_ITEMS,
            "time.precision.mode=isostring or connect",
        ),
        ("text", {**HEX, "time": TimeMode.ISOSTRING}, None, None),
    ],
)
def test_arrays_have_a_placeholder_only_in_the_form_that_it_has(element, modes, items, words):
    source = column(element, is_array=True, may_be_toasted=True)
    fields = [{"field": "c", "type": "array", "items": items, "optional": True}]
    told = describe_row({"type": "struct", "fields": fields}) if items else None
    table = PostgresTable((source,), (), ReplicaIdentity.DEFAULT, "")
    given = ConnectorModes(**modes)
    found = table.corrected(told, ["c"], given) if told else table.described(given)
    assert [words in each for each in found.warnings] == ([] if words is None else [True])
    assert not found.unmapped


@pytest.mark.unit
@pytest.mark.parametrize(
    ("source", "field", "modes", "words"),
    [
        (column("name"), {"type": "string"}, {}, "snapshots only"),
        (column("name"), {"type": "string"}, {"unknown": True}, None),
        (column("text"), {"type": "string"}, {}, None),
        (column("bit", is_array=True), {"type": "boolean"}, {}, "arrays of bit"),
        (
            column("int2vector"),
            {"type": "array", "items": {"type": "int16"}},
            {},
            "empty arrays",
        ),
        (column("varbit", 3), BITS_OF_3, {}, "zeros"),
        (column("varbit", 3), {"type": "string"}, {}, None),
        (column("bit", 3), BITS_OF_3, {}, None),
        (column("geometry", may_be_toasted=True), GEOMETRY_FIELD, {}, "REPLICA IDENTITY FULL"),
        (column("geometry"), GEOMETRY_FIELD, {}, None),
        (column("geometry", may_be_toasted=True), {"type": "string"}, {}, None),
        (column("bytea", may_be_toasted=True), {"type": "string"}, {}, "mode=base64"),
        (
            column("bytea", may_be_toasted=True),
            {"type": "string"},
            {"binary": BinaryMode.HEX},
            None,
        ),
        (column("bytea", may_be_toasted=True), {"type": "bytes"}, {}, None),
    ],
    ids=lambda value: getattr(value, "type_name", None),
)
def test_a_column_whose_values_are_not_in_the_records_is_refused(source, field, modes, words):
    told = describe_row({"type": "struct", "fields": [{"field": "c", "optional": True, **field}]})
    found = without_lost(told, [source], ConnectorModes(**modes))
    if words is None:
        assert found == told
    else:
        assert words in found.unmapped[0].reason


@pytest.mark.unit
@pytest.mark.parametrize(
    ("mode", "digits", "wire"),
    [
        (TimeMode.ADAPTIVE, 0, Wire.EPOCH_MILLIS),
        (TimeMode.ADAPTIVE, 3, Wire.EPOCH_MILLIS),
        (TimeMode.ADAPTIVE, 4, Wire.EPOCH_MICROS),
        (TimeMode.ADAPTIVE, -1, Wire.EPOCH_MICROS),
        (TimeMode.ADAPTIVE_TIME_MICROSECONDS, 3, Wire.EPOCH_MILLIS),
        (TimeMode.MICROSECONDS, 0, Wire.EPOCH_MICROS),
        (TimeMode.NANOSECONDS, -1, Wire.EPOCH_NANOS),
        (TimeMode.CONNECT, 3, Wire.EPOCH_MILLIS),
    ],
)
def test_the_unit_of_a_timestamp_follows_mode_and_digits(mode, digits, wire):
    found = mapped(column("timestamp", digits), time=mode)
    assert (found.type, found.wire) == (Primitive.TIMESTAMP, wire)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("mode", "digits", "wire"),
    [
        (TimeMode.ADAPTIVE, 3, Wire.MILLIS_OF_DAY),
        (TimeMode.ADAPTIVE, -1, Wire.LONG),
        (TimeMode.ADAPTIVE_TIME_MICROSECONDS, 0, Wire.LONG),
        (TimeMode.CONNECT, 3, Wire.MILLIS_OF_DAY),
    ],
)
def test_a_time_of_day_is_stored_in_microseconds_and_says_so(mode, digits, wire):
    found = mapped(column("time", digits), time=mode)
    assert (found.type, found.wire) == (Primitive.LONG, wire)
    assert found.comment == "microseconds since midnight"


@pytest.mark.unit
@pytest.mark.parametrize("type_name", ["timestamp", "time"])
def test_a_mode_that_cuts_digits_is_refused(type_name):
    assert "milliseconds" in refused(column(type_name), time=TimeMode.CONNECT).reason


@pytest.mark.unit
@pytest.mark.parametrize(
    ("type_name", "type_", "wire"),
    [
        ("timestamp", Primitive.TIMESTAMP, Wire.ISO_TIMESTAMP),
        ("time", Primitive.LONG, Wire.ISO_TIME),
        ("date", Primitive.DATE, Wire.ISO_DATE),
    ],
)
def test_times_as_text_are_stored_as_what_they_are(type_name, type_, wire):
    found = mapped(column(type_name), time=TimeMode.ISOSTRING)
    assert (found.type, found.wire) == (type_, wire)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("source", "modes", "type_", "wire"),
    [
        (column("numeric"), {}, Primitive.STRING, Wire.VARIABLE_SCALE_DECIMAL),
        (column("numeric"), {"decimal": DecimalMode.STRING}, Primitive.STRING, Wire.STRING),
        (numeric(39, 0), {}, Primitive.STRING, Wire.DECIMAL_BYTES),
        (numeric(39, 0), {"decimal": DecimalMode.STRING}, Primitive.STRING, Wire.STRING),
        (numeric(5, -2), {}, Primitive.STRING, Wire.DECIMAL_BYTES),
        (column("money"), {}, Decimal(38, 2), Wire.DECIMAL_BYTES),
        (column("money"), {"decimal": DecimalMode.STRING}, Decimal(19, 2), Wire.DECIMAL_TEXT),
        (column("interval"), {}, Primitive.LONG, Wire.LONG),
        (column("interval"), {"interval": IntervalMode.STRING}, Primitive.STRING, Wire.STRING),
        (column("bit", 1), {}, Primitive.BOOLEAN, Wire.BOOLEAN),
        (column("bit", 3), {}, Primitive.LONG, Wire.BITS),
        (column("bit", 64), {}, Decimal(20, 0), Wire.BITS),
        (column("bit", 65), {}, Primitive.STRING, Wire.BITS),
        (column("hstore"), {}, Primitive.STRING, Wire.STRING),
        (column("geometry"), {}, stand_ins.GEOMETRY.type, Wire.GEOMETRY),
        (column("point"), {}, stand_ins.POINT.type, Wire.POINT),
        (column("tstzrange", kind="r"), {}, Primitive.STRING, Wire.STRING),
        (column("timetz"), {}, Primitive.STRING, Wire.STRING),
        (column("name"), {"unknown": True}, Primitive.STRING, Wire.STRING),
        (column("pg_lsn"), {"unknown": True}, Primitive.BINARY, Wire.BYTES_BASE64),
        (column("pair", kind="c"), {"unknown": True}, Primitive.BINARY, Wire.BYTES_BASE64),
        (
            column("box"),
            {"unknown": True, "binary": BinaryMode.HEX},
            Primitive.BINARY,
            Wire.BYTES_HEX,
        ),
        (
            column("path", is_array=True),
            {"unknown": True},
            ListOf(Primitive.BINARY),
            Wire.LIST,
        ),
        (column("vector"), {}, ListOf(Primitive.DOUBLE), Wire.LIST),
        (column("halfvec"), {}, ListOf(Primitive.FLOAT), Wire.LIST),
        (column("sparsevec"), {}, Primitive.STRING, Wire.JSON),
        (column("numeric", is_array=True), {}, ListOf(Primitive.STRING), Wire.LIST),
        (column("geometry", is_array=True), {}, Primitive.STRING, Wire.JSON),
    ],
    ids=lambda value: getattr(value, "type_name", None),
)
def test_what_iceberg_has_no_type_for_has_a_stand_in(source, modes, type_, wire):
    found = mapped(source, **modes)
    assert (found.type, found.wire) == (type_, wire)


@pytest.mark.unit
def test_a_negative_scale_is_read_as_the_record_schema_tells_it():
    parameters = {"scale": "2046", "connect.decimal.precision": "3"}
    name = "org.apache.kafka.connect.data.Decimal"
    told = map_field({"field": "c", "type": "bytes", "name": name, "parameters": parameters})
    found = mapped(numeric(3, -2))
    assert isinstance(told, Column)
    assert (found.type, found.wire, found.detail) == (told.type, told.wire, told.detail)
    assert found.detail == WireDetail(scale=2046)


@pytest.mark.unit
@pytest.mark.parametrize("source", [column("numeric"), numeric(39, 0)])
def test_digits_that_a_double_has_lost_are_refused(source):
    assert "all of its digits" in refused(source, decimal=DecimalMode.DOUBLE).reason


@pytest.mark.unit
def test_a_decimal_written_as_double_is_refused_where_digits_are_lost():
    assert mapped(numeric(15, 2), decimal=DecimalMode.DOUBLE).wire is Wire.DECIMAL_TEXT
    assert "16 digits" in refused(numeric(16, 2), decimal=DecimalMode.DOUBLE).reason


@pytest.mark.unit
@pytest.mark.parametrize(
    ("mode", "wire"),
    [
        (BinaryMode.BYTES, Wire.BYTES_BASE64),
        (BinaryMode.BASE64, Wire.BYTES_BASE64),
        (BinaryMode.HEX, Wire.BYTES_HEX),
    ],
)
def test_bytes_follow_the_binary_mode(mode, wire):
    assert mapped(column("bytea"), binary=mode).wire is wire
    assert mapped(column("bytea", is_array=True), binary=mode).element_wire is wire


@pytest.mark.unit
@pytest.mark.parametrize(
    ("modifier", "digits"), [(-1, None), (786438, (12, 2)), (198658, (3, 2046))]
)
def test_type_modifiers_of_numeric_are_unpacked(modifier, digits):
    assert numeric_digits(modifier) == digits


@pytest.mark.unit
@pytest.mark.parametrize(("is_array", "type_"), [(False, UNBOUNDED), (True, ListOf(UNBOUNDED))])
def test_numbers_without_precision_may_be_decimals(is_array, type_):
    described = describe_table([column("numeric", is_array=is_array)], (), ConnectorModes())
    found = with_bounds(described, UNBOUNDED).exact().column("c")
    assert (found.type, found.element_wire or found.wire) == (type_, Wire.VARIABLE_SCALE_DECIMAL)
    assert with_bounds(described, None) == described
    assert found.comment == ""


@pytest.mark.unit
def test_a_bounded_number_keeps_the_comment_of_the_source():
    described = describe_table([column("numeric", comment="a; b")], (), ConnectorModes())
    assert with_bounds(described, UNBOUNDED).exact().column("c").comment == "a; b"


@pytest.mark.unit
def test_a_type_of_the_column_counts_more_than_that_of_the_source():
    bounded = with_bounds(describe_table([column("numeric")], (), ConnectorModes()), UNBOUNDED)
    own = apply_overrides(bounded, {"c": parse_spec("string")}, (), ConnectorModes())
    assert own.exact().column("c").type is Primitive.STRING
