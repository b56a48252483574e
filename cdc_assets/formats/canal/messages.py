"""Interprets single messages of Canal, as Python values.

https://github.com/alibaba/canal (``FlatMessage``) and, for ``_tidb``,
https://docs.pingcap.com/tidb/stable/ticdc-canal-json
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from cdc_assets.changes.json_text import mapping, natural, string, strings
from cdc_assets.changes.names import TableName
from cdc_assets.databases.mysql.text_types import describe_text_table, is_written_as_bytes
from cdc_assets.databases.mysql.types import MysqlColumn
from cdc_assets.formats.sample import JsonObject
from cdc_assets.log.kinds import TopicKind
from cdc_assets.schema.described import Described

INSERT, UPDATE, DELETE, TRUNCATE = "INSERT", "UPDATE", "DELETE", "TRUNCATE"
WATERMARK: Final = "TIDB_WATERMARK"
MARKS: Final = "TRANSACTION"
"""The type for a packet with only begins and ends of transactions. Canal leaves these out of its
JSON."""

PASSED_OVER: Final = frozenset({WATERMARK, MARKS, "QUERY", "XACOMMIT"})
"""Types of messages that change no rows: marks; the text of a statement whose rows follow
(``binlog_rows_query_log_events``); the end of a prepared transaction whose rows came before."""

ROLLED_BACK: Final = "XAROLLBACK"
ROWS: Final = frozenset({INSERT, UPDATE, DELETE})

Message = Mapping[str, Any]


def kind_of(message: Message) -> TopicKind:
    """Classifies a message."""
    if not message:
        return TopicKind.UNREADABLE
    kind = _type(message)
    if kind == WATERMARK:
        return TopicKind.WATERMARKS
    if kind == MARKS:
        return TopicKind.TRANSACTIONS
    if message.get("isDdl") is True:
        return TopicKind.SCHEMA_CHANGES
    if kind in ROWS and "data" in message:
        return TopicKind.CHANGES
    return TopicKind.OTHER


def table_of(message: Message, source: str) -> TableName | None:
    """Returns the table whose rows it changes; None if it changes none, or does not name it."""
    database, table = string(message.get("database")), string(message.get("table"))
    is_change = database and table and _type(message) in ROWS
    return TableName(source, database, table) if is_change else None


def _type(message: Message) -> str:
    return string(message.get("type"))


def rows_of(message: Message) -> tuple[JsonObject, ...]:
    """Returns the row images after inserts and updates, and before deletes."""
    data = message.get("data")
    return tuple(row for row in data if isinstance(row, dict)) if isinstance(data, list) else ()


def keys_of(message: Message) -> tuple[str, ...]:
    """Returns the names of the key's columns; () for a table without a key."""
    return strings(message.get("pkNames"))


def source_of(message: Message) -> JsonObject:
    """Returns its origin, for `cdc_assets.changes.position.scheme_of`."""
    commit = natural(mapping(message.get("_tidb")).get("commitTs"))
    return {"connector": "canal"} if commit is None else {"connector": "ticdc", "commitTs": commit}


def types_text(message: Message) -> str | None:
    """Returns the text that identifies a message's types; None without any.

    It is ``mysqlType`` as Spark prints it, with the names of the columns that are
    `is_written_as_bytes`.
    """
    types = message.get("mysqlType")
    if not isinstance(types, dict) or not types:
        return None
    codes = _sql_types(message).items()
    as_bytes = [n for n, code in codes if is_written_as_bytes(str(types.get(n, "")), code)]
    return json.dumps(types, separators=(",", ":"), ensure_ascii=False) + ",".join(as_bytes)


def _sql_types(message: Message) -> dict[str, int]:
    """Returns ``sqlType``; {} if it is not of numbers alone."""
    codes = mapping(message.get("sqlType"))
    return dict(codes) if all(type(each) is int for each in codes.values()) else {}


def is_whole(message: Message) -> bool:
    """Returns whether it holds its rows, and not only their keys, as TiCDC's large messages do."""
    extension = mapping(message.get("_tidb"))
    return not (extension.get("onlyHandleKey") or extension.get("claimCheckLocation"))


def described(message: Message, zone: str | None) -> Described | None:
    """Describes the table by the types in a message; None if it has none.

    Args:
        message: of a change.
        zone: of ``timestamp`` values, see `describe_text_table`.
    """
    types = mapping(message.get("mysqlType")) if is_whole(message) else {}
    if not types or not all(isinstance(each, str) for each in types.values()):
        return None
    codes = _sql_types(message)
    columns = (MysqlColumn(n, text, sql_type=codes.get(n)) for n, text in types.items())
    return describe_text_table(columns, keys_of(message), zone=zone)
