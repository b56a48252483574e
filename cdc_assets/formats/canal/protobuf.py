"""``canal-protobuf``: Canal's packets, ``canal.mq.flatMessage=false``.

A packet holds the entries of several statements, of several tables, and marks of transactions. Each
entry is converted to the message that Canal would have written in ``canal-json``; from there on
both formats are handled alike.

A few records are converted in Python, by the rules of ``MQMessageUtils.messageConverter`` in
https://github.com/alibaba/canal. All records are converted on Spark, by the same rules and some
more, which refuse anything odd about these few. Spark reads protobuf only with a module that not
every server has (``spark-protobuf``), so a function of ours does it (`cdc_assets.decode`);
docs/reference/formats/canal-protobuf.md discusses alternatives.

The messages' fields, numbers and types are those of ``CanalProtocol.proto`` and
``EntryProtocol.proto`` (``protocol/src/main/java`` there), as far as they are read. They have
stayed the same since 1.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from cdc_assets.changes.names import TableName
from cdc_assets.databases.mysql.text_types import BLOB
from cdc_assets.formats.canal.canal import Canal
from cdc_assets.formats.canal.messages import DELETE, INSERT, MARKS, UPDATE, Message
from cdc_assets.log.values import RawRecord

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

    from cdc_assets.formats.envelope import Rows
    from cdc_assets.formats.spec import ReadSpec


class CanalProtobuf(Canal):
    """A format in which a record is a packet of messages."""

    name = "canal-protobuf"
    has_packets = True

    def flat(self, record: RawRecord) -> Sequence[Message]:
        """Returns one message for each entry that is more than a mark."""
        found = messages_of(record.value or b"")
        return ({},) if found is None else found

    def unpacked(self, record: RawRecord, table: TableName) -> Sequence[RawRecord]:
        """Returns each message as JSON."""
        mine = self.table_messages(record, table)
        return tuple(replace(record, value=json.dumps(each).encode()) for each in mine)

    def opened(self, raw: DataFrame) -> DataFrame:
        """Returns a row per message, its JSON in ``value``; ``first`` counts the rows before it."""
        from pyspark.sql import functions as F

        from cdc_assets.decode import called

        unpacked = called("canal.packets", F.col("value"))
        # Outer: otherwise Spark evaluates the function once more, to test for an empty result.
        rows = raw.select("*", F.explode_outer(unpacked).alias("__message"))
        columns = {"value": F.col("__message.message"), "first": F.col("__message.first")}
        return rows.withColumns(columns).drop("__message")

    def rows(self, document: Expression, spec: ReadSpec) -> Rows:
        """Returns the rows of an unpacked message, which may hold the reason for a failure."""
        from cdc_assets.formats.canal import flat_messages

        return flat_messages.rows(document, spec, may_be_refused=True)


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
