"""The same changes in each dialect of ``debezium-json``, made of Debezium's envelope."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from cdc_assets.formats.debezium.dialects.cloudevents import attribute
from cdc_assets_tests.pipeline import Message

Rewrite = Callable[[Message], list[Message]]
ADDED = ("connector", "ts_ms", "snapshot", "sequence", "lsn")
_TYPES = {"id": "int64"}


def bare(message: Message) -> list[Message]:
    """As it is, with the record without a value that follows a delete."""
    return [message, *_after_delete(message)]


def flat(message: Message) -> list[Message]:
    """``add.fields=op,source.…``, ``delete.tombstone.handling.mode=rewrite``."""
    return [_with(message, _flattened(_read(message)))]


def flat_inline(message: Message) -> list[Message]:
    """The same with schemas, and a record without a value after each delete."""
    row = _flattened(_read(message))
    key = _in_schema(_schema(json.loads(message.key or b"{}")), json.loads(message.key or b"{}"))
    made = Message(key, _in_schema(_schema(row), row), message.partition)
    is_delete = row["__op"] == "d"
    return [made, *([Message(key, None, message.partition)] if is_delete else [])]


def flat_alone(message: Message) -> list[Message]:
    """Without added fields: a delete is a record whose value is ``null``."""
    event = _read(message)
    return [_with(message, event["after"])]


def cloud_event(message: Message) -> list[Message]:
    """With schemas in ``data``."""
    event = _read(message)
    source = {attribute(name): _text(value) for name, value in event["source"].items()}
    image = {"field": "after", **_schema(event["after"] or event["before"]), "optional": True}
    schema = {"type": "struct", "fields": [image]}
    images = {"before": event["before"], "after": event["after"]}
    value = {
        "id": "x",
        "source": "/debezium/postgresql/shop",
        "specversion": "1.0",
        "type": "io.debezium.connector.postgresql.DataChangeEvent",
        "datacontenttype": "application/json",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "iodebeziumop": event["op"],
        **source,
        "data": {"schema": schema, "payload": images},
    }
    return [_with(message, value), *_after_delete(message)]


def documents(message: Message) -> list[Message]:
    """Of MongoDB, without a row before a delete."""
    event = _read(message)
    after = event["after"]
    id_ = (after or event["before"])["id"]
    value = {
        "after": None if after is None else json.dumps({"_id": id_, "name": after["name"]}),
        "updateDescription": None,
        "source": {**event["source"], "connector": "mongodb", "ord": 1},
        "op": event["op"],
    }
    key = json.dumps({"id": str(id_)}).encode()
    made = Message(key, _write(value), message.partition)
    return [made, *([Message(key, None, message.partition)] if after is None else [])]


def _flattened(event: dict[str, Any]) -> dict[str, Any]:
    row = event["after"] or event["before"]
    added = {f"__source_{name}": event["source"][name] for name in ADDED}
    is_deleted = "true" if event["after"] is None else "false"
    return {**row, "__deleted": is_deleted, "__op": event["op"], **added}


def _after_delete(message: Message) -> list[Message]:
    is_delete = _read(message)["op"] == "d"
    return [Message(message.key, None, message.partition)] if is_delete else []


def _schema(row: dict[str, Any]) -> dict[str, Any]:
    fields = [
        {"field": name, "type": _type(name, value), "optional": name != "id"}
        for name, value in row.items()
    ]
    return {"type": "struct", "fields": fields}


def _type(name: str, value: object) -> str:
    return _TYPES.get(name) or ("int64" if isinstance(value, int) else "string")


def _in_schema(schema: dict[str, Any], payload: object) -> bytes:
    return _write({"schema": schema, "payload": payload})


def _text(value: object) -> object:
    return str(value) if isinstance(value, int) else value


def _with(message: Message, value: object) -> Message:
    return Message(message.key, _write(value), message.partition)


def _read(message: Message) -> dict[str, Any]:
    return json.loads(message.value or b"")


def _write(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
