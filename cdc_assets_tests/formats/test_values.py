"""Values as Spark decodes them: exactly, or not at all."""

from __future__ import annotations

import hashlib
import json
import math
import random
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as Number
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from cdc_assets.databases.mysql.types import MysqlColumn, describe_table
from cdc_assets.errors import TerminalError
from cdc_assets.formats.values import decoded, wire_type
from cdc_assets.schema.modes import BinaryMode, ConnectorModes, DecimalMode, TimeMode
from cdc_assets.schema.types import Column, Decimal, Primitive, Wire, WireDetail

FIXTURES = Path(__file__).parents[1] / "databases" / "fixtures"
UNSIGNED = Decimal(20, 0)

Spark = Callable[[], SparkSession]


def values(spark: Spark, column: Column, given: Sequence[object]) -> list[Any]:
    """What the lake stores of JSON values; "refused" for one that is there and cannot be stored.

    Instants come back as what they are in UTC, so that this machine's zone plays no part.
    """
    schema = StructType([StructField(column.name, wire_type(column))])
    text = StructType([StructField("place", StringType()), StructField("text", StringType())])
    rows = [(f"{n:06}", json.dumps({column.name: each})) for n, each in enumerate(given)]
    read = F.from_json("text", schema)[column.name]
    stored = decoded(read, column)
    is_given = ~F.is_variant_null(read) if column.wire is Wire.JSON else read.isNotNull()
    refused = is_given & stored.isNull()
    if column.type is Primitive.TIMESTAMPTZ:
        stored = stored.cast("timestamp_ntz")
    frame = spark().createDataFrame(rows, text)
    found = frame.select(
        "place",
        stored.alias("stored"),
        F.coalesce(refused, F.lit(False)).alias("refused"),
    ).collect()
    return ["refused" if row["refused"] else row["stored"] for row in sorted(found)]


def at(text: str) -> datetime:
    """A timestamp without a zone."""
    return datetime.fromisoformat(text)


def c(type_: Any, wire: Wire, **detail: Any) -> Column:
    return Column("c", type_, wire, detail=WireDetail(**detail) if detail else None)


CASES: dict[str, tuple[Column, dict[object, object]]] = {
    "tinyint(1)": (
        c(Primitive.INT, Wire.BOOLEAN_OR_INT),
        {True: 1, False: 0, 7: 7, -128: -128, 1.5: "refused", "x": "refused", "": "refused"},
    ),
    "tinyint(1) as boolean": (
        c(Primitive.BOOLEAN, Wire.BOOLEAN_OR_INT),
        {0: False, 1: True, 2: "refused", -1: "refused"},
    ),
    "wrapped": (
        c(Primitive.LONG, Wire.UNSIGNED_LONG),
        {0: 0, 2**63 - 1: 2**63 - 1, -1: "refused", -(2**63): "refused"},
    ),
    "unwrapped": (
        c(UNSIGNED, Wire.UNSIGNED_LONG),
        {
            0: Number(0),
            2**63 - 1: Number(2**63 - 1),
            -(2**63): Number(2**63),
            -1: Number(2**64 - 1),
        },
    ),
    "unwrapped, too few digits": (
        c(Decimal(19, 0), Wire.UNSIGNED_LONG),
        {-(2**63): Number(2**63), -1: "refused"},
    ),
    "bits": (
        c(Primitive.LONG, Wire.BITS),
        {"AQg=": 2049, "AAAAAAAAAEA=": 2**62, "AAAAAAAAAIA=": "refused", "": 0},
    ),
    "12 bits": (
        c(Primitive.LONG, Wire.BITS, bits=12),
        {"": 0, "AQg=": 2049, "/w8=": 4095, "ABA=": "refused", "AAAB": "refused"},
    ),
    "64 bits, all of them": (
        c(UNSIGNED, Wire.BITS, bits=64),
        {"//////////8=": Number(2**64 - 1), "AQAAAAAAAAAA": "refused"},
    ),
    "label": (
        c(Primitive.STRING, Wire.STRING, labels=("a", "b", "c d", "7"), is_closed=True),
        {
            "a": "a",
            "b,c d": "b,c d",
            "7": "7",
            "": "",
            "A": "refused",
            "1": "refused",
            2: "refused",
            "a,": "refused",
            ",": "refused",
            "b,": "refused",
            "c": "refused",
        },
    ),
    "labels of a set": (
        c(Primitive.STRING, Wire.STRING, labels=("a", "b", "c"), many=True, is_closed=True),
        {
            "": "",
            "a": "a",
            "c,a": "c,a",
            "a,d": "refused",
            3: "refused",
            "3": "refused",
            "a,": "refused",
        },
    ),
    "label with a comma or a backslash": (
        c(
            Primitive.STRING,
            Wire.STRING,
            labels=("a", "d\\", "e", "x\\\\y", "z\\n"),
            is_closed=True,
        ),
        {
            "a": "a",
            "": "",
            "d\\,e": "d,e",  # in a change
            "d,e": "d,e",  # in a row of a snapshot
            "x\\\\y": "x\\y",
            "x\\y": "x\\y",
            "z\\n": "refused",
            "d\\": "refused",
            "d": "refused",
            "x": "refused",
            "x\\\\\\\\y": "refused",
        },
    ),
    "label with a backslash, as Debezium 3.7 lists it": (
        c(Primitive.STRING, Wire.STRING, labels=("d\\", "e", "x\\\\\\\\y"), is_closed=True),
        {"d,e": "d,e", "x\\\\y": "refused", "x\\y": "refused"},
    ),
    "labels of a set with a backslash": (
        c(Primitive.STRING, Wire.STRING, labels=("a", "x\\\\y"), many=True, is_closed=True),
        {
            "": "",
            "a": "a",
            "a,x\\\\y": "a,x\\y",
            "a,x\\y": "a,x\\y",
            "a,b": "refused",
            "x\\n": "refused",
            "a,": "refused",
        },
    ),
    "label of a list that may be old": (
        c(Primitive.STRING, Wire.STRING, labels=("a", "7")),
        {"a": "a", "new": "new", "7": "7", "": "", 2: "refused", "2": "refused"},
    ),
    "number as text": (
        c(Primitive.STRING, Wire.STRING, number=True),
        {
            "1.50": "1.50",
            "-0": "-0",
            "1E-30": "1E-30",
            "NAN": "NaN",
            "POSITIVE_INFINITY": "Infinity",
            "NEGATIVE_INFINITY": "-Infinity",
            "": "refused",
            "one": "refused",
            "1,5": "refused",
            "1 ": "refused",
        },
    ),
    "decimal that is no number": (
        c(Decimal(10, 2), Wire.DECIMAL_TEXT),
        {"1.50": Number("1.50"), "NAN": "refused", "POSITIVE_INFINITY": "refused"},
    ),
    "64 bits": (
        c(UNSIGNED, Wire.BITS),
        {"AQAAAAAAAIA=": Number(2**63 + 1), "//////////8=": Number(2**64 - 1)},
    ),
    "more than 64 bits": (c(UNSIGNED, Wire.BITS), {"AQAAAAAAAAAA": "refused"}),
    "int": (
        c(Primitive.INT, Wire.INTEGER_TEXT),
        {
            "0": 0,
            "-2147483648": -(2**31),
            "2147483647": 2**31 - 1,
            "2147483648": "refused",
            "007": 7,
            "+7": 7,
            "": "refused",
            " 7": "refused",
            "7\n": "refused",
            "7.0": "refused",
            "7e1": "refused",
            "0x7": "refused",
            "\u0667": "refused",
        },
    ),
    "bigint": (
        c(Primitive.LONG, Wire.INTEGER_TEXT),
        {"9223372036854775807": 2**63 - 1, "9223372036854775808": "refused"},
    ),
    "unsigned": (
        c(UNSIGNED, Wire.INTEGER_TEXT),
        {"18446744073709551615": Number(2**64 - 1), "1" * 21: "refused"},
    ),
    "double": (
        c(Primitive.DOUBLE, Wire.FLOATING_TEXT),
        {
            "0.1": 0.1,
            "-1.7976931348623157E308": -1.7976931348623157e308,
            "4.9E-324": 5e-324,
            "1e400": "refused",
            "1e-400": "refused",
            "0e-400": 0.0,
            "100000000000000000000000": 1e23,
            "0.123456789012345678": "refused",
            "NaN": "refused",
            "Infinity": "refused",
            "1d": "refused",
            "0x1p3": "refused",
            ".5": 0.5,
            "5.": 5.0,
            ".": "refused",
            "": "refused",
        },
    ),
    "float": (
        c(Primitive.FLOAT, Wire.FLOATING_TEXT),
        {
            "3.14": 3.140000104904175,
            "1.6777216E7": 16777216.0,
            "1.17549435E-38": 1.1754943508222875e-38,
            "340282350000000000000000000000000000000": 3.4028234663852886e38,
            "3.5e38": "refused",
            "1e-50": "refused",
            "3.1415926535": "refused",
        },
    ),
    "boolean": (
        c(Primitive.BOOLEAN, Wire.BOOLEAN_TEXT),
        {"0": False, "1": True, "true": True, "2": "refused", "": "refused"},
    ),
    "date": (
        c(Primitive.DATE, Wire.DATE_TEXT),
        {
            "2024-02-29": date(2024, 2, 29),
            "0001-01-01": date(1, 1, 1),
            "9999-12-31": date(9999, 12, 31),
            "2023-02-29": "refused",
            "0000-00-00": "refused",
            "2024-00-10": "refused",
            "0000-01-01": "refused",
            "2024": "refused",
            "2024-1-1": "refused",
            "2024-01-01 00:00:00": "refused",
            "1500-02-29": "refused",
        },
    ),
    "time": (
        c(Primitive.LONG, Wire.TIME_TEXT),
        {
            "00:00:00": 0,
            "-00:00:00.000001": -1,
            "12:34:56.78": 45296780000,
            "838:59:59.999999": 3020399999999,
            "-838:59:59": -3020399000000,
            "24:00:00": 86400000000,
            "12:60:00": "refused",
            "12:34": "refused",
            "1 12:34:56": "refused",
            "12:34:56.1234567": "refused",
        },
    ),
    "datetime": (
        c(Primitive.TIMESTAMP, Wire.TIMESTAMP_TEXT),
        {
            "2024-02-29 12:34:56": at("2024-02-29 12:34:56"),
            "0001-01-01 00:00:00.000001": at("0001-01-01 00:00:00.000001"),
            "9999-12-31 23:59:59.999999": at("9999-12-31 23:59:59.999999"),
            "2024-02-29 12:34:56.7": at("2024-02-29 12:34:56.700000"),
            "0000-00-00 00:00:00": "refused",
            "2024-02-30 00:00:00": "refused",
            "2024-02-29 24:00:00": "refused",
            "2024-02-29": "refused",
            "2024-02-29T12:34:56Z": "refused",
            "2024-02-29 12:34:56.1234567": "refused",
            "now": "refused",
        },
    ),
    "timestamp in UTC": (
        c(Primitive.TIMESTAMPTZ, Wire.TIMESTAMP_TEXT, zone="UTC"),
        {
            "2024-02-29 12:34:56.123456": at("2024-02-29 12:34:56.123456"),
            "0000-00-00 00:00:00": "refused",
            "2024-02-29 12:34:56+01:00": "refused",
        },
    ),
    "timestamp with an offset": (
        c(Primitive.TIMESTAMPTZ, Wire.TIMESTAMP_TEXT, zone="-03:30"),
        {
            "2024-02-29 23:00:00": at("2024-03-01 02:30:00"),
            "9999-12-31 20:29:59.999999": at("9999-12-31 23:59:59.999999"),
            "9999-12-31 20:30:00": "refused",
        },
    ),
    "timestamp in the first year": (
        c(Primitive.TIMESTAMPTZ, Wire.TIMESTAMP_TEXT, zone="+01:00"),
        {"0001-01-01 01:00:00": at("0001-01-01 00:00:00"), "0001-01-01 00:59:59": "refused"},
    ),
    "zoned timestamp": (
        c(Primitive.TIMESTAMPTZ, Wire.ISO_ZONED),
        {
            "2024-02-29T12:34:56.123456Z": at("2024-02-29 12:34:56.123456"),
            "2024-02-29T12:34:56.123456000+01:00": at("2024-02-29 11:34:56.123456"),
            "2024-02-29T12:34Z": "refused",
            "2024-02-29T12:34:56.1234567Z": "refused",
            "2024-02-29T12:34:56Z\n": "refused",
            "2024-02-30T12:34:56Z": "refused",
            "0001-01-01T00:00:00Z": at("0001-01-01 00:00:00"),
            "0001-01-01T00:00:00+00:01": "refused",
            "0000-12-31T23:59:59.999999Z": "refused",
            "-0043-03-15T12:00:00Z": "refused",
            "9999-12-31T23:59:59.999999Z": at("9999-12-31 23:59:59.999999"),
            "9999-12-31T23:59:59.999999-00:01": "refused",
            "+10000-01-01T00:00:00Z": "refused",
            "+292278994-08-16T23:00:00Z": "refused",
        },
    ),
    "scalar with an offset": (
        c(Primitive.TIMESTAMPTZ, Wire.SCALAR),
        {
            "0001-01-01 01:00:00+01:00": at("0001-01-01 00:00:00"),
            "0001-01-01 00:59:59+01:00": "refused",
            "9999-12-31 23:59:59 -01:00": "refused",
        },
    ),
    "decimal as text": (
        c(Decimal(5, 2), Wire.DECIMAL_TEXT),
        {"1.50": Number("1.50"), "1.500": Number("1.50"), "1.501": "refused", "1\n": "refused"},
    ),
    "decimal without a digit before the point": (
        c(Decimal(4, 4), Wire.DECIMAL_TEXT),
        {"0": Number(0), "-0.0": Number(0), "0.9999": Number("0.9999"), "1": "refused"},
    ),
    "decimal in any form of JSON's": (
        c(Decimal(9, 3), Wire.SCALAR),
        {
            "12E3": Number(12000),
            "1.5e-2": Number("0.015"),
            "0E-10": Number(0),
            "1.5E-3": "refused",
            "1E6": "refused",
            "1E99999": "refused",
            "1E": "refused",
            "--1": "refused",
        },
    ),
    "decimal of a smaller scale": (  # 123.45, -0.01
        c(Decimal(18, 4), Wire.DECIMAL_BYTES, scale=2),
        {"MDk=": Number("123.4500"), "/w==": Number("-0.0100"), "": "refused"},
    ),
    "decimal of a larger scale": (  # 1.2345, 1.2300
        c(Decimal(12, 2), Wire.DECIMAL_BYTES, scale=4),
        {"MDk=": "refused", "MAw=": Number("1.23"), "AA==": Number("0.00")},
    ),
    "decimal of more digits than the lake has": (
        c(Decimal(38, 10), Wire.DECIMAL_BYTES, scale=2),
        {
            "MDk=": Number("123.4500000000"),
            b64encode((10**30 - 1).to_bytes(13)).decode(): Number("9" * 28 + ".99"),
            b64encode((10**30).to_bytes(13)).decode(): "refused",
            b64encode((10**48).to_bytes(20)).decode(): "refused",
        },
    ),
    "decimal of a scale below zero": (
        c(Decimal(5, 0), Wire.DECIMAL_BYTES, scale=2046),
        {b64encode((1200 * 10**2046).to_bytes(852)).decode(): Number(1200)},
    ),
    "timestamp where clocks change": (
        c(Primitive.TIMESTAMPTZ, Wire.TIMESTAMP_TEXT, zone="Europe/Berlin"),
        {
            "2024-07-01 12:00:00": at("2024-07-01 10:00:00"),
            "2024-01-01 12:00:00": at("2024-01-01 11:00:00"),
            "2024-10-27 01:59:59.999999": at("2024-10-26 23:59:59.999999"),
            "2024-10-27 02:00:00": "refused",
            "2024-10-27 02:59:59.999999": "refused",
            "2024-10-27 03:00:00": at("2024-10-27 02:00:00"),
            "2024-03-31 02:30:00": "refused",
        },
    ),
    "timestamp where clocks change by half an hour": (
        c(Primitive.TIMESTAMPTZ, Wire.TIMESTAMP_TEXT, zone="Australia/Lord_Howe"),
        {
            "2024-04-07 01:29:59": at("2024-04-06 14:29:59"),
            "2024-04-07 01:30:00": "refused",
            "2024-04-07 02:00:00": at("2024-04-06 15:30:00"),
        },
    ),
    "bytes": (
        c(Primitive.BINARY, Wire.BYTES_LATIN1),
        {
            "": b"",
            "".join(map(chr, range(256))): bytes(range(256)),
            "a\u0100": "refused",
            "😀": "refused",
        },
    ),
    "bytes of a width": (
        c(Primitive.BINARY, Wire.BYTES_LATIN1, width=4),
        {"": b"\0\0\0\0", "a\xff": b"a\xff\0\0", "abcd": b"abcd", "abcde": "refused"},
    ),
    "enum": (
        c(Primitive.STRING, Wire.ENUM_ORDINAL, labels=("a", "b'c", "2")),
        {
            "0": "",
            "1": "a",
            "2": "b'c",
            "3": "2",
            "4": "refused",
            "-1": "refused",
            "a": "refused",
            "99999999999": "refused",
        },
    ),
    "set": (
        c(Primitive.STRING, Wire.SET_BITS, labels=("x", "y", "z")),
        {"0": "", "5": "x,z", "7": "x,y,z", "8": "refused", "x": "refused", "-1": "refused"},
    ),
    "set of 64": (
        c(Primitive.STRING, Wire.SET_BITS, labels=tuple(f"m{n}" for n in range(64))),
        {
            str(2**63): "m63",
            str(2**63 + 1): "m0,m63",
            str(2**64 - 1): ",".join(f"m{n}" for n in range(64)),
            str(2**64): "refused",
        },
    ),
    "hex": (
        c(Primitive.BINARY, Wire.BYTES_HEX),
        {"": b"", "00fF": b"\x00\xff", "f": "refused", "0g": "refused"},
    ),
}


@pytest.mark.spark
@pytest.mark.parametrize("case", CASES)
def test_values_are_exact_or_refused(spark, case):
    column, expected = CASES[case]
    found = values(spark, column, list(expected))
    assert dict(zip(expected, found, strict=True)) == expected


@pytest.mark.spark
def test_null_stays_null(spark):
    columns = [
        Column(f"{wire} to {type_}", type_, wire, detail=WireDetail(("a",), "UTC"))
        for wire in set(Wire) - {Wire.LIST, Wire.SHARD}
        for type_ in (*Primitive, UNSIGNED)
    ]
    stored = []
    for each in columns:
        nothing = F.lit(None).cast(wire_type(each))
        with suppress(TerminalError):
            stored.append(decoded(nothing, each).isNull().alias(each.name))
    assert len(stored) > 30
    assert all(spark().range(1).select(*stored).first())


@pytest.mark.spark
@pytest.mark.parametrize(
    ("wire", "given", "digested"),
    [
        (Wire.STRING, "é", "é".encode()),
        (Wire.LONG, -7, b"-7"),
        (Wire.BYTES_BASE64, "AP8=", b"\x00\xff"),
        (Wire.JSON, {"a": [1, None]}, b'{"a":[1,null]}'),
        (Wire.JSON, "null", b'"null"'),
        (Wire.VARIABLE_SCALE_DECIMAL, {"scale": 1, "value": "Dw=="}, b'{"scale":1,"value":"Dw=="}'),
    ],
)
def test_of_a_masked_value_there_is_a_digest_and_of_null_none(spark, wire, given, digested):
    found = values(spark, c(Primitive.STRING, wire, mask=True), [given, None])
    assert found == [hashlib.sha256(digested).hexdigest(), None]


@pytest.mark.spark
def test_doubles_and_floats_come_back_from_their_shortest_text(spark):
    dice = random.Random(5)
    doubles = [math.ldexp(dice.random() - 0.5, dice.randint(-1060, 1000)) for _ in range(500)]
    found = values(spark, c(Primitive.DOUBLE, Wire.FLOATING_TEXT), [repr(x) for x in doubles])
    assert found == doubles


@pytest.mark.spark
@pytest.mark.parametrize("name", ["America/New_York", "Asia/Kolkata", "Africa/Casablanca"])
def test_instants_come_back_from_their_local_text_or_are_ambiguous(spark, name):
    """Against Python's own zones, around each change of the clock too."""
    zone, dice = ZoneInfo(name), random.Random(7)
    start = datetime(1970, 1, 2, tzinfo=UTC)
    instants = [start + timedelta(minutes=dice.randrange(68 * 525_600)) for _ in range(1000)]
    instants += [datetime(2024, month, 1, tzinfo=UTC) + timedelta(minutes=10 * step)
                 for month in (3, 4, 10, 11) for step in range(2000)]  # fmt: skip
    local = [each.astimezone(zone) for each in instants]
    texts = [each.strftime("%Y-%m-%d %H:%M:%S") for each in local]
    column = c(Primitive.TIMESTAMPTZ, Wire.TIMESTAMP_TEXT, zone=name)
    found = values(spark, column, texts)
    expected = [
        "refused"
        if each.replace(fold=0).utcoffset() != each.replace(fold=1).utcoffset()
        else instant.replace(tzinfo=None)
        for each, instant in zip(local, instants, strict=True)
    ]
    assert found == expected


@pytest.mark.spark
def test_rows_of_a_connector_without_schemas_decode_to_what_was_inserted(spark):
    """What Debezium 3.6.1 wrote, by what the catalog says of the table."""
    catalog = json.loads((FIXTURES / "mysql_types.catalog.json").read_text())
    modes = ConnectorModes(DecimalMode.STRING, TimeMode.MICROSECONDS, BinaryMode.HEX)
    described = describe_table([MysqlColumn(**each) for each in catalog], (), modes)
    rows = json.loads((FIXTURES / "mysql_types.rows.json").read_text())
    columns = [each for each in described.columns if isinstance(each, Column)]
    columns = [each for each in columns if each.name in rows[0]]
    found = {each.name: values(spark, each, [row[each.name] for row in rows]) for each in columns}
    assert {name: given[0] for name, given in found.items()} == INSERTED
    later = {name: given[1:] for name, given in found.items() if name in LATER}
    assert later == LATER


INSERTED = {
    "id": 1, "part": "p", "ti": -128, "ti1": 5, "bo": 1, "tiu": 255, "tiz": 7, "si": -32768,
    "siu": 65535, "mi": -8388608, "miu": 16777215, "i": -2147483648, "iu": 4294967295, "iz": 42,
    "bi": -(2**63), "biu": Number(2**64 - 1),
    "de": Number("-12345678.91"), "deu": Number("1.50"), "db": Number(1234567890),
    "d38": Number("-1234567890123456789012345678.1234567891"),
    "fl": 3.140000104904175, "fp": 123.45670318603516, "flu": 16777216.0, "f30": 0.1, "dbl": 0.1,
    "dp": 1234567.891, "dprec": 1e308,
    "b1": True, "b": False, "b12": 2049, "b20": 0xF0001, "b63": 2**62, "b64": Number(2**63 + 1),
    "c": "abc", "vc": "häł😀", "vl": "é", "tt": "", "tx": "t", "mt": "m", "lt": "l",
    "bn": b"\x01\x00\xff" + bytes(13), "vb": b"\x00\x80", "tb": b"", "bl": b"\xff\xfe", "mb": b"m",
    "lb": b"l", "en": "b'c", "se": "x,z", "js": '{"b": 1, "a": [1.50, null, "x"]}',
    "da": date(2024, 2, 29), "t0": -3020399000000, "t2": 45296780000, "t6": -1,
    "dt0": at("2024-02-29 12:34:56"), "dt3": at("2024-02-29 12:34:56.789000"),
    "dt4": at("2024-02-29 12:34:56.789100"), "dt6": at("1900-01-01 00:00:00.000001"),
    "ts0": at("2024-02-29 12:34:56"), "ts3": at("2024-02-29 12:34:56.120000"),
    "ts6": at("2024-02-29 12:34:56.123456"), "yr": 2155, "gs": -256, "gv": -384, "cmt": 1,
    "dn": date(2000, 1, 1), "tsn": at("2000-01-01 00:00:01"), "dtn": at("2000-01-01 00:00:00"),
    "ynn": 2000,
    "d65": "12345678901234567890123456789012345.123456789012345678901234567890",
    "po": Row(x=1.0, y=2.0, srid=None),
    "ge": Row(wkb=bytes.fromhex("0101000000000000000000f03f0000000000000040"), srid=None),
}  # fmt: skip
LATER = {
    # Zero dates were inserted into the first of these rows, the year 50 and others into the second.
    "id": [Number(2**64 - 1), Number(3)],
    "biu": [Number(2**63), Number(2**63 - 1)],
    "da": [None, date(50, 3, 4)],
    "dn": [date(2000, 1, 1), date(50, 3, 4)],
    "dt0": [None, at("0070-03-04 01:02:03")],
    "dt6": [None, at("0001-01-01 00:00:00")],
    "yr": [1900, 1901],
    "t6": [360000999999, 86399000001],
    "fl": [None, 1.1754943508222875e-38],
    "en": ["", None],
}
