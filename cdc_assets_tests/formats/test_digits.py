"""Numbers of any size: their digits are stored, whatever of a record they are in."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from collections.abc import Sequence
from decimal import Decimal as Number

import pytest

from cdc_assets.schema import stand_ins
from cdc_assets.schema.types import Column, Decimal, ListOf, Primitive, Wire
from cdc_assets_tests.formats.debezium import debezium_json
from cdc_assets_tests.formats.decoding import Bytes, decoded, table_of
from cdc_assets_tests.formats.test_stand_in_values import Cases, check, column
from cdc_assets_tests.formats.test_values import Spark

pytestmark = pytest.mark.spark

MOST_BYTES = 1_024
MOST_SCALE = 20_000
"""The limits of ``Numbers.java``."""


def bytes_of(number: int, more: int = 0) -> str:
    """Big-endian two's complement, as short as it can be, or with this many bytes more."""
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return b64encode(number.to_bytes(size + more, "big", signed=True)).decode()


def variable(number: int, scale: int) -> dict[str, object]:
    return {"scale": scale, "value": bytes_of(number)}


def test_numbers_without_precision_are_their_digits(spark: Spark) -> None:
    cases: Cases = [
        (variable(0, 0), "0"),
        (variable(0, 3), "0.000"),
        (variable(0, -3), "0"),
        (variable(1, 3), "0.001"),
        (variable(-1, 3), "-0.001"),
        (variable(1250, 2), "12.50"),
        (variable(-1250, 2), "-12.50"),
        (variable(12, -3), "12000"),
        (variable(-12, -3), "-12000"),
        (variable(-128, 0), "-128"),
        (variable(2**63 - 1, 0), str(2**63 - 1)),
        (variable(-(2**63), 0), str(-(2**63))),
        (variable(2**63, 0), str(2**63)),
        (variable(-(2**63) - 1, 1), "-922337203685477580.9"),
        (variable(10**45, 45), f"1.{'0' * 45}"),
        (variable(7, MOST_SCALE), f"0.{'7'.zfill(MOST_SCALE)}"),
        (variable(7, MOST_SCALE + 1), "refused"),
        (variable(7, -MOST_SCALE - 1), "refused"),
        (variable(7, 2**31 - 1), "refused"),
        ({"scale": 1, "value": ""}, "refused"),
        ({"scale": 1, "value": None}, "refused"),
        ({"scale": None, "value": "AQ=="}, "refused"),
        ({"scale": 0, "value": bytes_of(5, more=30)}, "5"),
        ({"scale": 0, "value": bytes_of(-5, more=30)}, "-5"),
        ({"scale": 0, "value": b64encode(bytes(MOST_BYTES)).decode()}, "0"),
        ({"scale": 0, "value": b64encode(bytes(MOST_BYTES + 1)).decode()}, "refused"),
        (None, None),
    ]
    check(spark, column(stand_ins.UNBOUNDED), cases)


def test_numbers_of_any_size_come_back(spark: Spark) -> None:
    dice = random.Random(11)
    sizes = [1, 7, 8, 9, 10, 11, 12, 16, 17, 18, 19, 100, 1000, MOST_BYTES]
    numbers = [
        sign * (dice.getrandbits(8 * size - 1) | 1 << (8 * size - 2)) + dice.choice((0, 1))
        for size in sizes
        for sign in (1, -1)
    ]
    numbers += [sign * 256**power + near for power in range(1, 20) for sign in (1, -1)
                for near in (-1, 0, 1)]  # fmt: skip
    numbers += [sign * 10**power + near for power in range(1, 60, 3) for sign in (1, -1)
                for near in (-1, 0, 1)]  # fmt: skip
    check(spark, column(stand_ins.UNBOUNDED), [(variable(n, 0), str(n)) for n in numbers])


def test_as_a_decimal_they_have_to_fit(spark: Spark) -> None:
    cases: Cases = [
        (variable(125, 1), Number("12.50")),
        (variable(12500, 3), Number("12.50")),
        (variable(12505, 3), "refused"),
        (variable(12345678, 0), Number("12345678.00")),
        (variable(123456789, 0), "refused"),
        (variable(123, -5), "12300000"),
    ]
    decimal = Column("c", Decimal(10, 2), Wire.VARIABLE_SCALE_DECIMAL)
    expected = [(given, Number(e) if e == "12300000" else e) for given, e in cases]
    check(spark, decimal, expected)


@pytest.mark.parametrize(
    ("scale", "number", "text"),
    [
        (2, 10**40 + 7, f"1{'0' * 37}0.07"),
        (0, -(10**64), f"-1{'0' * 64}"),
        (50, 3, f"0.{'3'.zfill(50)}"),
        (-2, 123, "12300"),
    ],
)
def test_decimals_of_more_digits_than_the_lake_has_are_text(
    spark: Spark, scale: int, number: int, text: str
) -> None:
    stored = stand_ins.decimal(65 if scale >= 0 else 5, scale)
    check(spark, column(stored), [(bytes_of(number), text), ("", "refused"), (None, None)])


@pytest.mark.parametrize(
    ("scale", "number", "text"),
    [
        (2046, 12300 * 10**2046, "12300"),
        (2046, -12300 * 10**2046, "-12300"),
        (2046, 0, "0"),
        (2046, 12300 * 10**2046 + 1, f"12300.{'1'.zfill(2046)}"),
        (1000, 10**1000, f"1.{'0' * 1000}"),
    ],
    ids=["12300", "-12300", "0", "a digit of 2046 places", "a scale above 0"],
)
def test_a_scale_below_0_comes_without_its_sign(
    spark: Spark, scale: int, number: int, text: str
) -> None:
    """Of ``numeric(3,-2)`` the lower 11 bits are sent, and the number with as many zeros."""
    check(spark, column(stand_ins.decimal(3, scale)), [(bytes_of(number), text)])


def test_lists_of_them(spark: Spark) -> None:
    unbounded = column(stand_ins.UNBOUNDED)
    listed = Column(
        "c", ListOf(Primitive.STRING), Wire.LIST, element_wire=Wire.VARIABLE_SCALE_DECIMAL
    )
    assert unbounded.detail is None
    cases: Cases = [
        ([variable(15, 1), None, variable(10**30, 0)], ["1.5", None, str(10**30)]),
        ([], []),
        ([{"scale": 1, "value": ""}], "refused"),
    ]
    check(spark, listed, cases)


# ── whole records ─────────────────────────────────────────────────────────────────────────

JSON = debezium_json()
SOURCE = {"ts_ms": 1_760_000_000_000, "lsn": 7, "sequence": '["6","7"]'}
ANY_SIZE = {
    "type": "struct",
    "name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}],
}
OF_65_DIGITS = {
    "type": "bytes",
    "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": "2", "connect.decimal.precision": "65"},
}
OF_ANY_SIZE = {"type": "array", "items": {**ANY_SIZE, "optional": True}}
COLUMNS = {"n": ANY_SIZE, "m": ANY_SIZE, "d": OF_65_DIGITS, "a": OF_ANY_SIZE}


def struct(columns: dict[str, dict[str, object]], name: str) -> dict[str, object]:
    fields = [{**kind, "field": each, "optional": each != "n"} for each, kind in columns.items()]
    return {"type": "struct", "fields": fields, "field": name, "optional": True}


def event(columns: dict[str, dict[str, object]], op: str, before: object, after: object) -> bytes:
    images = [struct(columns, name) for name in ("before", "after")]
    beside = [
        {"field": "source", "type": "struct", "fields": []},
        {"field": "op", "type": "string"},
    ]
    schema = {"type": "struct", "fields": [*images, *beside]}
    payload = {"before": before, "after": after, "source": SOURCE, "op": op}
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


def row(number: int, *, bad: bool = False) -> dict[str, object]:
    return {
        "n": variable(number, 0),
        "m": {"scale": 1, "value": ""} if bad else variable(number, 1),
        "d": bytes_of(number),
        "a": [variable(number, -1), None],
    }


def stored(number: int) -> tuple[object, ...]:
    quotient, rest = divmod(number, 10)
    cents = f"{number // 100}.{number % 100:02}"
    return (str(number), f"{quotient}.{rest}", cents, [f"{number}0", None])


LARGE = 10**40 + 25
CHANGES: Sequence[tuple[str, object, object]] = [
    ("c", None, row(LARGE)),
    ("u", row(LARGE), row(LARGE + 1)),
    ("d", row(LARGE), None),
    ("c", None, row(7, bad=True)),
    ("c", None, {"n": variable(7, 0)}),
]


def test_they_are_found_in_every_image_of_a_record(spark: Spark) -> None:
    key = json.dumps({"n": variable(LARGE, 0)}).encode()
    records = [Bytes(key, event(COLUMNS, *each)) for each in CHANGES]
    found = decoded(spark, JSON, table_of(JSON, records, ("n",)), [*records, Bytes(key, None)])
    changes = [each for (each,) in found.values()]
    assert [each["reject"] for each in changes] == [
        None, None, None, "column 'm': its value does not fit string", None, None
    ]  # fmt: skip
    rows = [each["row"] and tuple(each["row"]) for each in changes]
    assert rows[:3] == [stored(LARGE), stored(LARGE + 1), None]
    assert rows[4] == ("7", None, None, None)
    keys = [each["key"]["n"] for each in (*changes[:3], changes[5])]
    assert keys == [str(LARGE), str(LARGE + 1), str(LARGE), str(LARGE)]
    assert changes[1]["old_key"]["n"] == str(LARGE)


def test_they_are_found_in_the_rows_of_a_table_without_a_key(spark: Spark) -> None:
    records = [Bytes(None, event(COLUMNS, *each)) for each in CHANGES[:4]]
    found = decoded(spark, JSON, table_of(JSON, records), records)
    old = [each["old_row"] and tuple(each["old_row"]) for (each,) in found.values()]
    assert old == [None, stored(LARGE), stored(LARGE), None]
