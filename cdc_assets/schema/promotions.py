"""Decides whether a type holds the values of another, and whether its encoding means the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from cdc_assets.schema.types import (
    Column,
    ColumnType,
    Decimal,
    ListOf,
    Primitive,
    Wire,
    WireDetail,
)

_WIDER: Final = {
    (Primitive.INT, Primitive.LONG),
    (Primitive.FLOAT, Primitive.DOUBLE),
}
_NUMBERS: Final = frozenset({Primitive.INT, Primitive.LONG, Primitive.FLOAT, Primitive.DOUBLE})
_NO_TEXT: Final = frozenset({Primitive.BINARY, Primitive.STRING})
_OF_CATALOGS: Final = frozenset({
    Wire.EPOCH_DAYS, Wire.EPOCH_MILLIS, Wire.EPOCH_MICROS, Wire.EPOCH_NANOS, Wire.MILLIS_OF_DAY,
    Wire.NANOS_OF_DAY, Wire.DECIMAL_BYTES, Wire.BITS, Wire.ENUM_ORDINAL, Wire.SET_BITS,
    Wire.UNSIGNED_LONG,
})  # fmt: skip
"""Encodings whose values mean nothing without the column's type."""


def fits(narrow: ColumnType, wide: ColumnType) -> bool:
    """Returns whether ``wide`` holds every value of ``narrow``, by a promotion Iceberg allows.

    https://iceberg.apache.org/spec/#schema-evolution
    """
    if narrow == wide or (narrow, wide) in _WIDER:
        return True
    match narrow, wide:
        case Decimal(), Decimal():
            return narrow.scale == wide.scale and narrow.precision <= wide.precision
        case _:
            return False


def converts(arriving: ColumnType, stored: ColumnType) -> bool:
    """Returns whether some values of one type fit another: among numbers, or as text."""
    if stored is Primitive.STRING:
        return isinstance(arriving, Decimal) or (
            isinstance(arriving, Primitive) and arriving not in _NO_TEXT
        )
    return _is_number(arriving) and _is_number(stored)


def _is_number(type_: ColumnType) -> bool:
    return isinstance(type_, Decimal) or type_ in _NUMBERS


def reads_otherwise(home: Column, column: Column) -> bool:
    """Returns whether the same value on the wire would be two different ones in the lake."""
    if isinstance(home.type, ListOf) and isinstance(column.type, ListOf):
        return reads_otherwise(_element(home, home.type), _element(column, column.type))
    if (home.type, column.type) == (Primitive.FLOAT, Primitive.DOUBLE):
        return True  # 3.14 as a float differs from 3.14 as a double
    was, now = home.detail or WireDetail(), column.detail or WireDetail()
    if (was.width, was.bits) != (now.width, now.bits):
        return True
    if not {home.wire, column.wire} & _OF_CATALOGS:
        return False
    if home.wire != column.wire:
        return True
    if home.wire is Wire.DECIMAL_BYTES:
        return home.wire_scale != column.wire_scale
    return now.labels[: len(was.labels)] != was.labels


def says_more(home: Column, column: Column) -> bool:
    """Returns whether an enumeration, or a set, has more labels than before."""
    labels = column.detail.labels if column.detail else ()
    return len(labels) > len(home.detail.labels if home.detail else ())


def _element(column: Column, type_: ListOf) -> Column:
    wire = column.element_wire or column.wire
    return replace(column, type=type_.element, wire=wire, element_wire=None)
