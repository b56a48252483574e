"""Records of the toy connector as Debezium writes them: JSON without schema."""

from __future__ import annotations

import json
from collections.abc import Iterable

from cdc_assets_tests.model.change import Row
from cdc_assets_tests.pipeline import Message
from cdc_assets_tests.toy.connector import PLACEHOLDER, Event, Record

EPOCH_MS = 1_760_000_000_000


def messages(records: Iterable[Record]) -> list[Message]:
    """The messages that put the same content at the same offsets.

    An offset without a record is filled with a tombstone of no key, which nobody reads either.
    """
    return [message(record) for record in records]


def message(record: Record) -> Message:
    """One record's key, value and partition."""
    key = None if record.key is None else _bytes(record.key)
    value = None if record.event is None else _bytes(_envelope(record.event))
    return Message(key, value, record.partition)


def _envelope(event: Event) -> dict[str, object]:
    return {
        "before": event.before,
        "after": _after(event),
        "source": _source(event),
        "transaction": _transaction(event),
        "op": event.op,
    }


def _after(event: Event) -> Row | None:
    return (
        None if event.after is None else {**event.after} | dict.fromkeys(event.unset, PLACEHOLDER)
    )


def _source(event: Event) -> dict[str, object]:
    commit = None if event.commit is None else str(event.commit)
    return {
        "version": "3.6.1.Final",
        "connector": "postgresql",
        "ts_ms": EPOCH_MS + event.ts_ms,
        "snapshot": event.snapshot,
        "sequence": json.dumps([commit, str(event.lsn)]),
        "schema": "public",
        "table": "t",
        "lsn": None if event.snapshot == "incremental" else event.lsn,
    }


def _transaction(event: Event) -> dict[str, object] | None:
    if event.transaction is None:
        return None
    order = event.total_order
    return {"id": event.transaction, "total_order": order, "data_collection_order": order}


def _bytes(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
