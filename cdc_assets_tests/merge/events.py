"""Debezium PostgreSQL events without schema, as the connector writes them."""

from __future__ import annotations

import json
from typing import Any

from cdc_assets_tests.pipeline import Message

PLACEHOLDER = "__debezium_unavailable_value"


def event(
    op: str, row: dict[str, Any], lsn: int, *, commit: int | None = None, partition: int = 0
) -> Message:
    """A change of a table keyed by ``id``; ``row`` is ``after``, of a delete ``before``."""
    value = {
        "before": row if op == "d" else None,
        "after": None if op == "d" else row,
        "source": {
            "version": "3.6.1.Final",
            "connector": "postgresql",
            "ts_ms": 1_760_000_000_000,
            "snapshot": "true" if op == "r" else "false",
            "sequence": json.dumps([None if commit is None else str(commit), str(lsn)]),
            "schema": "public",
            "table": "t",
            "lsn": lsn,
        },
        "transaction": None,
        "op": op,
    }
    text = json.dumps(value, separators=(",", ":"))
    return Message(json.dumps({"id": row["id"]}).encode(), text.encode(), partition)


def tombstone(id_: int) -> Message:
    return Message(json.dumps({"id": id_}).encode(), None)
