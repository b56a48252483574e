"""Interprets single messages of Maxwell, as Python values.

https://maxwells-daemon.io/dataformat/ and, where it is silent, zendesk/maxwell
(``row/RowMap.toJSON``, ``row/RowIdentity.toKeyJson``, ``schema/ddl``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cdc_assets.changes.json_text import mapping, read_json, string, strings
from cdc_assets.changes.names import TableName
from cdc_assets.formats.sample import JsonObject
from cdc_assets.log.kinds import TopicKind

OPS: Final = {"insert": "c", "update": "u", "delete": "d", "bootstrap-insert": "r"}
"""Messages of rows, and their operations here."""

MARKS: Final = frozenset({"bootstrap-start", "bootstrap-complete"})
DDL: Final = frozenset({
    "database-create", "database-alter", "database-drop",
    "table-create", "table-alter", "table-drop",
})  # fmt: skip
_KEY: Final = "pk."

Message = Mapping[str, Any]


def kind_of(message: Message) -> TopicKind:
    """Classifies a message."""
    if not message:
        return TopicKind.UNREADABLE
    if _type(message) in DDL:
        return TopicKind.SCHEMA_CHANGES
    return TopicKind.CHANGES if _type(message) in OPS else TopicKind.OTHER


def table_of(message: Message, source: str) -> TableName | None:
    """Returns the table whose row it holds; None if it holds none, or does not name it."""
    database, table = string(message.get("database")), string(message.get("table"))
    is_row = database and table and _type(message) in OPS
    return TableName(source, database, table) if is_row else None


def row_of(message: Message) -> JsonObject:
    """Returns the row after inserts and updates, and before deletes; empty without one."""
    return mapping(message.get("data"))


def holds_row(message: Message) -> bool:
    """Returns whether it holds a complete row that exists."""
    is_there = _type(message) in OPS and _type(message) != "delete"
    return is_there and bool(row_of(message))


def is_encrypted(message: Message) -> bool:
    """Returns whether the row, or the whole message, is encrypted (``encrypt``)."""
    return isinstance(message.get("encrypted"), dict)


def keys_of(message: Message, key: bytes | None) -> tuple[str, ...]:
    """Returns the names of the key's columns, from the message or from the record's key.

    The record's key has them in lower case (``RowIdentity``), the row as the table has them.
    """
    if named := strings(message.get("primary_key_columns")):
        return named
    columns = row_of(message)
    names = tuple(_column(name, columns) for name in _lower_names(read_json(key)))
    return tuple(name for name in names if name is not None) if None not in names else ()


def _type(message: Message) -> str:
    return string(message.get("type"))


def _lower_names(key: object) -> tuple[str, ...]:
    """Reads ``{"database": …, "pk.id": 1}`` and ``["database", "table", [{"id": 1}]]``."""
    if isinstance(key, dict):
        return tuple(name[len(_KEY) :] for name in key if name.startswith(_KEY))
    match key:
        case [str(), str(), [*columns]] if all(isinstance(each, dict) for each in columns):
            return tuple(name for each in columns for name in each)
        case _:
            return ()


def _column(lower: str, columns: Sequence[str] | JsonObject) -> str | None:
    found = [name for name in columns if name.lower() == lower]
    return found[0] if len(found) == 1 else None
