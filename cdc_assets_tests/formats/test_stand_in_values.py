"""Values that Iceberg has no type for: what is stored gives them back, or they are refused."""

from __future__ import annotations

import random
from base64 import b64encode
from collections.abc import Sequence
from datetime import date
from decimal import Decimal as Number
from typing import Any

import pytest

from cdc_assets.formats.stand_in_values import MOST_BYTES, MOST_SCALE
from cdc_assets.schema import stand_ins
from cdc_assets.schema.stand_ins import StoredAs
from cdc_assets.schema.types import Column, Decimal, ListOf, Primitive, Wire
from cdc_assets_tests.formats.test_values import Spark, at, values

pytestmark = pytest.mark.spark

Cases = Sequence[tuple[object, object]]


def bytes_of(number: int, more: int = 0) -> str:
    """Big-endian two's complement, as short as it can be, or with this many bytes more."""
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return b64encode(number.to_bytes(size + more, "big", signed=True)).decode()


def variable(number: int, scale: int) -> dict[str, object]:
    return {"scale": scale, "value": bytes_of(number)}


def column(stored: StoredAs) -> Column:
    return Column("c", stored.type, stored.wire, False, False, stored.element_wire, "", False,
                  stored.detail)  # fmt: skip


def check(spark: Spark, stored: Column, cases: Cases) -> None:
    found = values(spark, stored, [given for given, _ in cases])
    assert found == [expected for _, expected in cases]


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


def test_bits(spark: Spark) -> None:
    def bits(text: str) -> str:
        size = -(-len(text) // 8)
        return b64encode(int(text, 2).to_bytes(size, "little")).decode()

    long = "1" + "0" * 68 + "101"
    cases: Cases = [
        (bits(long), long),
        ("", "0" * 72),
        ("AQ==", "0" * 71 + "1"),
        (b64encode(b"\xff" * 9).decode(), "1" * 72),
        (b64encode(b"\xff" * 10).decode(), "refused"),
    ]
    check(spark, column(stand_ins.bits(72)), cases)
    check(
        spark,
        column(stand_ins.bits(66)),
        [(b64encode(b"\0" * 8 + b"\x02").decode(), "1" + "0" * 65),
         (b64encode(b"\0" * 8 + b"\x04").decode(), "refused")],
    )  # fmt: skip
    check(spark, column(stand_ins.bits(12)), [("AQg=", 2049)])
    check(spark, column(stand_ins.bits(64)), [("AQAAAAAAAIA=", Number(2**63 + 1))])


def test_structures(spark: Spark) -> None:
    def plain(found: Any) -> Any:
        return found if found is None or found == "refused" else tuple(found)

    points: Cases = [
        ({"x": 1.5, "y": -0.0, "wkb": "AQ==", "srid": None}, (1.5, -0.0, None)),
        ({"x": "NaN", "y": "Infinity", "wkb": "AQ=="}, "nan"),
        ({"x": 1, "y": 2, "srid": 4326}, (1.0, 2.0, 4326)),
        ({"x": 1}, "refused"),
        (None, None),
    ]
    found = [plain(each) for each in values(spark, column(stand_ins.POINT), [g for g, _ in points])]
    assert str(found.pop(1)) == "(nan, inf, None)"
    assert found == [expected for _, expected in points if expected != "nan"]
    shapes: Cases = [
        ({"wkb": "AQID", "srid": 0}, (b"\1\2\3", 0)),
        ({"wkb": "AQID", "srid": None}, (b"\1\2\3", None)),
        ({"srid": 1}, "refused"),
    ]
    found = values(spark, column(stand_ins.GEOMETRY), [given for given, _ in shapes])
    assert [plain(each) for each in found] == [expected for _, expected in shapes]


def test_times_as_text(spark: Spark) -> None:
    dates: Cases = [
        ("2020-02-29Z", date(2020, 2, 29)),
        ("0001-01-01Z", date(1, 1, 1)),
        ("2020-02-30Z", "refused"),
        ("+10000-01-01Z", "refused"),
        ("-0043-03-15Z", "refused"),
        ("2020-02-29+01:00", "refused"),
    ]
    check(spark, column(stand_ins.ISO_DATE), dates)
    times: Cases = [
        ("00:00:00Z", 0),
        ("23:59:59.999999Z", 86_399_999_999),
        ("10:20Z", "refused"),
        ("10:20:30.5Z", 37_230_500_000),
        ("10:20:30.123456700Z", "refused"),
        ("10:20:30.123456000Z", 37_230_123_456),
        ("10:20:30+01:00", "refused"),
        ("nonsense", "refused"),
    ]
    check(spark, column(stand_ins.ISO_TIME), times)
    stamps: Cases = [
        ("2020-02-29T10:20:30Z", at("2020-02-29 10:20:30")),
        ("2020-02-29T10:20Z", "refused"),
        ("2020-02-29T10:20:30.000001Z", at("2020-02-29 10:20:30.000001")),
        ("2020-02-29T10:20:30.0000001Z", "refused"),
        ("2020-02-29T10:20:30+01:00", "refused"),
        ("0000-02-29T10:20:30Z", "refused"),
    ]
    check(spark, column(stand_ins.ISO_TIMESTAMP), stamps)
    check(spark, column(stand_ins.NANOS_OF_DAY),
          [(86_399_999_999_000, 86_399_999_999), (1, "refused"), (-1000, -1)])  # fmt: skip
