"""Finds the table that a change names in its ``source``.

``topic.prefix`` and the table's name make the topic's name only as long as nothing routes records
elsewhere, and with characters replaced that Kafka does not allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cdc_assets.changes.names import TableName

SCHEMAS: Final = ("schema", "keyspace", "db")
"""Fields that hold the table's schema; the first that is not empty does. SQL Server and PostgreSQL
have a database above their schemas, MySQL and MongoDB have one instead."""
TABLES: Final = ("table", "collection")
FIELDS: Final = (*SCHEMAS, *TABLES)


def named_in(origin: Mapping[str, Any], source: str) -> TableName | None:
    """Returns the table that an event's ``source`` names; None if it names none.

    Args:
        origin: the event's ``source``.
        source: the configured source's name.
    """
    schema, table = _first(origin, SCHEMAS), _first(origin, TABLES)
    return TableName(source, schema, table) if schema and table else None


def _first(origin: Mapping[str, Any], names: tuple[str, ...]) -> str:
    found = (origin.get(name) for name in names)
    return next((each for each in found if isinstance(each, str) and each), "")
