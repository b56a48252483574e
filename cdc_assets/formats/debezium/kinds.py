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
_SCHEMA_CHANGE: Final = frozenset({"ddl", "tableChanges"})


def kind_of_event(event: Mapping[str, Any] | None) -> TopicKind:
    """Says what one record is.

    Whatever has an operation or a row image is a change event, however broken.

    Args:
        event: without a schema around it; None for what is no object.
    """
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
