"""What the function in the JVM reads of a document, and what it finds wrong with it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from cdc_assets.decode import ALONE, SORTED, compared, read_json, read_key
from cdc_assets.formats.key_schemas import of_json
from cdc_assets.formats.record_json import NO_OBJECT, NOT_KEPT
from cdc_assets_tests.hostile import FILLERS, SIZE

pytestmark = pytest.mark.spark

Session = Callable[[], SparkSession]
NOT_UTF8 = "its value is not UTF-8"
HALF = "a text holds half of a surrogate pair"


def read(
    spark: Session, kind: StructType, *documents: bytes | None, wrapped: bool = False
) -> list[Any]:
    """Payload and fault of each document."""
    numbered = list(enumerate(documents))
    frame = spark().createDataFrame(numbered, "at int, value binary")
    found = frame.select("at", read_json(F.col("value"), kind, wrapped=wrapped).alias("d"))
    rows = sorted(found.collect(), key=lambda row: row["at"])
    return [row["d"].asDict(recursive=True) if row["d"] else None for row in rows]


def of_one(type_: DataType, **metadata: Any) -> StructType:
    return StructType([StructField("v", type_, metadata=metadata)])


def values(spark: Session, type_: DataType, *texts: str, **metadata: Any) -> list[Any]:
    """Each JSON text read as a field of this type; the fault where there is one."""
    documents = (f'{{"v":{text}}}'.encode() for text in texts)
    found = read(spark, of_one(type_, **metadata), *documents)
    return [each["unreadable"] or each["payload"]["v"] for each in found]


@pytest.mark.parametrize(
    ("document", "payload", "fault"),
    [
        pytest.param(b'{"v":1}', {"v": 1}, None, id="as expected"),
        pytest.param(b' {"v" : 1} \n', {"v": 1}, None, id="blanks"),
        pytest.param(b'{"w":[{"v":2}],"v":1}', {"v": 1}, None, id="others are skipped"),
        pytest.param(b'{"v":1,"v":2}', {"v": 2}, None, id="the last one counts"),
        pytest.param(b"{}", {"v": None}, None, id="missing"),
        pytest.param(b"null", None, None, id="nothing"),
        pytest.param(b"", None, NO_OBJECT, id="empty"),
        pytest.param(b"[]", None, NO_OBJECT, id="an array"),
        pytest.param(b'"v"', None, NO_OBJECT, id="a text"),
        pytest.param(b'{"v":1', None, NO_OBJECT, id="cut off"),
        pytest.param(b'{"v":1}}', None, NO_OBJECT, id="too many ends"),
        pytest.param(b'{"v":1} {"v":1}', None, NO_OBJECT, id="two"),
        pytest.param(b"{'v':1}", None, NO_OBJECT, id="single quotes"),
        pytest.param(b'{"v":01}', None, NO_OBJECT, id="a leading zero"),
        pytest.param(b'{"v":1.0}', {"v": None}, NO_OBJECT, id="no integer"),
        pytest.param(b'{"v":9223372036854775808}', {"v": None}, NO_OBJECT, id="beyond 64 bits"),
        pytest.param(b'{"v":' + b"9" * 100_000 + b"}", {"v": None}, NO_OBJECT, id="a long number"),
        pytest.param(b'{"v":1,"w":"\xff"}', {"v": 1}, NOT_UTF8, id="no UTF-8"),
        pytest.param(b'{"v":1,"w":"\xed\xa0\x80"}', {"v": 1}, NOT_UTF8, id="an encoded half"),
        pytest.param(b'{"v":1,"w":"\xc0\xaf"}', {"v": 1}, NOT_UTF8, id="overlong"),
        pytest.param(b'{"v":1,"w":"\\ud800"}', {"v": 1}, HALF, id="half"),
        pytest.param(b'{"v":1,"\\udc00":2}', {"v": 1}, HALF, id="half in a name"),
        pytest.param(b'{"v":1,"w":"\\ud83d\\ude00"}', {"v": 1}, None, id="whole"),
        pytest.param(b'{"v":1,"w":"\\\\ud800"}', {"v": 1}, None, id="an escaped backslash"),
        pytest.param(b'{"v":1,"w":"\\ud83d\\ud83d\\ude00"}', {"v": 1}, HALF, id="half, whole"),
        pytest.param(b'{"v":1,"w":"' + b"x" * 9 + b'\\ude00"}', {"v": 1}, HALF, id="far off"),
        pytest.param('{"v":1,"w":"' + "ü" * 9 + '\\ude00"}', {"v": 1}, HALF, id="after others"),
        pytest.param(b"\xef\xbb\xbf" + b'{"v":1}', None, NO_OBJECT, id="a byte order mark"),
        pytest.param('{"v":1}'.encode("utf-16-le"), None, NO_OBJECT, id="UTF-16"),
        pytest.param(b'{"w":' + b"[" * 2000 + b"]" * 2000 + b"}", None, NO_OBJECT, id="deep"),
    ],
)  # fmt: skip
def test_a_document(
    spark: Session, document: bytes | str, payload: object, fault: str | None
) -> None:
    given = document.encode() if isinstance(document, str) else document
    (found,) = read(spark, of_one(LongType()), given)
    assert found == {"payload": payload, "unreadable": fault}


def test_what_no_branch_of_a_case_gives_is_not_the_value_of_the_row_before(spark: Session) -> None:
    """Generated code has the last value in its variable, and that it is NULL in another."""
    text = F.concat(F.lit('{"a": '), F.col("id").cast("string"), F.lit("}")).cast("binary")
    given = F.when(F.col("id") == 0, text).when(F.col("id") % 2 == 0, text)
    kind = StructType([StructField("a", IntegerType())])
    rows = (
        spark()
        .range(0, 6, 1, 1)
        .select(
            read_json(given, kind).getField("payload").getField("a").alias("document"),
            read_key(given, kind).getField("a").alias("key"),
        )
    )
    assert [tuple(each) for each in rows.collect()] == [
        (0, 0), (None, None), (2, 2), (None, None), (4, 4), (None, None),
    ]  # fmt: skip


def test_no_bytes_are_no_document(spark: Session) -> None:
    assert read(spark, of_one(LongType()), None) == [{"payload": None, "unreadable": None}]


@pytest.mark.parametrize(
    ("document", "payload", "fault"),
    [
        pytest.param(b'{"schema":null,"payload":{"v":1}}', {"v": 1}, None, id="a row"),
        pytest.param(b'{ "schema" : null ,\n"payload" : {"v":1} }', {"v": 1}, None, id="blanks"),
        pytest.param(b'{"schema":null,"payload":null}', None, None, id="nothing"),
        pytest.param(b'{"schema":null,"payload":{}}', {"v": None}, None, id="empty"),
        pytest.param(b'{"schema":null,"payload":1}', {"v": None}, None, id="a column"),
        pytest.param(b'{"schema":null,"v":1}', {"v": 1}, None, id="no payload"),
        pytest.param(b'{"schema":{},"payload":{"v":1}}', {"v": None}, None, id="a schema"),
        pytest.param(b'{"schema":null,"payload":{"v":1},"w":2}', None, NO_OBJECT, id="more"),
        pytest.param(b'{"schema":null,"payload":{"v":1}', None, NO_OBJECT, id="cut off"),
    ],
)
def test_what_is_around_a_value_without_a_schema_is_taken_off(
    spark: Session, document: bytes, payload: object, fault: str | None
) -> None:
    (found,) = read(spark, of_one(LongType()), document)
    assert found == {"payload": payload, "unreadable": fault}


def keys(spark: Session, kind: StructType, *given: bytes | None) -> list[Any]:
    frame = spark().createDataFrame([*enumerate(given)], "at int, key binary")
    rows = frame.select("at", read_key(F.col("key"), kind).alias("k")).orderBy("at").collect()
    return [row["k"].asDict() if row["k"] else None for row in rows]


def test_a_key_is_an_object_with_or_without_a_schema_around_it(spark: Session) -> None:
    kind = StructType([StructField(name, LongType()) for name in ("v", "payload")])
    found = keys(
        spark,
        kind,
        b'{"v":1,"payload":2}',
        b'{"schema":{"type":"struct"},"payload":{"v":1}}',
        b' { "schema" : null , "x" : [1] , "payload" : {"v":1} } ',
        b'{"schema":{"payload":{"v":3}},"v":1}',
        b'{"v":1,"schema":2,"payload":3}',
        b'{"v":"1","payload":2}',
        None, b"", b"null", b"1", b'{"v":1', b'{"v":1} 2', b'{"v":1}\xff',
        b'{"schema":1,"payload":7}', b'{"schema":1,"payload":null}',
    )  # fmt: skip
    both, one = {"v": 1, "payload": 2}, {"v": 1, "payload": None}
    other, unfit = {"v": 1, "payload": 3}, {"v": None, "payload": 2}
    assert found == [both, one, one, one, other, unfit, *[None] * 9]


@pytest.mark.parametrize(
    ("alone", "expected"),
    [("text", ["a", "a", None, None, "o", None]), ("any", ["a", "a", "1.50", "true", "o", None])],
)
def test_a_key_may_be_its_only_column(spark: Session, alone: str, expected: list[Any]) -> None:
    given = (b'"a"', b'{"schema":{},"payload": "a"}', b"1.50", b"true", b'{"v":"o"}', b"[1]")
    found = keys(spark, of_one(StringType(), **{ALONE: alone}), *given)
    assert [each and each["v"] for each in found] == expected
    assert keys(spark, of_one(StringType()), *given)[:4] == [None] * 4


def test_names_that_are_known_expected_or_former_are_told_apart(spark: Session) -> None:
    row = compared(
        [StructField(name, LongType()) for name in ("a", "b", "was_b")],
        known=["k"], expected=["a", "b", "c"], once={"was_b": "b", "was_c": "c"},
    )  # fmt: skip
    texts = ('{"a":1,"b":2,"was_b":3,"k":4}', '{"a":1,"b":2,"k":4}', '{"a":1,"was_b":2,"c":3}',
             '{"was_c":1,"k":2}', '{"a":1,"c":2,"x":3}', '{"a":1,"b":2,"was_b":3}')  # fmt: skip
    found = read(spark, row, *map(str.encode, texts))
    told = [each["payload"]["__unlike"] for each in found]
    names = [each and (each["unknown"], each["missing"], each["absent"]) for each in told]
    assert names == [
        None,
        (None, ["was_b"], ["c"]),
        (["c"], ["b"], None),
        (["was_c"], ["a", "b", "was_b"], ["a", "b"]),
        (["c", "x"], ["b", "was_b"], ["b"]),
        None,
    ]


def test_a_payload_is_read_out_of_what_is_around_it(spark: Session) -> None:
    documents = (b'{"schema":{"payload":3},"payload":{"v":1},"x":2}', b'{"payload":null}',
                 b'{"schema":null}', b"null", b'{"v":1}')  # fmt: skip
    found = read(spark, of_one(LongType()), *documents, wrapped=True)
    assert found == [
        {"payload": {"v": 1}, "unreadable": None},
        {"payload": None, "unreadable": None},
        *([{"payload": None, "unreadable": NO_OBJECT}] * 3),
    ]


@pytest.mark.parametrize(
    ("type_", "texts", "expected"),
    [
        pytest.param(BooleanType(), ("true", "false", "null", "0", '"true"'),
                     [True, False, None, NO_OBJECT, NO_OBJECT], id="boolean"),
        pytest.param(IntegerType(), ("-2147483648", "2147483647", "2147483648", '"1"', "1e3"),
                     [-2147483648, 2147483647, *[NO_OBJECT] * 3], id="int"),
        pytest.param(LongType(), ("-9223372036854775808", "9223372036854775807", "true"),
                     [-(2**63), 2**63 - 1, NO_OBJECT], id="long"),
        pytest.param(DoubleType(), ("1", "0.1", "1e308", '"NaN"', '"-Infinity"', "1e309", '"1"'),
                     [1.0, 0.1, 1e308, "nan", float("-inf"), NO_OBJECT, NO_OBJECT], id="double"),
        pytest.param(FloatType(), ("0.5", "1e39", '"Infinity"'),
                     [0.5, NO_OBJECT, float("inf")], id="float"),
        pytest.param(StringType(), ('"a\\n\\u00e4"', "1.10", "-0", "1E5", "true",
                                    '{"b" : 1.0, "a":[]}'),
                     ["a\nä", "1.10", "-0", "1E5", "true", '{"b":1.0,"a":[]}'], id="string"),
        pytest.param(BinaryType(), ('"AQI="', '""', '"AQI"', '"A-I="', '"A-+="', "1"),
                     [b"\x01\x02", b"", NO_OBJECT, b"\x03\xe2", *[NO_OBJECT] * 2], id="binary"),
        pytest.param(ArrayType(IntegerType()), ("[]", "[1,null]", "[1.5]", "1", "null"),
                     [[], [1, None], NO_OBJECT, NO_OBJECT, None], id="array"),
    ],
)  # fmt: skip
def test_a_value(
    spark: Session, type_: DataType, texts: tuple[str, ...], expected: list[Any]
) -> None:
    found = values(spark, type_, *texts)
    assert ["nan" if each != each else each for each in found] == expected  # noqa: PLR0124


def test_objects_in_texts_are_sorted_where_that_is_asked_for(spark: Session) -> None:
    texts = ('{"b":1.50,"a":{"d":null,"c":[1]}}', '"{ }"', "1.50", '{"a":1,"a":2}')
    found = values(spark, StringType(), *texts, **SORTED)
    assert found == ['{"a":{"c":[1],"d":null},"b":1.5}', "{ }", "1.50", NOT_KEPT]


def test_json_that_a_variant_cannot_hold_is_another_fault_than_a_wrong_type(
    spark: Session,
) -> None:
    kind = StructType([StructField("v", VariantType()), StructField("w", LongType())])
    documents = (b'{"v":{"a":1,"a":2},"w":1}', b'{"v":{"a":1,"a":2},"w":"x"}', b'{"v":[1],"w":1}')
    found = read(spark, kind, *documents)
    assert [each["unreadable"] for each in found] == [NOT_KEPT, NO_OBJECT, None]
    assert [each["payload"]["w"] for each in found] == [1, None, 1]


def test_an_object_is_compared_with_the_wanted_fields(spark: Session) -> None:
    row = compared([StructField("a", LongType()), StructField("b c", LongType())])
    kind = StructType([StructField("row", row)])
    rows = ('{"b c":2,"a":1}', '{"a":null,"b c":1}', '{"a":1}', '{"a":1,"b c":2,"z":3,"y":4}',
            '{"a":1,"b c":2,"a":3}', '{"z":1,"z":2}', "null", "[]")  # fmt: skip
    found = read(spark, kind, *(f'{{"row":{each}}}'.encode() for each in rows))
    told = [(each["payload"]["row"] or {}).get("__unlike") for each in found]
    assert told == [
        None,
        None,
        {"unknown": None, "missing": ["b c"], "absent": None, "twice": False},
        {"unknown": ["z", "y"], "missing": None, "absent": None, "twice": False},
        {"unknown": None, "missing": None, "absent": None, "twice": True},
        {"unknown": ["z"], "missing": ["a", "b c"], "absent": None, "twice": True},
        None,
        None,
    ]


def test_names_may_hold_whatever_a_column_may_be_called(spark: Session) -> None:
    names = ("`", "``", '"', "\\", "a.b", "ü", "日本", " ", "'", "x" * 500)
    kind = StructType([StructField(name, LongType()) for name in names])
    wanted = {name: at for at, name in enumerate(names)}
    (found,) = read(spark, kind, json.dumps(wanted).encode())
    assert found == {"payload": wanted, "unreadable": None}


def test_hostile_documents_take_linear_time(spark: Session) -> None:
    """So many characters in a text, as a record, as a name, and cut off."""
    for filler in FILLERS:
        many = (filler * (SIZE // len(filler) + 1))[:SIZE]
        text = json.dumps(many, ensure_ascii=False)
        documents = (f'{{"v":{text}}}', many, f"{{{text}:1}}", f'{{"v":{text}', '{"v":"' + many)
        began = time.monotonic()
        found = read(spark, of_one(StringType()), *(each.encode() for each in documents))
        assert time.monotonic() - began < 10, repr(filler)
        assert found[0] == {"payload": {"v": many}, "unreadable": None}, repr(filler)


def test_hostile_keys_take_linear_time(spark: Session) -> None:
    """So many characters as a key, in one, and around one, behind what looks like a schema."""
    kind = of_one(StringType(), **{ALONE: "any"})
    assert keys(spark, kind, b"1"), "what a first statement takes is not measured"
    for filler in FILLERS:
        many = (filler * (SIZE // len(filler) + 1))[:SIZE]
        text = json.dumps(many, ensure_ascii=False)
        given = (text, many, f'{{"v":{text}}}', f'{{"schema":{{{text}', '{"schema":{' + many,
                 f'{{"schema":{{}},{text}:1,"payload":{text}}}')  # fmt: skip
        frame = spark().createDataFrame([*enumerate(map(str.encode, given))], "at int, key binary")
        told = read_key(F.col("key"), kind).getField("v").alias("v")
        began = time.monotonic()
        rows = frame.select("at", told, of_json().alias("schema")).orderBy("at").collect()
        assert time.monotonic() - began < 10, repr(filler)
        assert {rows[at]["v"] for at in (0, 2, 5)} == {many}, repr(filler)
        assert {rows[at]["v"] for at in (3, 4)} == {None}, repr(filler)
