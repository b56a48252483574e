"""Decodes values that have no type of their own in the lake: see `cdc_assets.schema.stand_ins`.

As in `cdc_assets.formats.values`, NULL stands for every value that cannot be represented exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats.flat import any_of
from cdc_assets.formats.text_values import from_text
from cdc_assets.schema.types import Column, Primitive, StructOf, Wire

_READ_AS: Final = {
    Wire.ISO_DATE: Wire.DATE_TEXT,
    Wire.ISO_TIME: Wire.TIME_TEXT,
    Wire.ISO_TIMESTAMP: Wire.TIMESTAMP_TEXT,
}
STAND_IN_WIRES: Final = frozenset({Wire.POINT, Wire.GEOMETRY, Wire.NANOS_OF_DAY, *_READ_AS})
_END: Final = r"(\.[0-9]{6})0*Z?\z|Z\z"
"""Zeros beyond microseconds, and the zone."""

_OF_DAY: Final = r"^(?:(?:[01][0-9]|2[0-3]):|24:00:00(?:\.0+)?\z)"
"""PostgreSQL's time of day also allows 24:00:00."""


def from_stand_in(value: Expression, column: Column) -> Expression | None:
    """Returns the lake's value; None if this encoding cannot be decoded to this type."""
    match column.wire, column.type:
        case (Wire.POINT, StructOf()) | (Wire.GEOMETRY, StructOf()):
            return _structure(value, column.type)
        case Wire.NANOS_OF_DAY, Primitive.LONG:
            whole = F.pmod(value, F.lit(1000)) == 0
            return F.when(whole, F.call_function("div", value, F.lit(1000)))
        case wire, _ if wire in _READ_AS:
            return _from_iso(value, column)
        case _:
            return None


def _structure(value: Expression, type_: StructOf) -> Expression:
    """Returns the struct; NULL if a field other than the spatial reference is missing."""
    fields = {name: value.getField(name) for name, _ in type_.fields}
    lacks = any_of(field.isNull() for name, field in fields.items() if name != "srid")
    return F.when(~lacks, F.struct(*(field.alias(name) for name, field in fields.items())))


def _from_iso(value: Expression, column: Column) -> Expression | None:
    """Decodes a date, a time of day, or both joined by ``T``; UTC stands for no zone here."""
    plain = F.regexp_replace(value, _END, "$1")
    if column.wire is Wire.ISO_TIME:
        plain = F.when(plain.rlike(_OF_DAY), plain)
    if column.wire is Wire.ISO_TIMESTAMP:
        plain = F.regexp_replace(plain, "^([0-9-]{10})T", "$1 ")
    return from_text(plain, replace(column, wire=_READ_AS[column.wire]))
