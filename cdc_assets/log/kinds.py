"""Tells from its records what a topic holds, where its name cannot.

Beside the topics of tables Debezium writes transaction metadata (``<prefix>.transaction``),
heartbeats (any prefix by ``topic.heartbeat.prefix``), logical decoding messages
(``<prefix>.message``), schema changes and its schema history; it reads signals from a topic. Each
of these may have a name that a table's topic could have, and the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, cast

from cdc_assets.changes.json_text import read_json

_TIMES: Final = frozenset({"ts_ms", "ts_us", "ts_ns"})
_IMAGES: Final = frozenset({"before", "after"})
_SCHEMA_CHANGE: Final = frozenset({"ddl", "tableChanges"})


class TopicKind(StrEnum):
    """What a topic's records are; the values are words for people."""

    EMPTY = "no records with a value"
    CHANGES = "changes of rows"
    TRANSACTIONS = "transaction metadata"
    HEARTBEATS = "heartbeats"
    MESSAGES = "logical decoding messages"
    SCHEMA_CHANGES = "schema changes"
    SIGNALS = "signals"
    OTHER = "JSON that is no change event (does the connector unwrap events?)"
    UNREADABLE = "no JSON objects (is the source's format the connector's?)"


def kind_of_topic(values: Iterable[bytes | None]) -> TopicKind:
    """Says what a topic holds by some of its records.

    One change event is enough to make it a table's: that it holds other things beside is then
    said when it is merged. Otherwise it is what its first record with a value is.
    """
    kinds = [kind_of_record(value) for value in values if value is not None]
    if TopicKind.CHANGES in kinds:
        return TopicKind.CHANGES
    return kinds[0] if kinds else TopicKind.EMPTY


def kind_of_record(value: bytes) -> TopicKind:
    """Says what one record is; schemas around it do not matter.

    Whatever has an operation or a row image is a change event, however broken.
    """
    event = _payload(value)
    if event is None:
        return TopicKind.UNREADABLE
    if event.get("op") == "m" and "message" in event:
        return TopicKind.MESSAGES
    if "op" in event or event.keys() & _IMAGES:
        return TopicKind.CHANGES
    if event.get("status") in {"BEGIN", "END"} and "id" in event:
        return TopicKind.TRANSACTIONS
    if event and event.keys() <= _TIMES:
        return TopicKind.HEARTBEATS
    if event.keys() & _SCHEMA_CHANGE:
        return TopicKind.SCHEMA_CHANGES
    if isinstance(event.get("type"), str) and "data" in event:
        return TopicKind.SIGNALS
    return TopicKind.OTHER


def _payload(value: bytes) -> Mapping[str, Any] | None:
    """The event without the schema around it; None if it is no JSON object."""
    document = read_json(value)
    if isinstance(document, dict) and {"schema", "payload"} <= document.keys():
        document = document["payload"]
    return cast("Mapping[str, Any]", document) if isinstance(document, dict) else None
