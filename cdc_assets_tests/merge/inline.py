"""Events with an inline schema around key and value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from cdc_assets_tests.merge.events import event
from cdc_assets_tests.pipeline import Message

_NUMBERS: Final = ("id", "n")


def in_schema(message: Message, schema: object) -> Message:
    """With a schema around the value, whatever that is."""
    return Message(message.key, _around(message.value, schema), message.partition)


def change(
    op: str,
    row: dict[str, Any],
    lsn: int,
    *,
    inline: bool,
    partition: int = 0,
    defaults: Mapping[str, object] = MappingProxyType({}),
) -> Message:
    """A change of a table of numbers ``id`` and ``n`` and of texts, or of some of these."""
    made = event(op, row, lsn, commit=lsn - 5, partition=partition)
    if not inline:
        return made
    fields: list[dict[str, Any]] = [
        {"field": each, "type": "int64" if each in _NUMBERS else "string", "optional": each != "id"}
        for each in row
    ]
    fields = [
        {**each, "default": defaults[each["field"]]} if each["field"] in defaults else each
        for each in fields
    ]
    after = {"field": "after", "type": "struct", "optional": True, "fields": fields}
    value = _around(made.value, {"type": "struct", "fields": [after]})
    return Message(_around(made.key, {"type": "struct", "fields": fields[:1]}), value, partition)


def _around(payload: bytes | None, schema: object) -> bytes:
    assert payload is not None
    text = json.dumps(schema, separators=(",", ":")).encode()
    return b'{"schema":' + text + b',"payload":' + payload + b"}"
