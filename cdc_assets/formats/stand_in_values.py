"""Decoding of what the lake has no type of its own for: see `cdc_assets.schema.stand_ins`.

As in `cdc_assets.formats.values`, NULL stands for every value that cannot be represented exactly.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.schema.types import Column, Primitive, StructOf, Wire

STAND_IN_WIRES: Final = frozenset({
    Wire.POINT, Wire.GEOMETRY, Wire.ISO_DATE, Wire.ISO_TIME, Wire.ISO_TIMESTAMP,
    Wire.NANOS_OF_DAY,
})  # fmt: skip
_DATE: Final = r"^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}Z?$"
_TIME: Final = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6})0*)?"


def from_stand_in(value: Expression, column: Column) -> Expression | None:
    """The lake's value; None if nothing decodes this encoding to this type."""
    match column.wire, column.type:
        case (Wire.POINT, StructOf()) | (Wire.GEOMETRY, StructOf()):
            return _structure(value, column.type)
        case Wire.ISO_DATE, Primitive.DATE:
            return F.when(value.rlike(_DATE), F.substring(value, 1, 10).try_cast("date"))
        case Wire.NANOS_OF_DAY, Primitive.LONG:
            whole = F.pmod(value, F.lit(1000)) == 0
            return F.when(whole, F.call_function("div", value, F.lit(1000)))
        case Wire.ISO_TIME, Primitive.LONG:
            return _micros_of_day(value)
        case Wire.ISO_TIMESTAMP, Primitive.TIMESTAMP:
            whole = value.rlike(rf"^(?!0000)[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}T{_TIME}Z$")
            return F.when(whole, value.try_cast("timestamp")).cast("timestamp_ntz")
        case _:
            return None


def _structure(value: Expression, type_: StructOf) -> Expression:
    """All but the reference system has to be there."""
    fields = [(name, value.getField(name)) for name, _ in type_.fields]
    struct = F.struct(*(field.alias(name) for name, field in fields))
    there = [field.isNotNull() for name, field in fields if name != "srid"]
    whole = there[0]
    for each in there[1:]:
        whole = whole & each
    return F.when(whole, struct)


def _micros_of_day(value: Expression) -> Expression:
    shape = rf"^{_TIME}Z?$"

    def part(number: int) -> Expression:
        return F.regexp_extract(value, shape, number)

    hours, minutes, seconds = (part(number).cast("bigint") for number in (1, 2, 3))
    fraction = F.rpad(part(4), 6, "0").cast("bigint")
    micros = (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + fraction
    return F.when(value.rlike(shape), micros)
