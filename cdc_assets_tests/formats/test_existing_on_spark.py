"""Values that records do not have as the lake has them: of older rows, kept types, former names."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal as Number

import pytest
from pyspark.sql import functions as F

from cdc_assets.changes.position import Scheme
from cdc_assets.formats.existing import existing_value, with_existing
from cdc_assets.formats.key_form import KeyForm
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.spec import ReadSpec
from cdc_assets.schema.existing import of_text
from cdc_assets.schema.types import (
    Column,
    Decimal,
    Existing,
    Identity,
    Primitive,
    TableSchema,
    Wire,
    WireDetail,
)
from cdc_assets_tests.formats.debezium import debezium_json
from cdc_assets_tests.formats.decoding import TABLE, Bytes, omittable, read_by
from cdc_assets_tests.pipeline import Session

pytestmark = pytest.mark.spark

LAYOUT = Layout("bare", keyed=True, split_keys=False, scheme=Scheme.POSTGRES, key_form=KeyForm.JSON)
PLACEHOLDER = "__debezium_unavailable_value"


@pytest.fixture(autouse=True)
def _in_utc(spark: Session) -> None:
    spark().conf.set("spark.sql.session.timeZone", "UTC")
    spark().conf.set("spark.sql.ansi.enabled", "true")


def column(type_, wire=Wire.STRING, text=None, name="c") -> Column:
    bare = Column(name, type_, wire)
    return bare if text is None else replace(bare, existing=of_text(text, bare))


VALUES = {
    "boolean": (column(Primitive.BOOLEAN, Wire.BOOLEAN, "t"), True),
    "int": (column(Primitive.INT, Wire.INT, "-2147483648"), -(2**31)),
    "bigint": (column(Primitive.LONG, Wire.LONG, "9223372036854775807"), 2**63 - 1),
    "padded": (column(Primitive.INT, Wire.INT, "007"), 7),
    "time": (column(Primitive.LONG, Wire.MILLIS_OF_DAY, "10:00:00.5"), 36_000_500_000),
    "bits": (column(Primitive.LONG, Wire.BITS, "0101"), 5),
    "real": (column(Primitive.FLOAT, Wire.FLOAT, "1e-45"), 1.401298464324817e-45),
    "infinity": (column(Primitive.DOUBLE, Wire.DOUBLE, "-Infinity"), -math.inf),
    "double": (column(Primitive.DOUBLE, Wire.DOUBLE, repr(sys.float_info.max)), sys.float_info.max),
    "decimal": (column(Decimal(4, 2), Wire.DECIMAL_BYTES, "-99.99000"), Number("-99.99")),
    "zeros": (column(Decimal(4, 2), Wire.DECIMAL_BYTES, f"{'0' * 50}1.5{'0' * 50}"), Number("1.5")),
    "long decimal": (
        column(Decimal(38, 38), Wire.DECIMAL_BYTES, f"0.{'9' * 38}"), Number(f"0.{'9' * 38}"),
    ),
    "text": (column(Primitive.STRING, text="it's \\n \0 \U0001f600"), "it's \\n \0 \U0001f600"),
    "empty": (column(Primitive.STRING, text=""), ""),
    "date": (column(Primitive.DATE, Wire.EPOCH_DAYS, "0001-01-01"), date(1, 1, 1)),
    "timestamp": (
        column(Primitive.TIMESTAMP, Wire.EPOCH_MICROS, "9999-12-31 23:59:59.999999"),
        datetime.max,  # noqa: DTZ901 - of no zone
    ),
    "bytes": (column(Primitive.BINARY, Wire.BYTES_BASE64, "\\x00ff"), bytearray(b"\x00\xff")),
    "no bytes": (column(Primitive.BINARY, Wire.BYTES_BASE64, "\\x"), bytearray()),
    "nothing": (replace(column(Primitive.INT), existing=Existing(None)), None),
}  # fmt: skip


def test_the_value_of_older_rows_is_of_the_columns_type(spark: Session) -> None:
    frame = (
        spark()
        .range(1)
        .select(*(existing_value(each).alias(name) for name, (each, _) in VALUES.items()))
    )
    assert frame.collect()[0].asDict() == {name: value for name, (_, value) in VALUES.items()}
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    assert types == {name: str(each.type) for name, (each, _) in VALUES.items()}


def test_the_instant_of_older_rows_is_one(spark: Session) -> None:
    instant = column(Primitive.TIMESTAMPTZ, Wire.ISO_ZONED, "2020-02-29 12:30:00.25+00")
    micros = spark().range(1).select(F.unix_micros(existing_value(instant))).collect()[0][0]
    at = datetime(2020, 2, 29, 12, 30, 0, 250_000, tzinfo=UTC)
    assert micros == int(at.timestamp() * 1_000_000)


def test_rows_have_the_value_where_their_record_lacks_the_column_and_nowhere_else(
    spark: Session,
) -> None:
    columns = (
        Column("id", Primitive.INT, Wire.INT),
        replace(column(Primitive.INT, Wire.INT, "5", "here"), identity=Identity(name="sent")),
        replace(column(Primitive.INT, Wire.INT, "6", "gone"), absent=True),
        column(Primitive.INT, Wire.INT, "7", "late"),
    )
    target = TableSchema(columns, ("id",))
    spec = ReadSpec(target, LAYOUT, target, TABLE, may_lack=frozenset({"here"}))
    kind = "row struct<id int, here int, gone int, late int>, absent array<string>"
    frame = spark().createDataFrame(
        [
            ((1, None, None, 1), ["sent"]),
            ((2, None, None, None), None),
            ((3, 9, 9, 9), []),
            ((4, None, None, None), ["gone", "late", "sent"]),
            (None, ["sent"]),
        ],
        kind,
    )
    rows = with_existing(frame, spec).collect()
    assert [(each["row"] and tuple(each["row"]), each["absent"]) for each in rows] == [
        ((1, 5, None, 1), None),
        ((2, None, None, None), None),
        ((3, 9, 9, 9), None),
        ((4, 5, None, 7), ["gone", "late"]),
        (None, None),
    ]


KEPT = {
    "bigint that fits int": (Primitive.LONG, Primitive.INT, 5, 5),
    "bigint beyond int": (Primitive.LONG, Primitive.INT, 2**31, None),
    "double that is whole": (Primitive.DOUBLE, Primitive.INT, 5.0, 5),
    "double with a fraction": (Primitive.DOUBLE, Primitive.INT, 5.5, None),
    "double that is none": (Primitive.DOUBLE, Primitive.INT, math.nan, None),
    "double beyond bigint": (Primitive.DOUBLE, Primitive.LONG, 1e19, None),
    "double that is a real": (Primitive.DOUBLE, Primitive.FLOAT, 0.5, 0.5),
    "double that is no real": (Primitive.DOUBLE, Primitive.FLOAT, 0.1, None),
    "decimal that loses zeros": (Decimal(9, 3), Decimal(9, 2), Number("1.500"), Number("1.50")),
    "decimal that loses a digit": (Decimal(9, 3), Decimal(9, 2), Number("1.505"), None),
    "decimal that is too long": (Decimal(9, 0), Decimal(5, 2), Number(1000), None),
    "bigint into a decimal": (Primitive.LONG, Decimal(5, 2), 999, Number("999.00")),
    "int into text": (Primitive.INT, Primitive.STRING, -5, "-5"),
    "decimal into text": (Decimal(9, 3), Primitive.STRING, Number("1.500"), "1.500"),
    "int that is wider in the lake": (Primitive.INT, Primitive.LONG, 5, 5),
    "nothing": (Primitive.LONG, Primitive.INT, None, None),
}


# ── renamed columns, of records without a schema ──────────────────────────────────────────

LAKE = TableSchema(
    (
        Column("number", Primitive.INT, Wire.INT, identity=Identity(formerly=("k",))),
        Column("in_lake", Primitive.STRING, Wire.STRING, unchanged_marker=True,
               identity=Identity(name="called", formerly=("name", "title"))),
        replace(column(Primitive.INT, Wire.INT, "5", "score")),
        Column("small", Primitive.INT, Wire.LONG),
    ),
    ("number",),
)  # fmt: skip
ARRIVING = TableSchema(
    (
        Column("number", Primitive.INT, Wire.INT),
        Column("k", Primitive.INT, Wire.INT),
        *(Column(n, Primitive.STRING, Wire.STRING, unchanged_marker=True)
          for n in ("called", "name", "title")),
        Column("score", Primitive.INT, Wire.INT),
        Column("small", Primitive.LONG, Wire.LONG),
    ),
    ("number", "k"),
)  # fmt: skip
SPEC = ReadSpec(
    ARRIVING, LAYOUT, LAKE, TABLE,
    omittable=omittable(LAKE, []),
    tombstone_keys=True,
    parse_here=True,
    may_lack=frozenset({"score"}),
    homes={"k": "number", "called": "in_lake", "name": "in_lake", "title": "in_lake"},
)  # fmt: skip
SOURCE = {"ts_ms": 1_760_000_000_000, "lsn": 7, "sequence": '["6","7"]'}


def event(op: str, key: dict[str, int], after: object, before: object = None) -> Bytes:
    text = {"before": before, "after": after, "source": SOURCE, "op": op}
    return Bytes(json.dumps(key).encode(), json.dumps(text).encode())


WIRES = {Primitive.INT: Wire.INT, Primitive.LONG: Wire.LONG, Primitive.DOUBLE: Wire.DOUBLE}


@pytest.mark.parametrize("name", KEPT)
def test_a_value_of_another_type_is_stored_if_it_is_the_same(spark: Session, name: str) -> None:
    arriving, kept, value, found = KEPT[name]
    id_ = Column("id", Primitive.INT, Wire.INT)
    columns = [
        Column("c", type_, WIRES.get(arriving, Wire.DECIMAL_TEXT)) for type_ in (arriving, kept)
    ]
    own, lake = (TableSchema((id_, each), ("id",)) for each in columns)
    given = str(value) if isinstance(value, Number) else value
    record = event("c", {"id": 1}, {"id": 1, "c": given})
    (change,) = read_by(spark, debezium_json(), [ReadSpec(own, LAYOUT, lake, TABLE)], [record])
    if found is None and value is not None:
        assert change["reject"] == f"column 'c': its value does not fit {kept}"
    else:
        assert (change["reject"], change["row"]["c"]) == (None, found)


@pytest.mark.parametrize("op", ["r", "c", "u"])
def test_a_placeholder_that_is_no_value_is_refused_where_nothing_can_be_left_out(
    spark: Session, op: str
) -> None:
    """Of a snapshot's row it is data, and here no number; a create may be of a changed key."""
    number = Column(
        "n", Primitive.STRING, Wire.STRING, unchanged_marker=True, detail=WireDetail(number=True)
    )
    table = TableSchema((Column("id", Primitive.INT, Wire.INT), number), ("id",))
    spec = ReadSpec(table, LAYOUT, table, TABLE, omittable=("n",))
    record = event(op, {"id": 1}, {"id": 1, "n": PLACEHOLDER})
    (change,) = read_by(spark, debezium_json(), [spec], [record])
    if op == "r":
        assert change["reject"] == "column 'n': its value does not fit string"
    else:
        assert (change["reject"], change["unset"]["n"], change["row"]["n"]) == (None, True, None)


RECORDS = {
    "now": event("c", {"number": 1}, {"number": 1, "called": "a", "score": 1, "small": 1}),
    "former": event("c", {"k": 2}, {"k": 2, "name": "b", "score": None, "small": 1}),
    "older": event("c", {"k": 3}, {"k": 3, "title": "c", "small": 1}),
    "unchanged": event("u", {"k": 4}, {"k": 4, "name": PLACEHOLDER, "score": 1, "small": 1}),
    "read": event("r", {"k": 5}, {"k": 5, "name": PLACEHOLDER, "score": 1, "small": 1}),
    "key in key": event("d", {"k": 6}, None),
    "key in before": event("d", {"k": 0}, None, {"k": 7, "name": "x", "small": 1}),
    "tombstone": Bytes(b'{"k": 8}', None),
    "tombstone now": Bytes(b'{"number": 9}', None),
    "moved": event("u", {"k": 11}, {"k": 11, "name": "m", "score": 1, "small": 1}, {"k": 10}),
    "beyond": event("c", {"k": 12}, {"k": 12, "name": "m", "score": 1, "small": 2**31}),
    "no key": event("c", {"k": 13}, {"name": "m", "score": 1, "small": 1}),
    "strange": event("c", {"k": 14}, {"k": 14, "name": "m", "score": 1, "small": 1, "more": 1}),
    "lacking": event("c", {"k": 15}, {"k": 15, "score": 1, "small": 1}),
}


@pytest.fixture(scope="module")
def changes(spark: Session) -> dict[str, object]:
    rows = read_by(spark, debezium_json(), [SPEC], list(RECORDS.values()))
    return dict(zip(RECORDS, rows, strict=True))


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("now", (1, "a", 1, 1)),
        ("former", (2, "b", None, 1)),
        ("older", (3, "c", 5, 1)),
        ("read", (5, PLACEHOLDER, 1, 1)),
        ("moved", (11, "m", 1, 1)),
    ],
)
def test_a_value_comes_by_each_name_that_its_column_has_had(changes, name, row) -> None:
    found = changes[name]
    assert (found["reject"], found["unknown"], found["absent"]) == (None, None, None)
    assert tuple(found["row"]) == row
    assert found["key"]["number"] == row[0]


@pytest.mark.parametrize(
    ("name", "key"),
    [("unchanged", 4), ("key in key", 6), ("key in before", 7), ("tombstone", 8),
     ("tombstone now", 9)],
)  # fmt: skip
def test_a_key_comes_by_each_name_that_its_column_has_had(changes, name, key) -> None:
    assert changes[name]["reject"] is None
    assert changes[name]["key"].asDict() == {"number": key}


def test_an_unchanged_value_is_told_by_its_former_name(changes) -> None:
    assert changes["unchanged"]["unset"]["in_lake"] is True
    assert [changes[name]["unset"]["in_lake"] for name in ("now", "former", "read")] == [False] * 3


def test_the_key_before_an_update_comes_by_its_former_name(changes) -> None:
    assert changes["moved"]["old_key"].asDict() == {"number": 10}


def test_what_the_lakes_type_does_not_hold_is_rejected(changes) -> None:
    assert changes["beyond"]["reject"] == "column 'small': its value does not fit int"
    assert changes["no key"]["reject"] is not None


def test_a_field_of_no_name_that_a_column_has_had_is_unknown_and_one_of_none_is_lacking(
    changes,
) -> None:
    assert changes["strange"]["unknown"] == ["more"]
    assert changes["lacking"]["absent"] == ["called"]
