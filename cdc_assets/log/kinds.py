"""The kinds of topics, which formats determine from records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

from cdc_assets.log.values import RawRecord


class TopicKind(StrEnum):
    """The kind of a topic's records; the values are words for people."""

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
    """Classifies a topic by some of its records.

    One change event makes it a table's topic: other records in it are reported when they are
    merged. Otherwise it is of the kind of its first record that is not empty.

    Args:
        records: of it.
        kind_of: classifies a record with a value.
    """
    return kind_of_kinds(kind_of(record) for record in records if record.value is not None)


def kind_of_kinds(kinds: Iterable[TopicKind]) -> TopicKind:
    """Applies the same rule to the kinds of the parts."""
    found = [each for each in kinds if each is not TopicKind.EMPTY]
    if TopicKind.CHANGES in found:
        return TopicKind.CHANGES
    return found[0] if found else TopicKind.EMPTY
