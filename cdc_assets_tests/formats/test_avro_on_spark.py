"""What our reader of Avro makes of wire schemas, and of bytes that are not of them."""

import json
from base64 import b64decode
from pathlib import Path

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F

from cdc_assets import decode
from cdc_assets.schema.avro_parse import read_avro
from cdc_assets.schema.avro_wire import wire_schema
from cdc_assets_tests.schema.avro_binary import encode

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def read(spark):
    """Read records of one schema, given as JSON text."""

    def records(text, *data, fields=None):
        frame = spark().createDataFrame(
            [(n, each) for n, each in enumerate(data)], "n int, b binary"
        )
        found = decode.read_avro(text, F.col("b"), fields=fields, bare=F.lit(True))
        parsed = frame.select("n", found.alias("v"))
        return [row["v"] for row in parsed.orderBy("n").collect()]

    return records


def record(*fields, name="R", **more):
    listed = [{"name": name, "type": type_} for name, type_ in fields]
    return {"type": "record", "name": name, "fields": listed, **more}


KIND = {"type": "enum", "name": "a.Kind", "symbols": ["X", "Größe"]}
SHAPES = [
    ("boolean", True, True),
    ({"type": "int", "logicalType": "date"}, -3, -3),
    ({"type": "int", "connect.type": "int16"}, 7, 7),
    ({"type": "long", "logicalType": "timestamp-micros"}, 2**62, 2**62),
    ("float", 0.5, 0.5),
    ("double", 1e300, 1e300),
    ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, b"\xff", b"\xff"),
    ({"type": "string", "logicalType": "uuid"}, "no uuid", "no uuid"),
    ({"type": "fixed", "name": "Three", "size": 3}, b"abc", b"abc"),
    ({"type": "fixed", "name": "None", "size": 0}, b"", b""),
    (KIND, 1, "Größe"),
    ("null", None, None),
    (["null", "string"], (0, None), None),
    (["string", "null"], (0, "x"), "x"),
    (["long"], (0, 5), 5),
    (["int", "long"], (0, 5), 5),
    (["null", "float", "double"], (1, 0.5), 0.5),
    (["null", "int", "string"], (2, "x"), Row(member0=None, member1="x")),
    ([record(("x", "int"), name="A"), record(("y", "int"), name="B")], (1, {"y": 4}),
     Row(member0=None, member1=Row(y=4))),
    ({"type": "array", "items": ["null", "int"]}, [(1, 4), (0, None)], [4, None]),
    ({"type": "map", "values": ["null", "long"]}, {"k": (1, 4)}, {"k": 4}),
    (record(("n", ["null", record(("m", "a.Kind"), name="my-server.Inner")]), name="Outer"),
     {"n": (1, {"m": 0})}, Row(n=Row(m="X"))),
]  # fmt: skip


@pytest.mark.spark
def test_every_shape_is_read_raw_and_in_its_place(read):
    fields = [(f"c{n}", shape) for n, (shape, _, _) in enumerate(SHAPES)]
    schema = record(*fields, ("last", "string"), name="Envelope", namespace="shop.public.t")
    value = {f"c{n}": each for n, (_, each, _) in enumerate(SHAPES)} | {"last": "end"}
    (found,) = read(wire_schema(schema), encode(schema, value))
    assert found["last"] == "end"
    for n, (shape, _, wanted) in enumerate(SHAPES):
        assert found[f"c{n}"] == wanted, shape


@pytest.mark.spark
@pytest.mark.parametrize("column", ["select", "Größe", "_", "order"])
def test_names_reach_spark_as_they_are(read, column):
    schema = record((column, "int"))
    assert read(wire_schema(schema), encode(schema, {column: 3})) == [Row(**{column: 3})]


@pytest.mark.spark
def test_only_what_is_wanted_is_read(read):
    inner = record(("a", "int"), ("b", ["null", "string"]), ("c", "double"), name="Inner")
    schema = record(
        ("op", "string"), ("more", {"type": "map", "values": "bytes"}), ("one", ["null", inner]),
        ("other", ["null", "Inner"]), ("last", {"type": "array", "items": "long"}),
    )  # fmt: skip
    row = {"a": 1, "b": (1, "x"), "c": 0.5}
    value = {"op": "c", "more": {"k": b"v"}, "one": (1, row), "other": (1, row), "last": [7, 8]}
    fields = {"last": {}, "one": {"c": {}, "unknown": {}}, "other": {"b": {}}}
    found = read(wire_schema(schema), encode(schema, value), fields=fields)
    assert found == [Row(one=Row(c=0.5), other=Row(b="x"), last=[7, 8])]


@pytest.mark.spark
def test_a_length_that_bytes_only_announce_takes_no_memory(read):
    huge = b"\xfe\xff\xff\xff\x0f"  # 2³¹ - 1
    for shape in ("string", "bytes", {"type": "array", "items": "int"},
                  {"type": "map", "values": "int"}):  # fmt: skip
        text = wire_schema(record(("v", shape), ("n", "int")))
        for fields in (None, {"n": {}}):
            [found] = read(text, huge + b"\x02", fields=fields)
            assert found["n"] is None


@pytest.mark.spark
def test_a_record_of_a_struct_that_cannot_be_read_is_a_struct_of_nulls(read):
    """So a decoder has to look at a field that is never NULL."""
    text = wire_schema(record(("op", "string"), ("n", ["null", "int"])))
    found = read(text, b"\x02c\x00", b"\x02", b"", b"\x02c\x09")
    assert found == [Row(op="c", n=None), *[Row(op=None, n=None)] * 3]


@pytest.mark.spark
def test_bytes_after_a_record_are_passed_over(read):
    """So a record of another schema may be read without an error: the id decides, not the try."""
    assert read(wire_schema(record(("n", "int"))), b"\x02and more") == [Row(n=1)]


@pytest.mark.spark
@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the recordings of Debezium are not there")
def test_what_debezium_wrote_is_read(read):
    recorded = json.loads((GOLDEN / "debezium_avro_confluent.json").read_text())
    by_schema = {}
    for each in recorded["records"]:
        if each["value"] is not None and ".public." in each["topic"]:
            data = b64decode(each["value"])
            by_schema.setdefault(int.from_bytes(data[1:5], "big"), []).append(data[5:])
    for number, values in by_schema.items():
        text = wire_schema(read_avro(recorded["schemas"][str(number)]["schema"]))
        found = read(text, *values)
        assert all(each["op"] in {"c", "u", "d", "r", "t"} for each in found)
        assert all(each["source"]["connector"] == "postgresql" for each in found)
