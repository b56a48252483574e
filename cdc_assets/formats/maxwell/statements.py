"""Reads statements in Maxwell's messages: one table each, with its columns before and after.

A statement on several tables comes as several messages of the same text; the text's effect on other
tables is left to their messages. https://maxwells-daemon.io/dataformat/ (``output_ddl``) and
zendesk/maxwell (``schema/ddl/Resolved*``).
"""

from __future__ import annotations

from cdc_assets.changes.json_text import mapping
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.changes.position import Scheme
from cdc_assets.formats.ddl import read_statement
from cdc_assets.formats.maxwell.messages import DDL, Message
from cdc_assets.formats.times import time_of_millis
from cdc_assets.schema.ddl import Ddl, Relation, Statement, TableChange, TableChangeKind

_BY_TYPE = {
    "table-create": TableChangeKind.CREATED,
    "table-drop": TableChangeKind.DROPPED,
    "database-drop": TableChangeKind.DROPPED,
}
"""Effects that are known without the text."""


def statement_of(message: Message, coordinate: Coordinate, scheme: Scheme) -> Ddl | None:
    """Returns the statement of a message; None for another message.

    Args:
        message: of a record.
        coordinate: the record's.
        scheme: of the table's positions.
    """
    if str(message.get("type")) not in DDL:
        return None
    text, position = message.get("sql"), message.get("position")
    after = _columns(message.get("def"))
    return Ddl(
        text=text if isinstance(text, str) else "",
        statement=_statement(message),
        position=position if isinstance(position, str) else "",
        at=time_of_millis(message.get("ts")),
        coordinate=coordinate,
        tells_tables=True,
        after={} if after is None else {_named_now(message): after},
        place=(coordinate.offset, 0) if scheme is Scheme.OFFSET else None,
    )


def _statement(message: Message) -> Statement:
    table, text, now = _table(message), message.get("sql"), _named_now(message)
    if table is None:
        return Statement((), frozenset())
    found = read_statement(text if isinstance(text, str) else "", "mysql", table.schema)
    words = found.words | {table.name.casefold(), now.name.casefold()} - {""}
    if kind := _BY_TYPE.get(str(message.get("type"))):
        conditional = any(each.is_conditional for each in found.changes)
        return Statement((TableChange(kind, table, is_conditional=conditional),), words)
    mine = tuple(each for each in found.changes if each.table.includes(table))
    is_altered = message.get("type") == "table-alter"
    return Statement(mine, words, is_read=bool(mine) or not is_altered)


def _table(message: Message) -> Relation | None:
    """Returns the table by its former name; for a database, all its tables."""
    database, table = message.get("database"), message.get("table")
    if not isinstance(database, str) or not database:
        return None
    if str(message.get("type")).startswith("database-"):
        return Relation(database, "")
    return Relation(database, table) if isinstance(table, str) and table else None


def _named_now(message: Message) -> Relation:
    table, now = _table(message) or Relation("", ""), mapping(message.get("def"))
    database, name = now.get("database"), now.get("table")
    return Relation(
        database if isinstance(database, str) else table.schema,
        name if isinstance(name, str) else table.name,
    )


def _columns(definition: object) -> tuple[str, ...] | None:
    columns = mapping(definition).get("columns")
    if not isinstance(columns, list):
        return None
    names = [mapping(each).get("name") for each in columns]
    return tuple(map(str, names)) if all(isinstance(each, str) for each in names) else None
