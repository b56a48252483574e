"""Tells from its records what a topic of Debezium's holds, where its name cannot.

Beside the topics of tables Debezium writes transaction metadata (``<prefix>.transaction``),
heartbeats (any prefix by ``topic.heartbeat.prefix``), logical decoding messages
(``<prefix>.message``), schema changes and its schema history; it reads signals from a topic. Each
of these may have a name that a table's topic could have, and the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cdc_assets.log.kinds import TopicKind

_TIMES: Final = frozenset({"ts_ms", "ts_us", "ts_ns"})
_IMAGES: Final = frozenset({"before", "after"})
_TRANSACTION: Final = frozenset({"status", "id", "ts_ms", "event_count", "data_collections"})
_SCHEMA_CHANGE: Final = frozenset({"ddl", "tableChanges"})


def kind_of_event(event: Mapping[str, Any]) -> TopicKind:
    """Says what one record is.

    Whatever has an operation or a row image is a change event, however broken.

    Args:
        event: without a schema around it.
    """
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


def kind_of_row(row: Mapping[str, Any]) -> TopicKind:
    """Says what one record is where all rows are flattened: nearly any object may be one.

    What Debezium writes beside rows is not flattened. It is told by all of its fields.
    """
    kind = kind_of_event(row)
    match kind:
        case TopicKind.TRANSACTIONS if row.keys() <= _TRANSACTION:
            return kind
        case TopicKind.SCHEMA_CHANGES if "databaseName" in row and "source" in row:
            return kind
        case TopicKind.HEARTBEATS | TopicKind.MESSAGES:
            return kind
        case _:
            return TopicKind.CHANGES if row else TopicKind.OTHER
