"""The "unchanged" placeholder of Debezium, and the columns that may hold it."""

from __future__ import annotations

import json
from collections.abc import Iterable

from cdc_assets.schema.types import Column, TableSchema


def omittable(target: TableSchema, others: Iterable[TableSchema] = ()) -> tuple[str, ...]:
    """Returns the target's columns that updates may leave out, according to any of the schemas."""
    marked = {c.name for schema in (target, *others) for c in schema.columns if may_be_unset(c)}
    return tuple(name for name in target.names if name in marked)


def may_be_unset(column: Column) -> bool:
    """Returns whether the source may leave the column out of an update."""
    return column.unchanged_marker


def map_text(placeholder: str) -> str:
    """Returns the connector's text for an unchanged map, without spaces."""
    return json.dumps({placeholder: placeholder}, separators=(",", ":"))
