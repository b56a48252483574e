"""Defines Canal's protobuf messages, as far as they are read, when this is imported.

The fields, their numbers and types are those of ``CanalProtocol.proto`` and
``EntryProtocol.proto`` in https://github.com/alibaba/canal (``protocol/src/main/java``), which
have stayed the same since 1.0.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE: Final = "cdc_assets.canal"
_Field = descriptor_pb2.FieldDescriptorProto
_MESSAGES: Final[dict[str, tuple[tuple[str, int, str], ...]]] = {
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
    for name, fields in _MESSAGES.items():
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
