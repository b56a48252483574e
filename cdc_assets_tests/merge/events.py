"""Debezium PostgreSQL events without schema, as the connector writes them."""

from __future__ import annotations

import json
from typing import Any

from cdc_assets_tests.pipeline import Message

PLACEHOLDER = "__debezium_unavailable_value"
AT_MS = 1_760_000_000_000


def event(
    op: str,
    row: dict[str, Any] | None,
    lsn: int,
    *,
    commit: int | None = None,
    partition: int = 0,
    before: dict[str, Any] | None = None,
    order: int | None = None,
    key: tuple[str, ...] = ("id",),
    at_ms: int = AT_MS,
    table: str = "public.t",
    database: str = "app",
) -> Message:
    """A change of a table keyed by ``id``; ``row`` is ``after``, of a delete ``before``.

    Args:
        commit: LSN of the last commit before; None if there was none.
        before: image before an update.
        order: place in the transaction.
        key: columns of the record's key; () for none.
        at_ms: when it was committed, or read.
        table: what ``source`` calls it; empty for a record that names none.
        database: the one that it is in.
    """
    schema, _, name = table.partition(".")
    value = {
        "before": row if op == "d" else before,
        "after": None if op == "d" else row,
        "source": {
            "version": "3.6.1.Final",
            "connector": "postgresql",
            "ts_ms": at_ms,
            "snapshot": "true" if op == "r" else "false",
            "sequence": json.dumps([None if commit is None else str(commit), str(lsn)]),
            "db": database,
            **({"schema": schema, "table": name} if name else {}),
            "lsn": lsn,
        },
        "transaction": None if order is None else _transaction(commit, lsn, order),
        "op": op,
    }
    text = json.dumps(value, separators=(",", ":"))
    named = {name: row[name] for name in key} if row is not None else {}
    return Message(json.dumps(named).encode() if named else None, text.encode(), partition)


def _transaction(commit: int | None, lsn: int, order: int) -> dict[str, object]:
    """Of a transaction that changes this table only."""
    return {"id": f"{commit}:{lsn}", "total_order": order, "data_collection_order": order}


def transaction_end(commit: int, lsn: int, count: int) -> Message:
    """What Debezium sends to its transaction topic after the last of ``count`` changes."""
    counted = [{"data_collection": "public.t", "event_count": count}]
    value = {
        "status": "END",
        "id": f"{commit}:{lsn}",
        "event_count": count,
        "data_collections": counted,
    }
    return Message(None, json.dumps(value).encode())


def truncate(lsn: int, *, commit: int, partition: int = 0) -> Message:
    """As Debezium sends it: without a key, so in any partition."""
    return event("t", None, lsn, commit=commit, partition=partition, key=())


def tombstone(id_: int, partition: int = 0) -> Message:
    return Message(json.dumps({"id": id_}).encode(), None, partition)
