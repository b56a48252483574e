"""Defines the types that the lake stores where Iceberg lacks the source's type.

They are text, a number or a struct that preserves the source's value, the same whether a record's
schema or a database's catalog describes the column. Comments of columns are for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cdc_assets.schema.types import (
    MAX_DECIMAL_DIGITS,
    MICROS_OF_DAY,
    ColumnType,
    Decimal,
    Primitive,
    StructOf,
    Wire,
    WireDetail,
)

UNSIGNED_LONG: Final = Decimal(20, 0)
"""Holds 0 to 2^64-1."""

_LONG_BITS: Final = 63


@dataclass(frozen=True, slots=True)
class StoredAs:
    """A stored type, and the encoding in which it arrives."""

    type: ColumnType
    wire: Wire
    element_wire: Wire | None = None
    comment: str = ""
    detail: WireDetail | None = None


UNBOUNDED: Final = StoredAs(
    Primitive.STRING, Wire.VARIABLE_SCALE_DECIMAL, comment="a number, with all of its digits"
)
"""A decimal without precision."""

AS_TEXT: Final = StoredAs(
    Primitive.STRING, Wire.STRING, comment=UNBOUNDED.comment, detail=WireDetail(number=True)
)
"""The same with the connector's ``decimal.handling.mode=string``."""

DURATION: Final = StoredAs(
    Primitive.LONG,
    Wire.LONG,
    comment="microseconds, a month as 30.4375 days: as the connector writes intervals",
)
MILLIS_OF_DAY: Final = StoredAs(Primitive.LONG, Wire.MILLIS_OF_DAY, comment=MICROS_OF_DAY)
MICRO_TIME: Final = StoredAs(Primitive.LONG, Wire.LONG, comment=MICROS_OF_DAY)
NANOS_OF_DAY: Final = StoredAs(Primitive.LONG, Wire.NANOS_OF_DAY, comment=MICROS_OF_DAY)
INTERVAL: Final = StoredAs(Primitive.STRING, Wire.STRING, comment="an interval, as in ISO 8601")
ZONED_TIME: Final = StoredAs(
    Primitive.STRING, Wire.STRING, comment="a time of day in UTC: the zone that it had is not sent"
)
ISO_DATE: Final = StoredAs(Primitive.DATE, Wire.ISO_DATE)
ISO_TIME: Final = StoredAs(Primitive.LONG, Wire.ISO_TIME, comment=MICROS_OF_DAY)
ISO_TIMESTAMP: Final = StoredAs(Primitive.TIMESTAMP, Wire.ISO_TIMESTAMP)
POINT: Final = StoredAs(
    StructOf((("x", Primitive.DOUBLE), ("y", Primitive.DOUBLE), ("srid", Primitive.INT))),
    Wire.POINT,
)
GEOMETRY: Final = StoredAs(
    StructOf((("wkb", Primitive.BINARY), ("srid", Primitive.INT))),
    Wire.GEOMETRY,
    comment="well-known binary, and the number of its reference system",
)
DOCUMENT: Final = StoredAs(Primitive.STRING, Wire.JSON, comment="JSON")
"""Lists of lists, maps, and structures of no other meaning."""


def decimal(precision: int | None, scale: int) -> StoredAs:
    """Returns the type for a decimal that arrives as bytes.

    Args:
        precision: None if unknown; values of more than 38 digits are then refused.
        scale: digits after the point.
    """
    digits = MAX_DECIMAL_DIGITS if precision is None else max(precision, scale)
    if 0 < digits <= MAX_DECIMAL_DIGITS and 0 <= scale <= digits:
        return StoredAs(Decimal(digits, scale), Wire.DECIMAL_BYTES)
    return StoredAs(
        Primitive.STRING,
        Wire.DECIMAL_BYTES,
        comment=UNBOUNDED.comment,
        detail=WireDetail(scale=scale),
    )


def bits(count: int) -> StoredAs:
    """Returns the type for a bit string: a number, or beyond 64 bits its zeros and ones."""
    if count <= _LONG_BITS:
        return StoredAs(Primitive.LONG, Wire.BITS, comment=f"the number that {count} bits are")
    if count == _LONG_BITS + 1:
        return StoredAs(UNSIGNED_LONG, Wire.BITS, comment=f"the number that {count} bits are")
    return StoredAs(
        Primitive.STRING, Wire.BITS, comment="zeros and ones", detail=WireDetail(bits=count)
    )
