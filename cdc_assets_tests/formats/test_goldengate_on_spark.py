"""GoldenGate's operations on Spark, without Kafka and a lake."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdc_assets_tests.formats.decoding import Bytes, decoded, table_of
from cdc_assets_tests.formats.messages import format_named, ogg
from cdc_assets_tests.pipeline import Session

pytestmark = pytest.mark.spark

OGG = format_named("ogg-json")
NAME = "public.t"


def operation(op: str, place: int, **images: Any) -> Bytes:
    return Bytes(None, ogg(op, place, table=NAME, **images).value)


def test_a_configured_key_has_to_be_told_before_an_update(spark: Session) -> None:
    """GoldenGate tells only its own before each update."""
    whole = {"id": 1, "code": "a", "n": 1}
    records = [
        operation("I", 1, after=whole),
        operation("U", 2, before={"id": 1, "code": "a"}, after=whole | {"code": "b"}),
        operation("U", 3, before={"id": 1}, after=whole | {"code": "c"}),
        operation("U", 4, after={"id": 1, "n": 2}),
    ]
    table = table_of(OGG, records, ("code",))
    found = [rows[0] for rows in decoded(spark, OGG, table, records).values()]
    assert [row["reject"] is None for row in found] == [True, True, False, False]
    assert (found[1]["old_key"]["code"], found[1]["key"]["code"]) == ("a", "b")
    assert "without the key before it" in found[2]["reject"]


def test_numbers_keep_their_digits_and_text_is_left_alone(spark: Session) -> None:
    """Numbers are put in quotes to be read: none that stands in a text."""
    text = 'x: 1, "n":2.50,\\"3\\" {-4e5} \\'
    row = json.dumps({"id": 1, "t": text, "u": "", "price": "@"}).replace(
        '"@"', "-1234567890123456.123456789"
    )
    value = (
        f'{{"table":"{NAME}","op_type":"I","pos":"{1:020}","primary_keys":["id"],"after":{row}}}'
    )
    records = [Bytes(None, value.encode())]
    table = table_of(OGG, records, columns={"price": "decimal(38,9)"})
    (found,) = decoded(spark, OGG, table, records)[0]
    assert found["reject"] is None
    assert (found["row"]["t"], found["row"]["u"]) == (text, "")
    assert str(found["row"]["price"]) == "-1234567890123456.123456789"


def test_a_table_of_many_columns_is_read(spark: Session) -> None:
    whole = {"id": 1, **{f"c{i}": i for i in range(600)}}
    records = [operation("I", 1, after=whole), operation("U", 2, after={"id": 1, "c7": None})]
    table = table_of(OGG, records)
    changes = decoded(spark, OGG, table, records)
    (row,) = changes[1]
    assert (row["reject"], row["row"]["c7"]) == (None, None)
    assert [name for name in whole if name != "id" and not row["unset"][name]] == ["c7"]
    assert changes[0][0]["row"]["c599"] == 599
