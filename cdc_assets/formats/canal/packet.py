"""Converts Canal's packets in Python: a few records, to the flat messages that Canal would write.

The rules for entries: ``MQMessageUtils.messageConverter`` in https://github.com/alibaba/canal. All
records are read on Spark, by the same rules and some more (``jvm/src``), which refuse anything odd
about these few.

Defines Canal's protobuf messages, as far as they are read, when this is imported.

The fields, their numbers and types are those of ``CanalProtocol.proto`` and
``EntryProtocol.proto`` in https://github.com/alibaba/canal (``protocol/src/main/java``), which
have stayed the same since 1.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from cdc_assets.databases.mysql.text_types import BLOB
from cdc_assets.formats.canal.messages import DELETE, INSERT, MARKS, UPDATE, Message

_PACKAGE: Final = "cdc_assets.canal"
_Field = descriptor_pb2.FieldDescriptorProto
_FIELDS: Final[dict[str, tuple[tuple[str, int, str], ...]]] = {
    "Packet": (("type", 3, "int32"), ("compression", 4, "int32"), ("body", 5, "bytes")),
    "Messages": (("batchId", 1, "int64"), ("messages", 2, "bytes*")),
    "Entry": (("header", 1, "Header"), ("entryType", 2, "int32"), ("storeValue", 3, "bytes")),
    "Header": (("executeTime", 6, "int64"), ("schemaName", 8, "string"),
               ("tableName", 9, "string")),
    "RowChange": (("eventType", 2, "int32"), ("isDdl", 10, "bool"), ("sql", 11, "string"),
                  ("rowDatas", 12, "RowData*")),
    "RowData": (("beforeColumns", 1, "Column*"), ("afterColumns", 2, "Column*")),
    "Column": (("sqlType", 2, "int32"), ("name", 3, "string"), ("isKey", 4, "bool"),
               ("updated", 5, "bool"), ("isNull", 6, "bool"), ("value", 8, "string"),
               ("mysqlType", 10, "string")),
}  # fmt: skip
"""Enumerations are read as numbers, so that added values can be read; ``*``: repeated."""

_SCALARS: Final = {
    "int32": _Field.TYPE_INT32, "int64": _Field.TYPE_INT64, "bool": _Field.TYPE_BOOL,
    "string": _Field.TYPE_STRING, "bytes": _Field.TYPE_BYTES,
}  # fmt: skip


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="cdc_assets/canal.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, type_ in fields:
            kind = type_.rstrip("*")
            many = type_.endswith("*")
            label = _Field.LABEL_REPEATED if many else _Field.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, label=label)
            if kind in _SCALARS:
                added.type = _SCALARS[kind]
            else:
                added.type, added.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    return file


_POOL: Final = descriptor_pool.DescriptorPool()
_POOL.AddSerializedFile(_file().SerializeToString())


def _class(name: str) -> Any:
    descriptor = _POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}")
    return message_factory.GetMessageClass(descriptor)


Packet: Final = _class("Packet")
Messages: Final = _class("Messages")
Entry: Final = _class("Entry")
RowChange: Final = _class("RowChange")


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
