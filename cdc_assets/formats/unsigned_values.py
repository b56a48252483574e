"""Decoding of numbers without a sign: 64-bit integers that arrive with one, and bit fields."""

from __future__ import annotations

from decimal import Decimal as Number
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.schema.types import Column, Decimal, Primitive, Wire

_BYTES: Final = 8
_WRAPPED: Final = Number(2**64)


def from_unsigned(value: Expression, column: Column) -> Expression | None:
    """The lake's value, NULL if it is too large; None if nothing decodes it to this type."""
    match column.wire, column.type:
        case Wire.UNSIGNED_LONG, Primitive.LONG:
            return F.when(value >= 0, value)
        case Wire.UNSIGNED_LONG, Decimal():
            number = value.cast("decimal(20,0)")
            unwrapped = F.when(value < 0, number + F.lit(_WRAPPED)).otherwise(number)
            return unwrapped.try_cast(str(column.type))
        case Wire.BITS, Primitive.LONG | Decimal():
            return _number(value).try_cast(str(column.type))
        case _:
            return None


def _number(value: Expression) -> Expression:
    """Decimal digits of up to 8 little-endian bytes; PostgreSQL's connector writes none for 0."""
    digits = F.rpad(F.hex(value), 2 * _BYTES, "0")
    pairs = (F.substring(digits, 2 * place + 1, 2) for place in reversed(range(_BYTES)))
    return F.when(F.length(value) <= _BYTES, F.conv(F.concat(*pairs), 16, 10))
