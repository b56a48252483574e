"""The "unchanged" placeholder of Debezium: the columns that may hold it, and its forms."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, NumericType, StringType

from cdc_assets.formats.scalar_values import json_text
from cdc_assets.formats.values import wire_type
from cdc_assets.schema.types import Column, TableSchema, Wire


def unset_able(target: TableSchema, others: Iterable[TableSchema] = ()) -> tuple[str, ...]:
    """Returns the target's columns that updates may leave out, according to any of the schemas."""
    marked = {c.name for schema in (target, *others) for c in schema.columns if may_be_unset(c)}
    return tuple(name for name in target.names if name in marked)


def may_be_unset(column: Column) -> bool:
    """Returns whether the source may leave the column out of an update."""
    return column.unchanged_marker


def is_placeholder(value: Expression, column: Column, placeholder: str) -> Expression:
    """Returns whether a wire value is the placeholder: a whole value, in the column's own form.

    https://debezium.io/documentation/reference/stable/connectors/postgresql.html
    (``unavailable.value.placeholder``). As observed: bytes hold its UTF-8 bytes; text arrays
    hold it as their only element, uuid arrays a hash of it, arrays of numbers its bytes, and
    ``hstore`` (a map, or JSON text) maps it to itself. Structures have none.
    """
    if column.wire is Wire.LIST:
        return _is_list_placeholder(value, column, placeholder)
    if column.wire is Wire.BYTES_BASE64:
        return value == F.encode(F.lit(placeholder), "UTF-8")
    if column.wire is Wire.JSON:
        return json_text(value) == map_text(placeholder)
    if column.wire in {Wire.GEOMETRY, Wire.POINT}:
        return F.lit(False)
    return value.isin(placeholder, map_text(placeholder))


def _is_list_placeholder(value: Expression, column: Column, placeholder: str) -> Expression:
    only = F.when(F.size(value) == 1, F.get(value, F.lit(0)))
    match wire_type(column).elementType:  # type: ignore[attr-defined]
        case StringType():
            return only.isin(placeholder, str(name_uuid(placeholder.encode())))
        case BinaryType():
            return only == F.encode(F.lit(placeholder), "UTF-8")
        case NumericType() as element:
            numbers = (F.lit(byte).cast(element) for byte in placeholder.encode())
            return value == F.array(*numbers)
        case _:
            return F.lit(False)


def map_text(placeholder: str) -> str:
    """Returns the connector's text for an unchanged map, without spaces."""
    return json.dumps({placeholder: placeholder}, separators=(",", ":"))


def name_uuid(name: bytes) -> uuid.UUID:
    """Returns Java's ``UUID.nameUUIDFromBytes``, for uuid arrays: version 3 without a namespace."""
    return uuid.UUID(bytes=hashlib.md5(name, usedforsecurity=False).digest(), version=3)
