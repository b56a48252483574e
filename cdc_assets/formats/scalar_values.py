"""Decodes values that are typed by JSON alone: text, numbers, arrays, objects.

A scalar is read according to its column's type. As in `cdc_assets.formats.values`, NULL stands for
every value that cannot be represented exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats.instants import is_representable
from cdc_assets.formats.text_values import from_text
from cdc_assets.schema.types import Column, Decimal, Primitive, Wire, WireDetail

SCALAR_WIRES: Final = frozenset({Wire.SCALAR, Wire.LABELS})
_READ_AS: Final = {
    Primitive.INT: Wire.INTEGER_TEXT,
    Primitive.LONG: Wire.INTEGER_TEXT,
    Primitive.FLOAT: Wire.FLOATING_TEXT,
    Primitive.DOUBLE: Wire.FLOATING_TEXT,
    Primitive.BOOLEAN: Wire.BOOLEAN_TEXT,
    Primitive.DATE: Wire.DATE_TEXT,
}
_MOST_DIGITS: Final = 38
_BASE64: Final = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\z"
_LABELS: Final = r"(?s)^\[.*\]\z"
_INSTANT: Final = (
    r"^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
    r"(Z| ?[+-][0-9]{2}:[0-9]{2})\z"
)


def from_scalar(value: Expression, column: Column) -> Expression | None:
    """Returns the lake's value; None if this encoding cannot be decoded to this type."""
    match column.wire, column.type:
        case Wire.JSON, Primitive.STRING:
            return json_text(value)
        case Wire.LABELS, Primitive.STRING:
            labels = F.from_json(value, "array<string>")
            return F.when(value.rlike(_LABELS), F.array_join(labels, ","))
        case Wire.SCALAR, Primitive.STRING:
            return value
        case Wire.SCALAR, Primitive.BINARY:
            return _bytes(value, (column.detail or WireDetail()).width)
        case Wire.SCALAR, Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            return _time(value, column)
        case Wire.SCALAR, Decimal(_, scale):
            return _decimal(value, column, scale)
        case Wire.SCALAR, Primitive() as type_:
            return from_text(value, replace(column, wire=_READ_AS[type_]))
        case _:
            return None


def json_text(value: Expression) -> Expression:
    """Returns a compound value as JSON; NULL for JSON's null, too."""
    return F.nullif(F.to_json(value), F.lit("null"))


def _decimal(value: Expression, column: Column, scale: int) -> Expression:
    """Decodes digits with only zeros beyond the scale; nothing is rounded."""
    return F.when(value.rlike(_number(scale)), value.try_cast(str(column.type)))


def _number(scale: int) -> str:
    """Returns the pattern of a plain number, or of Java's small decimals: ``1.5E-7``, ``0E-10``."""

    def fraction(places: int) -> str:
        return rf"(?:\.[0-9]{{1,{places}}}+0*+)?+" if places else r"(?:\.0*+)?+"

    small = (f"[0-9]{fraction(scale - power)}[eE]-{power}" for power in range(1, scale + 1))
    large = (rf"[0-9]{fraction(scale + power)}[eE]\+?{power}" for power in range(_MOST_DIGITS))
    zero = r"0(?:\.0*+)?+[eE][+-]?[0-9]{1,3}"
    return rf"^-?(?:{'|'.join((f'[0-9]{{1,100}}{fraction(scale)}', zero, *small, *large))})\z"


def _bytes(value: Expression, width: int) -> Expression:
    """Decodes Base64; with a width, padded with zero bytes."""
    found = F.try_to_binary(F.when(value.rlike(_BASE64), value), F.lit("base64"))
    if not width:
        return found
    padded = F.rpad(found, width, F.lit(b"\0"))
    return F.when(F.length(found) <= width, padded)


def _time(value: Expression, column: Column) -> Expression | None:
    """Decodes a time with a blank, ``T`` or colon after the date and zeros beyond microseconds."""
    plain = F.regexp_replace(value, r"^([0-9]{4}-[0-9]{2}-[0-9]{2})[T:]", "$1 ")
    micros = F.regexp_replace(plain, r"(\.[0-9]{6})0+(Z?| ?[+-][0-9:]*)\z", "$1$2")
    local = from_text(micros, replace(column, wire=Wire.TIMESTAMP_TEXT))
    if column.type is Primitive.TIMESTAMP:
        return local
    told = F.when(micros.rlike(_INSTANT), F.replace(micros, F.lit(" +"), F.lit("+")))
    zoned = F.regexp_replace(told, r" -([0-9]{2}:[0-9]{2})\z", "-$1").try_cast("timestamp")
    instant = F.when(is_representable(zoned), zoned)
    return instant if local is None else F.coalesce(instant, local)
