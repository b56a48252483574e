"""Column types as Iceberg spells them.

https://iceberg.apache.org/spec/#primitive-types
"""

from __future__ import annotations

import re
from typing import Final

from cdc_assets.schema.types import ColumnType, Decimal, ListOf, Primitive

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

IDENTIFYING: Final = frozenset(set(Primitive) - {Primitive.FLOAT, Primitive.DOUBLE})
"""Iceberg takes no floating-point column as an identifier field: NaN and -0.0 have no one
meaning there. https://iceberg.apache.org/spec/#identifier-field-ids"""


def from_iceberg(text: str) -> ColumnType | None:
    """The type of a lake column; None if it is one that this project never writes."""
    if found := _LIST.fullmatch(text):
        element = from_iceberg(found[1])
        return None if element is None or isinstance(element, ListOf) else ListOf(element)
    if found := _DECIMAL.fullmatch(text):
        return Decimal(int(found[1]), int(found[2]))
    return _PRIMITIVES.get(text)


def may_identify(type_: ColumnType) -> bool:
    """Whether a column of this type may be an identifier field."""
    return isinstance(type_, Decimal) or type_ in IDENTIFYING
