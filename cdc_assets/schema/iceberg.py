"""Maps column types to and from Iceberg's spelling.

https://iceberg.apache.org/spec/#primitive-types
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cdc_assets.schema.types import ColumnType, Decimal, ListOf, Primitive, StructOf

_PRIMITIVES: Final = {
    "boolean": Primitive.BOOLEAN,
    "int": Primitive.INT,
    "long": Primitive.LONG,
    "float": Primitive.FLOAT,
    "double": Primitive.DOUBLE,
    "string": Primitive.STRING,
    "binary": Primitive.BINARY,
    "date": Primitive.DATE,
    "timestamp": Primitive.TIMESTAMP,
    "timestamptz": Primitive.TIMESTAMPTZ,
}
_DECIMAL: Final = re.compile(r"decimal\((\d+), ?(\d+)\)")
_LIST: Final = re.compile(r"list<(.+)>")
_STRUCT: Final = re.compile(r"struct<(.+)>")
_FIELD: Final = re.compile(r"\d+: (\w+): optional (\w+)")

IDENTIFYING: Final = frozenset(set(Primitive) - {Primitive.FLOAT, Primitive.DOUBLE})
"""Iceberg accepts no floating-point column as an identifier field: the meaning of NaN and -0.0 is
not unique there. https://iceberg.apache.org/spec/#identifier-field-ids"""


def from_iceberg(text: str) -> ColumnType | None:
    """Returns the type of a lake column; None if this project never writes such a type."""
    if found := _LIST.fullmatch(text):
        element = from_iceberg(found[1])
        return ListOf(element) if isinstance(element, Primitive | Decimal) else None
    if found := _STRUCT.fullmatch(text):
        return _struct(found[1].split(", "))
    if found := _DECIMAL.fullmatch(text):
        return Decimal(int(found[1]), int(found[2]))
    return _PRIMITIVES.get(text)


def _struct(texts: Sequence[str]) -> StructOf | None:
    fields: list[tuple[str, Primitive]] = []
    for each in texts:
        field = _FIELD.fullmatch(each)
        if field is None or field[2] not in _PRIMITIVES:
            return None
        fields.append((field[1], _PRIMITIVES[field[2]]))
    return StructOf(tuple(fields))


def may_identify(type_: ColumnType) -> bool:
    """Returns whether a column of this type may be an identifier field."""
    return isinstance(type_, Decimal) or type_ in IDENTIFYING
