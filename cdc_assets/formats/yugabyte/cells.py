"""Converts cells in Python: to the record that Debezium would write without them.

Each column is ``{"value": …, "set": true}``, in the row's images and in the key. A column that the
record does not hold is null, or a cell with ``"set": false``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from cdc_assets.changes.json_text import mapping, read_object
from cdc_assets.formats.sample import JsonObject
from cdc_assets.log.values import RawRecord

_VALUE: Final = "value"
_SET: Final = "set"
_IMAGES: Final = ("before", "after")


def has_cells(event: JsonObject) -> bool | None:
    """Returns whether the columns of an envelope are cells; None if it holds no column."""
    images = (mapping(event.get(name)) for name in _IMAGES)
    held = [column for image in images for column in image.values() if column is not None]
    return all(map(_is_cell, held)) if held else None


def without_cells(record: RawRecord) -> RawRecord:
    """Returns the record with plain columns, and NULL for those that it does not hold.

    A row of a snapshot is also marked in ``source``: YugabyteDB's connector marks it only by
    ``op``. A key or value that is no JSON object, or has no cells, keeps its content.
    """
    return replace(record, key=_changed(record.key, _row), value=_changed(record.value, _event))


def _changed(text: bytes | None, payload: Callable[[JsonObject], JsonObject]) -> bytes | None:
    document: JsonObject = read_object(text)
    if not document:
        return text
    schema = mapping(document.get("schema"))
    if schema and not _is_cell(schema):
        wrapped = mapping(document.get("payload"))
        plain = {"payload": payload(wrapped)} if wrapped else {}
        document = {**document, "schema": _plain_schema(schema), **plain}
    else:
        document = payload(document)
    return json.dumps(document).encode()


def _event(event: JsonObject) -> JsonObject:
    images = {name: _row(row) for name in _IMAGES if (row := mapping(event.get(name)))}
    source = mapping(event.get("source"))
    if event.get("op") == "r" and source.get("snapshot") in (None, False, "false"):
        source = {**source, "snapshot": "true"}
    return {**event, **images, "source": source}


def _row(row: JsonObject) -> JsonObject:
    return {name: _plain(column) for name, column in row.items()}


def _plain(column: Any) -> Any:
    if not _is_cell(column):
        return column
    return column[_VALUE] if column[_SET] is True else None


def _is_cell(column: Any) -> bool:
    return isinstance(column, Mapping) and {_VALUE, _SET} <= column.keys()


# ── schemas ───────────────────────────────────────────────────────────────────────────────


def _plain_schema(schema: JsonObject) -> JsonObject:
    """Returns the schema of an envelope or key, without cells."""
    fields = schema.get("fields")
    if not isinstance(fields, list):
        return schema
    return {**schema, "fields": [_plain_field(each) for each in fields]}


def _plain_field(field: Any) -> Any:
    """Returns the schema of an image of the row, or of a column of the key."""
    if mapping(field).get("field") not in _IMAGES:
        return _plain_column(field)
    columns = field.get("fields")
    if not isinstance(columns, list):
        return field
    return {**field, "fields": [_plain_column(each) for each in columns]}


def _plain_column(field: Any) -> Any:
    """Returns the schema of the column's value, under the column's name."""
    parts = mapping(field).get("fields")
    if not isinstance(parts, list):
        return field
    named = {part.get("field"): part for part in map(mapping, parts)}
    if not {_VALUE, _SET} <= named.keys():
        return field
    return {**named[_VALUE], "field": field.get("field")}
