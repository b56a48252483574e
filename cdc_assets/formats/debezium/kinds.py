"""Classifies a topic of Debezium's by its records, where its name is ambiguous.

Debezium writes to more topics than the tables': transaction metadata (``<prefix>.transaction``),
heartbeats (any prefix by ``topic.heartbeat.prefix``), logical decoding messages
(``<prefix>.message``), schema changes and its schema history, and notifications
(``notification.sink.topic.name``); it reads signals from a topic (``signal.kafka.topic``). Each of
these may have a name that a table's topic could have, and vice versa.
https://debezium.io/documentation/reference/3.6/configuration/notification.html
https://debezium.io/documentation/reference/3.6/configuration/signalling.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cdc_assets.log.kinds import TopicKind

_TIMES: Final = frozenset({"ts_ms", "ts_us", "ts_ns"})
_IMAGES: Final = frozenset({"before", "after"})
_TRANSACTION: Final = frozenset({"status", "id", "ts_ms", "event_count", "data_collections"})
_SCHEMA_CHANGE: Final = frozenset({"ddl", "tableChanges"})
_SIGNAL: Final = frozenset({"id", "type", "data"})
_NOTIFICATION: Final = frozenset({"id", "type", "aggregate_type", "additional_data"})
_LATER: Final = frozenset({"timestamp"})
"""Fields of notifications that release 2.3 did not write."""


def kind_of_event(event: Mapping[str, Any]) -> TopicKind:
    """Classifies one record.

    Any record with an operation or a row image is a change event, however broken.

    Args:
        event: without a schema around it.
    """
    if event.get("op") == "m" and "message" in event:
        return TopicKind.MESSAGES
    if "op" in event or event.keys() & _IMAGES:
        return TopicKind.CHANGES
    if event.get("status") in ("BEGIN", "END") and "id" in event:
        return TopicKind.TRANSACTIONS
    if event and event.keys() <= _TIMES:
        return TopicKind.HEARTBEATS
    if event.keys() & _SCHEMA_CHANGE:
        return TopicKind.SCHEMA_CHANGES
    if event.keys() - _LATER == _NOTIFICATION:
        return TopicKind.NOTIFICATIONS
    if isinstance(event.get("type"), str) and "data" in event:
        return TopicKind.SIGNALS
    return TopicKind.OTHER


def kind_of_row(row: Mapping[str, Any]) -> TopicKind:
    """Classifies one record where all rows are flattened: nearly any object may be a row.

    Debezium does not flatten its other records, so that they are recognized by all of their fields.
    A signal in a topic has an object as its data; in a row of the signal table the data is text.
    """
    kind = kind_of_event(row)
    match kind:
        case TopicKind.TRANSACTIONS if row.keys() <= _TRANSACTION:
            return kind
        case TopicKind.SCHEMA_CHANGES if "databaseName" in row and "source" in row:
            return kind
        case TopicKind.SIGNALS if row.keys() <= _SIGNAL and isinstance(row["data"], Mapping):
            return kind
        case TopicKind.HEARTBEATS | TopicKind.MESSAGES | TopicKind.NOTIFICATIONS:
            return kind
        case _:
            return TopicKind.CHANGES if row else TopicKind.OTHER
