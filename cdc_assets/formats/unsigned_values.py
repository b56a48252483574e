"""Decodes unsigned numbers: 64-bit integers that arrive as signed ones, and bit fields."""

from __future__ import annotations

from decimal import Decimal as Number
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.schema.types import Column, Decimal, Primitive, Wire

_BYTES: Final = 8
_WRAPPED: Final = Number(2**64)


def from_unsigned(value: Expression, column: Column) -> Expression | None:
    """Returns the lake's value, NULL if it is too large; None if the type cannot be decoded."""
    match column.wire, column.type:
        case Wire.UNSIGNED_LONG, Primitive.LONG:
            return F.when(value >= 0, value)
        case Wire.UNSIGNED_LONG, Decimal():
            number = value.cast("decimal(20,0)")
            unwrapped = F.when(value < 0, number + F.lit(_WRAPPED)).otherwise(number)
            return unwrapped.try_cast(str(column.type))
        case Wire.BITS, Primitive.LONG | Decimal():
            number, count = _number(value), column.detail.bits if column.detail else 0
            fits = number.try_cast("decimal(20,0)") < F.lit(Number(1 << count))
            return (F.when(fits, number) if count else number).try_cast(str(column.type))
        case Wire.BITS, Primitive.STRING if column.detail and column.detail.bits:
            return _zeros_and_ones(value, column.detail.bits)
        case _:
            return None


def _number(value: Expression) -> Expression:
    """Returns decimal digits of up to 8 little-endian bytes; PostgreSQL sends no bytes for 0."""
    digits = F.rpad(F.hex(value), 2 * _BYTES, "0")
    pairs = (F.substring(digits, 2 * place + 1, 2) for place in reversed(range(_BYTES)))
    return F.when(F.length(value) <= _BYTES, F.conv(F.concat(*pairs), 16, 10))


def _zeros_and_ones(value: Expression, count: int) -> Expression:
    """Returns the bit string, the highest bit first; NULL if the value has more bits."""
    size = -(-count // 8)
    digits = F.rpad(F.hex(value), 2 * size, "0")
    places = F.sequence(F.lit(size - 1), F.lit(0), F.lit(-1))
    octets = F.transform(
        places,
        lambda place: F.lpad(F.conv(F.substring(digits, place * 2 + 1, F.lit(2)), 16, 2), 8, "0"),
    )
    found = F.array_join(octets, "")
    beyond = F.substring(found, 1, 8 * size - count)
    fits = (F.length(value) <= size) & ~beyond.contains("1")
    return F.when(fits, F.right(found, F.lit(count)))
