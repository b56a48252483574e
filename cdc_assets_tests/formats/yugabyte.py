"""Records of YugabyteDB's connectors, as a test has them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.config import SourceConfig
from cdc_assets.formats.yugabyte.debezium import YugabyteDebezium
from cdc_assets.log.values import RawRecord

TABLE: Final = TableName("yb", "public", "test")
COMMITTED: Final = 1_760_000_000_000_000
"""Microseconds since 1970 of the first commit."""


def yugabyte(**connector: str) -> YugabyteDebezium:
    """The format of a source whose connector is configured so."""
    said = {"topics": {"include": [".*"]}, "format": "debezium-json", "connector": connector}
    return YugabyteDebezium(SourceConfig.model_validate(said))


def cells(row: dict[str, Any] | None) -> dict[str, Any] | None:
    """An image of the row; a column given as ``...`` has no cell."""
    if row is None:
        return None
    return {
        name: None if value is ... else {"value": value, "set": True} for name, value in row.items()
    }


def commit_time(number: int) -> int:
    """A hybrid time: microseconds, and 12 bits of a counter."""
    return (COMMITTED + number * 1000) << 12


def event(
    op: str,
    number: int,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    write: int = 0,
) -> dict[str, Any]:
    """An envelope of the gRPC connector.

    Args:
        op: of Debezium.
        number: of the commit, rising.
        before: columns, as `cells` takes them.
        after: likewise.
        write: of the transaction.
    """
    source = {
        "version": "1.9.5.yb.grpc.2024.2.3",
        "connector": "yugabytedb",
        "name": "yb",
        "ts_ms": COMMITTED // 1000 + number,
        "snapshot": "false",
        "db": "app",
        "schema": "public",
        "table": "test",
        "lsn": f"1:{number + 3}::{write}:0",
        "commit_time": commit_time(number),
    }
    return {"before": cells(before), "after": cells(after), "source": source, "op": op}


def text(document: object) -> bytes | None:
    """As the converter writes it; None stays a tombstone."""
    if document is None:
        return None
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def record(key: object, value: object, offset: int = 0) -> RawRecord:
    """A record of a topic."""
    at = Coordinate("yb.public.test", 0, offset)
    return RawRecord(at, datetime(2026, 3, 1, tzinfo=UTC), text(key), text(value))


def schema_of(columns: dict[str, str], *, key: str = "id") -> dict[str, Any]:
    """The inline schema of an envelope, with these columns of Connect's types."""
    row = [
        {
            "type": "struct",
            "fields": [
                {"type": type_, "optional": name != key, "field": "value"},
                {"type": "boolean", "optional": False, "field": "set"},
            ],
            "optional": name != key,
            "name": name,
            "field": name,
        }
        for name, type_ in columns.items()
    ]
    images = [
        {"type": "struct", "fields": row, "optional": True, "name": "Value", "field": field}
        for field in ("before", "after")
    ]
    return {"type": "struct", "fields": images, "optional": False, "name": "Envelope"}
