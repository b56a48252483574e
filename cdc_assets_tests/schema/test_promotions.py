"""Which types hold others, and which values of a catalog's types mean something else."""

from __future__ import annotations

import pytest

from cdc_assets.schema.promotions import converts, fits, reads_otherwise, says_more
from cdc_assets.schema.types import Column, Decimal, ListOf, Primitive, Wire, WireDetail

pytestmark = pytest.mark.unit

P = Primitive
WIDER = {
    (P.INT, P.LONG), (P.FLOAT, P.DOUBLE), (Decimal(5, 2), Decimal(9, 2)),
}  # fmt: skip
TYPES = (*P, Decimal(5, 2), Decimal(9, 2), Decimal(9, 3), ListOf(P.INT), ListOf(P.LONG))


@pytest.mark.parametrize("narrow", TYPES, ids=str)
def test_a_type_fits_where_iceberg_promotes_it(narrow) -> None:
    assert {wide for wide in TYPES if fits(narrow, wide)} == {
        narrow, *(wide for each, wide in WIDER if each == narrow),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arriving", "stored", "does"),
    [
        (P.LONG, P.INT, True), (P.DOUBLE, P.INT, True), (Decimal(9, 3), Decimal(9, 2), True),
        (P.INT, P.STRING, True), (Decimal(9, 3), P.STRING, True), (P.DATE, P.STRING, True),
        (P.BOOLEAN, P.STRING, True), (P.BINARY, P.STRING, False), (ListOf(P.INT), P.STRING, False),
        (P.STRING, P.INT, False), (P.DATE, P.TIMESTAMP, False), (P.BOOLEAN, P.INT, False),
        (P.LONG, P.DATE, False),
    ],
    ids=str,
)  # fmt: skip
def test_some_values_are_values_of_the_stored_type(arriving, stored, does) -> None:
    assert converts(arriving, stored) is does


def of(type_, wire, element=None, **detail) -> Column:
    told = WireDetail(**detail) if detail else None
    return Column("c", type_, wire, element_wire=element, detail=told)


LABELS = of(P.STRING, Wire.ENUM_ORDINAL, labels=("a", "b"))
MILLIS, MICROS = of(P.TIMESTAMP, Wire.EPOCH_MILLIS), of(P.TIMESTAMP, Wire.EPOCH_MICROS)


@pytest.mark.parametrize(
    ("home", "column", "is_other"),
    [
        (of(P.INT, Wire.INT), of(P.LONG, Wire.LONG), False),
        (of(P.FLOAT, Wire.FLOAT), of(P.DOUBLE, Wire.DOUBLE), True),
        (MILLIS, MICROS, True),
        (MILLIS, MILLIS, False),
        (of(P.INT, Wire.INT), of(P.DATE, Wire.EPOCH_DAYS), True),
        (of(P.LONG, Wire.MILLIS_OF_DAY), of(P.LONG, Wire.LONG), True),
        (of(Decimal(9, 2), Wire.DECIMAL_BYTES), of(Decimal(12, 2), Wire.DECIMAL_BYTES), False),
        (of(Decimal(9, 2), Wire.DECIMAL_BYTES), of(Decimal(9, 3), Wire.DECIMAL_BYTES), True),
        (of(Decimal(9, 2), Wire.DECIMAL_BYTES),
         of(P.STRING, Wire.DECIMAL_BYTES, scale=2), False),
        (of(P.STRING, Wire.VARIABLE_SCALE_DECIMAL), of(Decimal(9, 2), Wire.DECIMAL_BYTES), True),
        (of(Decimal(9, 2), Wire.DECIMAL_TEXT), of(Decimal(9, 3), Wire.DECIMAL_TEXT), False),
        (LABELS, of(P.STRING, Wire.ENUM_ORDINAL, labels=("a", "b", "c")), False),
        (LABELS, of(P.STRING, Wire.ENUM_ORDINAL, labels=("b", "a")), True),
        (LABELS, of(P.STRING, Wire.ENUM_ORDINAL, labels=("a",)), True),
        (of(P.BINARY, Wire.BYTES_LATIN1, width=3), of(P.BINARY, Wire.BYTES_LATIN1, width=5), True),
        (of(P.STRING, Wire.BITS, bits=70), of(P.STRING, Wire.BITS, bits=80), True),
        (of(ListOf(P.TIMESTAMP), Wire.LIST, Wire.EPOCH_MILLIS),
         of(ListOf(P.TIMESTAMP), Wire.LIST, Wire.EPOCH_MICROS), True),
        (of(ListOf(P.INT), Wire.LIST, Wire.INT), of(ListOf(P.INT), Wire.LIST, Wire.INT), False),
        (of(ListOf(Decimal(9, 2)), Wire.LIST, Wire.DECIMAL_BYTES),
         of(ListOf(Decimal(9, 3)), Wire.LIST, Wire.DECIMAL_BYTES), True),
    ],
    ids=[
        "int to bigint", "real to double", "timestamp(3) to (6)", "same", "int to date",
        "time(3) to (6)", "more digits", "other scale", "beyond 38 digits", "of any scale to one",
        "scale of a text", "label appended", "labels exchanged", "label gone", "wider binary",
        "more bits", "array of timestamps", "array of numbers", "array of other scale",
    ],
)  # fmt: skip
def test_a_value_may_mean_another_than_before(home, column, is_other) -> None:
    assert reads_otherwise(home, column) is is_other


def test_an_appended_label_is_more_than_was_said() -> None:
    more = of(P.STRING, Wire.ENUM_ORDINAL, labels=("a", "b", "c"))
    assert says_more(LABELS, more)
    assert not says_more(LABELS, LABELS)
    assert not says_more(more, LABELS)
