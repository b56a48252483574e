"""Converts Canal's packets in Python: a few records, to the flat messages that Canal would write.

The rules for entries: ``MQMessageUtils.messageConverter`` in https://github.com/alibaba/canal. All
records are read on Spark, by the same rules and some more (``jvm/src``), which refuse anything odd
about these few.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from google.protobuf.message import DecodeError

from cdc_assets.databases.mysql.text_types import BLOB
from cdc_assets.formats.canal.definitions import Entry, Messages, Packet, RowChange
from cdc_assets.formats.canal.messages import DELETE, INSERT, MARKS, UPDATE, Message

_MESSAGES: Final = 7
_PLAIN: Final = frozenset({0, 1})
_ROWDATA: Final = 2
_ENTRY_TYPES: Final = range(1, 6)
_EVENTS: Final = (
    "", INSERT, UPDATE, DELETE, "CREATE", "ALTER", "ERASE", "QUERY", "TRUNCATE", "RENAME", "CINDEX",
    "DINDEX", "GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT",
)  # fmt: skip


def messages_of(value: bytes) -> tuple[Message, ...] | None:
    """Returns the messages of a packet, at least one; None if it is no packet, or unreadable."""
    try:
        packet = Packet.FromString(value)
        if packet.type != _MESSAGES or packet.compression not in _PLAIN:
            return None
        entries = [Entry.FromString(each) for each in Messages.FromString(packet.body).messages]
        if any(entry.entryType not in _ENTRY_TYPES for entry in entries):
            return None
        found = tuple(_message(entry) for entry in entries if entry.entryType == _ROWDATA)
    except DecodeError:
        return None
    return found or ({"type": MARKS},)


def _message(entry: Any) -> Message:
    change = RowChange.FromString(entry.storeValue)
    is_known = 0 <= change.eventType < len(_EVENTS)
    name = _EVENTS[change.eventType] if is_known else ""
    return {
        "database": entry.header.schemaName,
        "table": entry.header.tableName,
        "type": name,
        "isDdl": change.isDdl,
        "es": entry.header.executeTime,
        "sql": change.sql,
        **(_rows(change.rowDatas, name) if change.rowDatas else {}),
    }


def _rows(rows: Sequence[Any], event: str) -> Message:
    images = [row.beforeColumns if event == DELETE else row.afterColumns for row in rows]
    first = images[0]
    return {
        "data": [_row(image) for image in images],
        "mysqlType": {column.name: column.mysqlType for column in first},
        "sqlType": _sql_types(images),
        "pkNames": [column.name for column in first if column.isKey],
    }


def _sql_types(images: Sequence[Any]) -> Message:
    """Returns the types of the last row, but of text written as bytes that of any row."""
    found: dict[str, int] = {}
    for column in (column for image in images for column in image):
        if found.get(column.name) != BLOB:
            found[column.name] = column.sqlType
    return found


def _row(columns: Iterable[Any]) -> Message:
    return {column.name: None if column.isNull else column.value for column in columns}
