"""The value of older rows in a new column: the exact one, or none at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.schema.existing import UNKNOWN_VALUE, implied, of_text, promoted
from cdc_assets.schema.types import (
    Column,
    Decimal,
    Existing,
    ListOf,
    Primitive,
    StructOf,
    Wire,
    WireDetail,
)
from cdc_assets_tests.toy.profiles import examples

MASK = WireDetail(mask=True)
PRICE = Decimal(10, 2)
HUGE = "9" * 400


def column(type_, wire=Wire.STRING, detail=None) -> Column:
    return Column("c", type_, wire, detail=detail)


def named(each: object) -> str:
    if isinstance(each, Column):
        return f"{each.type} as {each.wire}"
    return ascii(each)[:40] if not isinstance(each, int) else f"{each:#x}"[:20]


INT, LONG = column(Primitive.INT, Wire.INT), column(Primitive.LONG, Wire.LONG)
FLOAT, DOUBLE = column(Primitive.FLOAT, Wire.FLOAT), column(Primitive.DOUBLE, Wire.DOUBLE)
DECIMAL = column(PRICE, Wire.DECIMAL_BYTES)
LONG_DECIMAL = column(Decimal(38, 38), Wire.DECIMAL_BYTES)
DIGITS = column(Primitive.STRING, Wire.DECIMAL_BYTES, WireDetail(scale=2))
BITS = column(Primitive.LONG, Wire.BITS)
MANY_BITS = column(Decimal(20, 0), Wire.BITS)
BOOLEAN = column(Primitive.BOOLEAN, Wire.BOOLEAN)
TEXT = column(Primitive.STRING)
DAY = column(Primitive.DATE, Wire.EPOCH_DAYS)
MOMENT = column(Primitive.TIMESTAMP, Wire.EPOCH_MICROS)
INSTANT = column(Primitive.TIMESTAMPTZ, Wire.ISO_ZONED)
BYTES = column(Primitive.BINARY, Wire.BYTES_BASE64)
MILLIS_OF_DAY = column(Primitive.LONG, Wire.MILLIS_OF_DAY)
MICROS_OF_DAY = column(Primitive.LONG, Wire.EPOCH_MICROS)
LIST = Column("c", ListOf(Primitive.INT), Wire.LIST, element_wire=Wire.INT)
POINT = column(StructOf((("x", Primitive.DOUBLE),)), Wire.POINT)
ALL = (
    INT, LONG, FLOAT, DOUBLE, DECIMAL, LONG_DECIMAL, DIGITS, BITS, MANY_BITS, BOOLEAN, TEXT, DAY,
    MOMENT, INSTANT, BYTES, MILLIS_OF_DAY, MICROS_OF_DAY, LIST, POINT,
    *(column(Primitive.STRING, wire) for wire in Wire),
    *(column(Primitive.LONG, wire) for wire in Wire),
)  # fmt: skip


@pytest.mark.unit
@pytest.mark.parametrize(
    ("of", "text", "found"),
    [
        (INT, "-2147483648", "-2147483648"),
        (LONG, "9223372036854775807", "9223372036854775807"),
        (LONG, "10:00:00.5", "36000500000"),
        (MILLIS_OF_DAY, "23:59:59", "86399000000"),
        (FLOAT, "0.1", "0.1"),
        (FLOAT, "1e-45", "1e-45"),
        (DOUBLE, "-Infinity", "-Infinity"),
        (DOUBLE, "NaN", "NaN"),
        (DOUBLE, "1.7976931348623157e+308", "1.7976931348623157e+308"),
        (DOUBLE, "0e999999", "0e999999"),
        (DECIMAL, "99999999.99", "99999999.99"),
        (DECIMAL, "-1.50000", "-1.50000"),
        (LONG_DECIMAL, "0." + "1" * 38, "0." + "1" * 38),
        (BITS, "00000101", "5"),
        (BITS, "b'101'", "5"),
        (MANY_BITS, "1" * 64, str(2**64 - 1)),
        (BOOLEAN, "t", "true"),
        (BOOLEAN, "0", "false"),
        (TEXT, "", ""),
        (TEXT, "it's \\ \0 \U0001f600", "it's \\ \0 \U0001f600"),
        (DIGITS, "1." + "0" * 60, "1." + "0" * 60),
        (DAY, "2020-02-29", "2020-02-29"),
        (DAY, "0001-01-01", "0001-01-01"),
        (MOMENT, "9999-12-31 23:59:59.999999", "9999-12-31 23:59:59.999999"),
        (INSTANT, "2020-02-29 10:00:00+00", "2020-02-29 10:00:00+00:00"),
        (BYTES, "\\x00ff", "00ff"),
        (BYTES, "\\x", ""),
    ],
    ids=named,
)
def test_a_text_of_the_database_is_the_lakes_value(of, text, found) -> None:
    assert of_text(text, of) == Existing(found)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("of", "text"),
    [
        (INT, "2147483648"), (INT, "-2147483649"), (INT, "1.0"), (INT, "\uff11"), (INT, "1\n"),
        (INT, "0x10"), (INT, "1e3"), (INT, HUGE), (INT, "+1"), (INT, "true"), (INT, ""),
        (LONG, "9223372036854775808"), (LONG, "24:00:00"), (LONG, "-01:00:00"), (LONG, "23:59:60"),
        (MILLIS_OF_DAY, "5"), (MICROS_OF_DAY, "5"), (MILLIS_OF_DAY, "24:00:00"),
        (MILLIS_OF_DAY, "10:00:00.1234567"), (FLOAT, "3.5e38"), (FLOAT, "1e-46"), (FLOAT, "inf"),
        (DOUBLE, "1e400"), (DOUBLE, "1e-400"), (DOUBLE, "nan"), (DOUBLE, "0x1p3"), (DOUBLE, "1_0"),
        (DECIMAL, "100000000"), (DECIMAL, "1.005"), (DECIMAL, "1e2"), (DECIMAL, "NaN"),
        (DECIMAL, HUGE), (LONG_DECIMAL, "1"), (LONG_DECIMAL, "0." + "1" * 39),
        (BITS, "2"), (BITS, ""), (BITS, "1" * 64), (MANY_BITS, "1" * 80),
        (BOOLEAN, "TRUE"), (BOOLEAN, "yes"), (BOOLEAN, "2"), (BOOLEAN, "b'1'"),
        (TEXT, "\ud800"), (column(Primitive.STRING, Wire.BITS), "101"),
        (column(Primitive.STRING, Wire.JSON), "{}"), (column(Primitive.STRING, Wire.LABELS), "a"),
        (DAY, "infinity"), (DAY, "0044-03-15 BC"), (DAY, "10000-01-01"), (DAY, "2021-02-29"),
        (DAY, "0000-00-00"), (DAY, "20200101"), (DAY, "2020-W01-1"), (DAY, "2020-01-01\n"),
        (MOMENT, "-infinity"), (MOMENT, "2020-02-30 10:00:00"), (MOMENT, "2020-01-01 24:00:00"),
        (MOMENT, "2020-01-01 10:00:60"), (MOMENT, "0001-01-01 00:00:00 BC"),
        (MOMENT, "2020-01-01 10:00:00+00"), (MOMENT, "2020-01-01 10:00:00.1234567"),
        (INSTANT, "2020-01-01 10:00:00"), (INSTANT, "2020-01-01 10:00:00+02"),
        (INSTANT, "0001-01-01 00:00:00+00 BC"), (INSTANT, "now()"),
        (BYTES, "\\x0"), (BYTES, "\\xFG"), (BYTES, "00ff"), (BYTES, "\\000"),
        (LIST, "{1,2}"), (POINT, "(1,2)"),
    ],
    ids=named,
)  # fmt: skip
def test_what_is_not_exactly_a_value_of_the_column_is_untold(of, text) -> None:
    assert of_text(text, of) == UNKNOWN_VALUE


@pytest.mark.unit
def test_of_what_is_masked_nothing_is_told() -> None:
    masked = column(Primitive.STRING, detail=MASK)
    assert [of_text("x", masked), implied(masked)] == [UNKNOWN_VALUE] * 2


@pytest.mark.unit
@pytest.mark.parametrize(
    ("of", "found"),
    [(TEXT, ""), (INT, "0"), (DOUBLE, "0"), (DECIMAL, "0"), (DAY, None), (BOOLEAN, None),
     (DIGITS, None), (BYTES, None), (INSTANT, None)],
    ids=named,
)  # fmt: skip
def test_mysql_puts_something_into_a_column_that_may_not_be_null(of, found) -> None:
    assert implied(of) == Existing(found)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "found"),
    [("0.1", "0.10000000149011612"), ("0.5", "0.5"), ("NaN", "NaN"), ("-Infinity", "-Infinity"),
     (None, None)],
)  # fmt: skip
def test_a_float_that_becomes_a_double_is_the_double_that_it_was(text, found) -> None:
    told = promoted(Existing(text, "1"), Primitive.FLOAT, Primitive.DOUBLE)
    assert told == Existing(found, "1")
    assert promoted(Existing(text), Primitive.INT, Primitive.LONG) == Existing(text)
    assert promoted(None, Primitive.FLOAT, Primitive.DOUBLE) is None


TEXTS = st.text(alphabet="0123456789-+.:eE TZxbtfNa\\'", max_size=30) | st.text(max_size=10)


@pytest.mark.property
@examples(500)
@given(of=st.sampled_from(ALL), text=TEXTS)
def test_nothing_that_is_written_raises(of: Column, text: str) -> None:
    found = of_text(text, of)
    assert found.text is None or isinstance(found.text, str)
