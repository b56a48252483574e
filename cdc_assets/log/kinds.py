"""What a topic may hold: formats say it of its records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

from cdc_assets.log.values import RawRecord


class TopicKind(StrEnum):
    """What a topic's records are; the values are words for people."""

    EMPTY = "no records with a value"
    CHANGES = "changes of rows"
    TRANSACTIONS = "transaction metadata"
    HEARTBEATS = "heartbeats"
    MESSAGES = "logical decoding messages"
    SCHEMA_CHANGES = "schema changes"
    SIGNALS = "signals"
    NOTIFICATIONS = "notifications"
    WATERMARKS = "watermarks"
    OTHER = "JSON that is no change event (are rows flattened, without fields that say so?)"
    UNREADABLE = "no JSON objects (is the source's format the connector's?)"


def kind_of_topic(
    records: Iterable[RawRecord], kind_of: Callable[[RawRecord], TopicKind]
) -> TopicKind:
    """Says what a topic holds by some of its records.

    One change event is enough to make it a table's: that it holds other things beside is then
    said when it is merged. Otherwise it is what its first record with a value is.

    Args:
        records: of it.
        kind_of: says it of one with a value.
    """
    return kind_of_kinds(kind_of(record) for record in records if record.value is not None)


def kind_of_kinds(kinds: Iterable[TopicKind]) -> TopicKind:
    """By the same rule, of what the parts of something are."""
    found = [*kinds]
    if TopicKind.CHANGES in found:
        return TopicKind.CHANGES
    return found[0] if found else TopicKind.EMPTY
