"""Interprets single operations of GoldenGate, as Python values.

https://docs.oracle.com/en/middleware/goldengate/big-data/19.1/gadbd/pluggable-formatters.html
("Using the JSON Formatter")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cdc_assets.changes.json_text import mapping, string, strings
from cdc_assets.changes.names import TableName
from cdc_assets.formats.sample import JsonObject
from cdc_assets.log.kinds import TopicKind

INSERT, UPDATE, DELETE, TRUNCATE = "I", "U", "D", "T"
OPS: Final = {INSERT: "c", UPDATE: "u", DELETE: "d", TRUNCATE: "t"}
"""The default words; GoldenGate can be configured to write others (``insertOpKey`` etc.)."""

Message = Mapping[str, Any]


def kind_of(message: Message) -> TopicKind:
    """Classifies an operation; flat rows count as changes, so that they are reported."""
    if not message:
        return TopicKind.UNREADABLE
    is_change = _op(message) is not None and isinstance(message.get("table"), str)
    return TopicKind.CHANGES if is_change else TopicKind.OTHER


def table_of(message: Message, source: str) -> TableName | None:
    """Returns the table that a message changes; None if the message names no changed table."""
    schema, _, table = string(message.get("table")).rpartition(".")
    is_change = schema and table and _op(message) is not None
    return TableName(source, schema, table) if is_change else None


def row_of(message: Message) -> JsonObject:
    """Returns a message's row after the change, or before a delete; empty for flat rows."""
    return mapping(message.get("after")) or mapping(message.get("before"))


def holds_row(message: Message) -> bool:
    """Whether a message holds an existing row with all its columns: an insert does."""
    return _op(message) == INSERT and bool(mapping(message.get("after")))


def vanished(messages: Sequence[Message]) -> tuple[str, ...]:
    """Returns columns missing from an insert but not from earlier ones, if no value is null."""
    images = [mapping(each.get(name)) for each in messages for name in ("before", "after")]
    if any(value is None for image in images for value in image.values()):
        return ()
    found, gone = dict[str, None](), dict[str, None]()
    for each in filter(holds_row, messages):
        after = mapping(each.get("after"))
        gone |= {name: None for name in found if name not in after}
        found |= dict.fromkeys(after)
    return tuple(gone)


def is_flat(message: Message) -> bool:
    """Whether the row's columns are on one level with the metadata (``format=json_row``)."""
    return _op(message) not in {None, TRUNCATE} and not {"before", "after"} & message.keys()


def keys_of(message: Message) -> tuple[str, ...]:
    """Returns the key columns' names in an operation; () if the operation has none."""
    return strings(message.get("primary_keys"))


def source_of(message: Message) -> JsonObject:
    """Returns a message's origin, for `cdc_assets.changes.position.scheme_of`."""
    return {"connector": "goldengate", "pos": message.get("pos")}


def _op(message: Message) -> str | None:
    op = string(message.get("op_type"))
    return op if op in OPS else None
