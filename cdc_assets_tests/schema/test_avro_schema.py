"""Avro writer schemas: described as Connect's, and rewritten for Spark without moving a byte."""

import json
from base64 import b64decode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.schema.avro import connect_schema
from cdc_assets.schema.avro_parse import MAX_DEPTH, parse_avro, read_avro
from cdc_assets.schema.avro_types import AvroSchemaError, Record
from cdc_assets.schema.avro_wire import self_contained, wire_schema
from cdc_assets.schema.connect import (
    describe_envelope,
    describe_row,
    is_envelope_schema,
    is_key_schema,
    map_field,
)
from cdc_assets.schema.types import Column, Decimal, ListOf, Primitive, UnmappedColumn, Wire
from cdc_assets_tests.schema.avro_binary import PRIMITIVES, decode, encode
from cdc_assets_tests.schema.avro_schemas import as_converters_write, schemas_with_values
from cdc_assets_tests.toy.profiles import examples

FIXTURES = Path(__file__).parents[1] / "databases" / "fixtures"
EVERY_TYPE = json.loads((FIXTURES / "postgres_types.record.json").read_text())
GOLDEN = Path(__file__).parents[1] / "formats" / "golden"
NO_BYTES = {"type": "fixed", "name": "F", "size": 0}
KAFKA, TIME = "org.apache.kafka.connect.data", "io.debezium.time"


def record(*fields, name="R", **more):
    listed = [{"name": name, "type": type_} for name, type_ in fields]
    return {"type": "record", "name": name, "fields": listed, **more}


def has_connect_names(avro):
    """Whether Connect's properties were written (``connect.meta.data``, by default true)."""
    schema = parse_avro(avro)
    root = schema.resolved(schema.root)
    return isinstance(root, Record) and isinstance(root.props.get("connect.name"), str)


def mapped(type_):
    """The column of a field of this type."""
    fields = connect_schema(record(("c", type_)))["fields"]
    return map_field(fields[0])


def id_of(value):
    return json.dumps(value)[:60] if isinstance(value, dict | list | str) else None


def named(type_, name, **more):
    return {"type": type_, "connect.version": 1, "connect.name": name, **more}


def decimal(type_="bytes", **more):
    return {"type": type_, "logicalType": "decimal", **more}


@pytest.mark.unit
@pytest.mark.parametrize("apicurio", [False, True], ids=["confluent", "apicurio"])
def test_every_type_of_postgres_is_described_as_by_its_inline_schema(apicurio):
    """The schema is Debezium 3.6's; it goes through what both converters do to it."""
    inline, key = EVERY_TYPE["value"]["schema"], EVERY_TYPE["key"]["schema"]
    value_avro, key_avro = (as_converters_write(each, apicurio=apicurio) for each in (inline, key))
    found = describe_envelope(connect_schema(value_avro), connect_schema(key_avro))
    assert found == describe_envelope(inline, key)
    assert len(found.columns) > 40


@pytest.mark.unit
@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the recordings of Debezium are not there")
def test_what_debezium_wrote_as_avro_is_described_as_what_it_wrote_as_json():
    confluent = json.loads((GOLDEN / "debezium_avro_confluent.json").read_text())
    inline = json.loads((GOLDEN / "debezium_json_schema.json").read_text())["records"]
    compared = set()
    for avro in confluent["records"]:
        if avro["value"] is None or ".public." not in avro["topic"]:
            continue
        pair = [each for each in inline if each["offset"] == avro["offset"]]
        table = avro["topic"].partition(".")[2]
        (other,) = [each for each in pair if each["topic"] == f"withschema.{table}"]
        number = int.from_bytes(b64decode(avro["value"])[1:5], "big")
        schema = read_avro(confluent["schemas"][str(number)]["schema"])
        assert has_connect_names(schema)
        wanted = describe_envelope(json.loads(other["value"])["schema"])
        assert describe_envelope(connect_schema(schema)) == wanted
        compared.add(table)
    assert len(compared) > 5


@pytest.mark.unit
@pytest.mark.parametrize(
    ("given", "type_", "wire"),
    [
        ("boolean", Primitive.BOOLEAN, Wire.BOOLEAN),
        ("float", Primitive.FLOAT, Wire.FLOAT),
        ("double", Primitive.DOUBLE, Wire.DOUBLE),
        ({"type": "int", "connect.type": "int16"}, Primitive.INT, Wire.INT),
        (named("int", f"{TIME}.Date"), Primitive.DATE, Wire.EPOCH_DAYS),
        (named("long", f"{TIME}.MicroTimestamp"), Primitive.TIMESTAMP, Wire.EPOCH_MICROS),
        (named("string", f"{TIME}.ZonedTimestamp"), Primitive.TIMESTAMPTZ, Wire.ISO_ZONED),
        (
            named("long", f"{KAFKA}.Timestamp", logicalType="timestamp-millis"),
            Primitive.TIMESTAMP,
            Wire.EPOCH_MILLIS,
        ),
        ({"type": "int", "logicalType": "date"}, Primitive.DATE, Wire.EPOCH_DAYS),
        ({"type": "int", "logicalType": "time-millis"}, Primitive.LONG, Wire.MILLIS_OF_DAY),
        ({"type": "long", "logicalType": "time-micros"}, Primitive.LONG, Wire.LONG),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            Primitive.TIMESTAMP,
            Wire.EPOCH_MILLIS,
        ),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            Primitive.TIMESTAMP,
            Wire.EPOCH_MICROS,
        ),
        ({"type": "long", "logicalType": "date"}, Primitive.LONG, Wire.LONG),
        ({"type": "long", "logicalType": "nonsense"}, Primitive.LONG, Wire.LONG),
        ({"type": "string", "logicalType": "uuid"}, Primitive.STRING, Wire.STRING),
        (decimal(precision=12, scale=2), Decimal(12, 2), Wire.DECIMAL_BYTES),
        (decimal(precision=12), Decimal(12, 0), Wire.DECIMAL_BYTES),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, Primitive.STRING, Wire.STRING),
        ({"type": "fixed", "name": "F", "size": 4}, Primitive.BINARY, Wire.BYTES_BASE64),
        ({"type": "array", "items": ["null", "int"]}, ListOf(Primitive.INT), Wire.LIST),
        (["long"], Primitive.LONG, Wire.LONG),
        (decimal(precision=64, scale=2), Decimal(38, 2), Wire.DECIMAL_BYTES),
        (decimal(precision=40, scale=2), Primitive.STRING, Wire.DECIMAL_BYTES),
        (
            record(
                ("scale", "int"),
                ("value", "bytes"),
                name="VariableScaleDecimal",
                namespace="io.debezium.data",
            ),
            Primitive.STRING,
            Wire.VARIABLE_SCALE_DECIMAL,
        ),
        ({"type": "map", "values": "string"}, Primitive.STRING, Wire.JSON),
        (record(("a", "int"), name="Inner"), Primitive.STRING, Wire.JSON),
        (named("string", "acme.Thing"), Primitive.STRING, Wire.STRING),
        ({"type": "bytes", "logicalType": "big-decimal"}, Primitive.BINARY, Wire.BYTES_BASE64),
        (
            {"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"},
            Primitive.BINARY,
            Wire.BYTES_BASE64,
        ),
    ],
    ids=id_of,
)
def test_what_a_column_becomes(given, type_, wire):
    for schema in (given, ["null", given], [given, "null"]):
        if isinstance(given, list) and schema is not given:
            continue
        found = mapped(schema)
        assert isinstance(found, Column)
        assert (found.type, found.wire) == (type_, wire)
        assert found.required == (schema is given)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("given", "words", "wire"),
    [
        (
            decimal({"type": "fixed", "name": "F", "size": 9}["type"], name="F", size=9),
            "fixed",
            None,
        ),
        (["null", "int", "string"], "is known for: union", None),
        ("null", "is known for: null", None),
        (named("string", f"{TIME}.Date"), "string that is called io.debezium.time.Date", None),
        (named("long", f"{KAFKA}.Decimal"), "long that is called", None),
        (record(("next", ["null", "Node"]), name="Node"), "record that holds itself", None),
        (
            {"type": "array", "items": record(("next", ["null", "Node"]), name="Node")},
            "elements: no lake type is known for: record that holds itself",
            None,
        ),
    ],
    ids=id_of,
)
def test_what_has_no_exact_type_is_refused(given, words, wire):
    found = mapped(given)
    assert isinstance(found, UnmappedColumn)
    assert words in found.reason
    assert found.wire is wire


@pytest.mark.unit
def test_records_that_hold_each_other_are_refused_and_others_are_not():
    a = record(("b", ["null", record(("a", "A"), name="B")]), name="A")
    row = record(("x", a), ("y", "B"), ("z", record(("n", "int"), name="C")), ("w", "C"))
    reasons = {c.name: getattr(c, "reason", "") for c in describe_row(connect_schema(row)).columns}
    assert ["holds itself" in reasons[name] for name in "xyzw"] == [True, True, False, False]


@pytest.mark.unit
def test_documentation_is_that_of_the_type_then_of_the_field():
    schema = record(("a", {"type": "int", "connect.doc": "of the column"}), ("b", "int"))
    schema["fields"][1]["doc"] = "of the field"
    comments = [map_field(each).comment for each in connect_schema(schema)["fields"]]
    assert comments == ["of the column", "of the field"]


@pytest.mark.unit
def test_an_enum_is_never_the_placeholder_of_an_unchanged_value():
    assert not mapped({"type": "enum", "name": "E", "symbols": ["A"]}).unchanged_marker
    assert mapped("string").unchanged_marker


@pytest.mark.unit
def test_structs_without_a_name_of_their_own_have_none():
    inner = record(("a", "int"), name="ConnectDefault2", namespace="io.confluent.connect.avro")
    (field,) = connect_schema(record(("c", inner)))["fields"]
    assert "name" not in field


@pytest.mark.unit
def test_an_envelope_without_properties_of_connect_is_known():
    assert not has_connect_names(record(("after", "int")))
    assert has_connect_names(record(("after", "int"), **{"connect.name": "a.Envelope"}))


@pytest.mark.unit
def test_a_recording_of_debezium_1_2_is_read():
    """The schema and one record of Flink's tests, which Confluent's converter wrote."""
    value = record(("id", "long"), ("name", ["null", "string"]), name="Value")
    source = record(
        ("version", "string"),
        ("snapshot", [named("string", "io.debezium.data.Enum"), "null"]),
        name="Source",
        namespace="io.debezium.connector.mysql",
    )
    envelope = record(
        ("before", ["null", value]),
        ("after", ["null", "Value"]),
        ("source", source),
        ("op", "string"),
        name="Envelope",
        namespace="shop.test.person",
    )
    written = {
        "before": (0, None),
        "after": (1, {"id": 1, "name": (1, "lisi")}),
        "source": {"version": "1.2.2.Final", "snapshot": (0, "false")},
        "op": "c",
    }
    data = encode(envelope, written)
    assert decode(json.loads(wire_schema(envelope)), data) == (written, b"")
    described = describe_envelope(connect_schema(envelope))
    assert described.names == ("id", "name")
    assert is_envelope_schema(connect_schema(envelope))


@pytest.mark.unit
def test_a_wire_schema_has_nothing_but_the_layout():
    text = wire_schema(
        record(
            ("at", {"type": "long", "logicalType": "timestamp-micros", "connect.name": "x"}),
            ("amount", decimal(precision=9, scale=2)),
            ("kind", {"type": "enum", "name": "a.Kind", "symbols": ["A"], "default": "A"}),
            ("again", ["null", "a.Kind"]),
            name="my-server.public.orders.Value",
            doc="secret plans",
            aliases=["other"],
        )
    )
    assert json.loads(text) == {
        "type": "record", "name": "t1", "namespace": "",
        "fields": [
            {"name": "at", "type": "long"},
            {"name": "amount", "type": "bytes"},
            {"name": "kind", "type": {
                "type": "enum", "name": "t0", "namespace": "", "symbols": ["A"]}},
            {"name": "again", "type": ["null", "t0"]},
        ],
    }  # fmt: skip


@pytest.mark.unit
@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (record(("next", ["null", "R"])), "holds itself"),
        (record(("id", "int"), ("ID", "int")), "'id' and 'ID'"),
        ({"type": "array", "items": "null"}, "take no bytes"),
        (record(("a", ["null", {"type": "array", "items": record(name="E")}])), "take no bytes"),
        (
            {
                "type": "map",
                "values": {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
            },
            "take no bytes",
        ),
        ({"type": "fixed", "name": "F", "size": 2_000_000_000}, "fixed to more than"),
    ],
    ids=id_of,
)
def test_what_spark_is_not_given(schema, words):
    connect_schema(schema)
    with pytest.raises(AvroSchemaError, match=words):
        wire_schema(schema)


@pytest.mark.unit
@pytest.mark.parametrize(
    "schema",
    [
        None, 7, "", "Unknown", {}, [], [[]], ["null", ["int"]], ["int", "int"], {"type": 7},
        {"type": {"type": "int"}}, {"type": "record"}, {"type": "record", "name": "R"},
        {"type": "record", "name": "", "fields": []}, {"type": "record", "name": "R", "fields": {}},
        record(("a-b", "int")), record(("a.b", "int")), record(("1a", "int")), record(("", "int")),
        record(("a`b", "int")), record(("a\U00010400", "int")), record(("a", "int"), ("a", "int")),
        {"type": "record", "name": "R", "fields": ["x"]}, record(("a", None)),
        {"type": "enum", "name": "E"}, {"type": "enum", "name": "E", "symbols": ["A", "A"]},
        {"type": "enum", "name": "E", "symbols": ["a b"]}, {"type": "fixed", "name": "F"},
        {"type": "fixed", "name": "F", "size": True}, {"type": "fixed", "name": "F", "size": -1},
        {"type": "array"}, {"type": "map"},
        record(("a", record(("x", "int"), name="R"))),
        record(("a", record(("x", "int"), name="S")), ("b", record(("x", "long"), name="S"))),
    ],
    ids=id_of,
)  # fmt: skip
def test_what_is_no_avro_schema(schema):
    for function in (connect_schema, wire_schema, has_connect_names):
        with pytest.raises(AvroSchemaError, match=r"the Avro type .*field="):
            function(schema)


@pytest.mark.unit
@pytest.mark.parametrize(
    "props",
    [
        {"connect.name": 7},
        {"connect.parameters": ["x"]},
        {"connect.parameters": {"a": 1}},
        {"connect.parameters": {"scale": "two"}},
        {"logicalType": "decimal", "scale": "2"},
        {"logicalType": "decimal", "precision": 10**5000},
    ],
    ids=lambda value: next(iter(value)),
)
def test_malformed_properties_of_connect_are_refused(props):
    with pytest.raises(AvroSchemaError):
        connect_schema({"type": "bytes", **props})


@pytest.mark.slow
def test_deep_schemas_are_refused():
    schema = "int"
    for _ in range(100_000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(AvroSchemaError, match=f"deeper than {MAX_DEPTH}"):
        wire_schema(schema)
    while isinstance(schema, dict):  # taken apart from outside, as Python's own way is recursive
        schema = schema["items"]


@pytest.mark.unit
def test_schemas_that_are_deep_by_mentions_are_refused():
    fields = [("f0", record(("x", "int"), name="R0"))]
    fields += [(f"f{n}", record(("x", f"R{n - 1}"), name=f"R{n}")) for n in range(1, 2000)]
    with pytest.raises(AvroSchemaError, match=f"deeper than {MAX_DEPTH}"):
        connect_schema(record(*fields, name="Top"))


@pytest.mark.unit
def test_schemas_that_multiply_by_mentions_are_refused():
    fields = [("f0", record(("x", "int"), ("y", "int"), name="R0"))]
    fields += [
        (f"f{n}", record(("x", f"R{n - 1}"), ("y", f"R{n - 1}"), name=f"R{n}"))
        for n in range(1, 20)
    ]
    with pytest.raises(AvroSchemaError, match="more than 100,000"):
        wire_schema(record(*fields, name="Top"))


@pytest.mark.unit
def test_a_table_of_1500_columns_is_within_the_bounds():
    value = record(*((f"c{n}", ["null", "long"]) for n in range(1500)), name="Value")
    envelope = record(("before", ["null", value]), ("after", ["null", "Value"]), name="Envelope")
    assert len(describe_envelope(connect_schema(envelope)).columns) == 1500
    assert wire_schema(envelope)


@pytest.mark.unit
def test_names_are_of_the_namespace_around_them_else_of_none():
    schema = {
        "type": "record", "name": "R", "namespace": "a", "fields": [
            {"name": "x", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
            {"name": "y", "type": {"type": "fixed", "name": "F", "namespace": "", "size": 1}},
            {"name": "z", "type": {"type": "record", "name": "b.S", "fields": [
                {"name": "p", "type": "a.E"}, {"name": "q", "type": "F"},
                {"name": "r", "type": {"type": "fixed", "name": "G", "size": 2}},
            ]}},
            {"name": "w", "type": "E"}, {"name": "v", "type": "b.G"},
        ],
    }  # fmt: skip
    value = {"x": 0, "y": b"1", "z": {"p": 0, "q": b"2", "r": b"34"}, "w": 0, "v": b"56"}
    data = encode(schema, value)
    assert decode(json.loads(wire_schema(schema)), data) == (value, b"")
    schema["fields"].append({"name": "u", "type": "G"})
    with pytest.raises(AvroSchemaError, match="'G', which is not defined"):
        wire_schema(schema)


@pytest.mark.unit
def test_referenced_schemas_are_written_in_where_they_are_first_mentioned():
    block = record(("n", "long"), name="event.block")
    value = record(("at", named("long", f"{TIME}.MicroTimestamp")), name="shop.Value")
    source = record(("block", "event.block"), name="io.Source")
    main = record(
        ("before", ["null", "Value"]), ("after", ["null", "Value"]), ("source", "io.Source"),
        name="Envelope", namespace="shop",
    )  # fmt: skip
    whole = self_contained(main, [block, value, source])
    columns = describe_envelope(connect_schema(whole)).columns
    assert [each.wire for each in columns] == [Wire.EPOCH_MICROS]
    assert self_contained(whole, [block, value, source]) == whole
    written = {"before": (0, None), "after": (1, {"at": 7}), "source": {"block": {"n": 3}}}
    assert decode(json.loads(wire_schema(whole)), encode(whole, written)) == (written, b"")
    with pytest.raises(AvroSchemaError, match="is not defined"):
        self_contained(main, [block, value])
    with pytest.raises(AvroSchemaError, match="a second time, differently"):
        self_contained(main, [block, value, source, record(("m", "int"), name="shop.Value")])


@pytest.mark.unit
def test_names_that_could_be_confused_are_refused():
    with pytest.raises(AvroSchemaError, match="with and without a namespace"):
        self_contained(record(("a", "X")), [record(name="X"), record(name="a.X")])


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"string"', "string"),
        ('{"type": "int"}', {"type": "int"}),
        ('"{\\"type\\": \\"int\\"}"', {"type": "int"}),
        (b'["null", "int"]', ["null", "int"]),
    ],
    ids=str,
)
def test_a_schema_is_json_once_or_twice(text, found):
    assert read_avro(text) == found


@pytest.mark.unit
@pytest.mark.parametrize(
    "text", ["", "int", "{", "null", b"\xff", '"\\ud800"', "[" * 99_999, "9" * 9999]
)
def test_text_that_is_no_json_is_refused(text):
    with pytest.raises(AvroSchemaError, match="is no JSON"):
        read_avro(text)


WORDS = st.sampled_from([*PRIMITIVES, "record", "enum", "fixed", "array", "map", "R", "decimal"])
KEYS = st.sampled_from([
    "type", "name", "namespace", "fields", "items", "values", "symbols", "size", "doc",
    "connect.name", "connect.parameters", "logicalType", "precision", "scale",
])  # fmt: skip


def nearly_a_schema(inner):
    field = st.fixed_dictionaries({"name": st.sampled_from(["after", "id", "x"]), "type": inner})
    return st.fixed_dictionaries(
        {
            "type": st.sampled_from(["record", "enum", "fixed", "array", "map"]),
            "name": st.sampled_from(["R", "a.S", "after"]),
            "fields": st.lists(field, max_size=3),
            "items": inner,
            "values": inner,
            "symbols": st.just(["A"]),
            "size": st.integers(-1, 3),
        }
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=3) | KEYS, inner, max_size=6)
        | nearly_a_schema(inner)
    ),
    max_leaves=30,
)


def tried(function, schema):
    """What a function makes of a schema, or its documented error."""
    try:
        return function(schema)
    except AvroSchemaError as error:
        return error


@pytest.mark.property
@examples(500)
@given(JSON)
def test_arbitrary_json_is_a_schema_or_a_documented_error(schema):
    found = tried(connect_schema, schema)
    if isinstance(found, AvroSchemaError):
        assert found.where.startswith("field=")
    else:
        assert is_envelope_schema(found) in (True, False)
        assert is_key_schema(found) in (True, False)
        describe_envelope(found)
        describe_row(found)
    text = tried(wire_schema, schema)
    if not isinstance(text, AvroSchemaError):
        assert wire_schema(json.loads(text)) == text
    tried(has_connect_names, schema)


@pytest.mark.property
@examples(300)
@given(st.data())
def test_a_wire_schema_reads_what_was_written_with_the_schema(data):
    schema, values = data.draw(schemas_with_values())
    value = data.draw(values)
    text = tried(wire_schema, schema)
    if isinstance(text, AvroSchemaError):
        assert "take no bytes" in text.what
        return
    written = encode(schema, value)
    assert decode(json.loads(text), written) == (value, b"")
    for word in ("doc", "default", "connect", "logicalType", "aliases"):
        assert f'"{word}' not in text
    assert decode(self_contained(schema, ()), written) == (value, b"")
