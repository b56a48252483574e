"""Values that Iceberg has no type for: what is stored gives them back, or they are refused."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from datetime import date
from decimal import Decimal as Number
from typing import Any

import pytest

from cdc_assets.schema import stand_ins
from cdc_assets.schema.stand_ins import StoredAs
from cdc_assets.schema.types import Column
from cdc_assets_tests.formats.test_values import Spark, at, values

pytestmark = pytest.mark.spark

Cases = Sequence[tuple[object, object]]


def column(stored: StoredAs) -> Column:
    return Column("c", stored.type, stored.wire, False, False, stored.element_wire, "", False,
                  stored.detail)  # fmt: skip


def check(spark: Spark, stored: Column, cases: Cases) -> None:
    found = values(spark, stored, [given for given, _ in cases])
    assert found == [expected for _, expected in cases]


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
        ("0000-02-29Z", "refused"),
        ("2020-02-29ZZ", "refused"),
        ("2020-02-29Z\n", "refused"),
    ]
    check(spark, column(stand_ins.ISO_DATE), dates)
    times: Cases = [
        ("00:00:00Z", 0),
        ("23:59:59.999999Z", 86_399_999_999),
        ("10:20Z", "refused"),
        ("10:20:30.5Z", 37_230_500_000),
        ("10:20:30.123456700Z", "refused"),
        ("10:20:30.123456000Z", 37_230_123_456),
        ("10:20:30.Z", "refused"),
        ("10:20:30+01:00", "refused"),
        ("10:20:30Z\n", "refused"),
        ("24:00:00Z", 86_400_000_000),
        ("24:00:00.000000Z", 86_400_000_000),
        ("24:00:01Z", "refused"),
        ("24:00:00.000001Z", "refused"),
        ("99:99:99Z", "refused"),
        ("10:60:00Z", "refused"),
        ("10:20:60Z", "refused"),
        ("-10:20:30Z", "refused"),
        ("100:20:30Z", "refused"),
        ("nonsense", "refused"),
    ]
    check(spark, column(stand_ins.ISO_TIME), times)
    stamps: Cases = [
        ("2020-02-29T10:20:30Z", at("2020-02-29 10:20:30")),
        ("2020-02-29T10:20Z", "refused"),
        ("2020-02-29T10:20:30.000001Z", at("2020-02-29 10:20:30.000001")),
        ("2020-02-29T10:20:30.0000001Z", "refused"),
        ("2020-02-29T10:20:30.123456000Z", at("2020-02-29 10:20:30.123456")),
        ("2020-02-29T24:00:00Z", "refused"),
        ("2020-02-30T10:20:30Z", "refused"),
        ("2020-02-29T10:20:30+01:00", "refused"),
        ("0000-02-29T10:20:30Z", "refused"),
    ]
    check(spark, column(stand_ins.ISO_TIMESTAMP), stamps)
    check(spark, column(stand_ins.NANOS_OF_DAY),
          [(86_399_999_999_000, 86_399_999_999), (1, "refused"), (-1000, -1)])  # fmt: skip
