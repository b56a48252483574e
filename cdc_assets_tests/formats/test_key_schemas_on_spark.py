"""What raw keys hold beside values: their schema, by which they may lie in another partition."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import Column as Expression

from cdc_assets.formats import key_schemas
from cdc_assets_tests.pipeline import Session

pytestmark = pytest.mark.spark


def numbers(spark: Session, told: Expression, *keys: bytes | None) -> list[int | None]:
    rows = [(n, None if key is None else bytearray(key)) for n, key in enumerate(keys)]
    frame = spark().createDataFrame(rows, "n int, key binary")
    found = frame.select("n", told.alias("told")).orderBy("n").collect()
    return [row["told"] for row in found]


def inline(type_: str, value: object, **more: object) -> bytes:
    field = {"type": type_, "optional": False, "field": "payload", **more}
    schema = {"type": "struct", "fields": [field], "optional": False, "name": "s.t.Key"}
    document = {"schema": schema, "payload": {"payload": value}}
    return json.dumps(document, separators=(",", ":")).encode()


def test_json_is_told_by_the_schema_before_its_payload(spark: Session) -> None:
    """A column of the name ``payload`` hides what follows it, and no value is ever looked at."""
    small, same, wider, bare, scalar, none = numbers(
        spark, key_schemas.of_json(), inline("int16", 1), inline("int16", 2), inline("int32", 1),
        b'{"id":1,"payload":2}', b"7", None,
    )  # fmt: skip
    assert small == same is not None
    assert small != wider
    assert bare is scalar is none is None


@pytest.mark.parametrize(
    ("key", "number"),
    [
        (b'{"schema":{"a":1},"payload":{"id":1}}', -1916890215789977109),
        (b'{"schema": {"a":1}, "payload" : {"id":1}}', 8584677054574007244),
        (b'{"schema":{"f":"payload"},"payload":{"a":5,"payload":7}}', 1376536914992034477),
        (b'{"schema":{"a":1},"payload":"\\"payload\\""}', -1916890215789977109),
        (b'{"schema":{"a":1}', None),
        (b'"payload"{"schema":{', None),
    ],
)
def test_a_schema_keeps_its_number(spark: Session, key: bytes, number: int | None) -> None:
    """Publishes have it: with another one, each table would have had keys of two schemas."""
    assert numbers(spark, key_schemas.of_json(), key) == [number]


def test_avro_is_told_by_the_id_before_its_data(spark: Session) -> None:
    def short(number: int, data: bytes) -> bytes:
        return b"\0" + number.to_bytes(4, "big") + data

    def long(number: int, data: bytes) -> bytes:
        return b"\0" + number.to_bytes(8, "big") + data

    found = numbers(
        spark, key_schemas.of_avro(), short(7, b"\x02"), short(7, b"\x04"), short(8, b"\x02"),
        long(7, b"\x02"), long(7, b"\x04"), long(8, b"\x02"), b"\x02", None,
    )  # fmt: skip
    assert found[0] == found[1]
    assert found[3] == found[4]
    assert len({*found[:6]}) == 4
    assert found[6:] == [None, None]


def test_a_number_is_told_by_its_bytes(spark: Session) -> None:
    assert numbers(spark, key_schemas.of_number(), bytes(4), bytes(8), None) == [4, 8, None]
