"""Decoded records for what looks at a few of their columns."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_COLUMNS: Final = {
    "ts": "timestamp", "is_unwritten": "boolean", "reject": "string", "in_doubt": "boolean",
    "key": "struct<id: int>", "old_key": "struct<id: int>", "pair": "bigint",
    "unknown": "array<string>", "absent": "array<string>", "other_table": "string",
    "read_lsn": "bigint", "floating_lsn": "bigint", "told_ms": "bigint", "may_witness": "boolean",
    "floats": "boolean",
}  # fmt: skip


def decoded(records: DataFrame) -> DataFrame:
    """Adds NULL for each column that is lacking."""
    lacking = {name: kind for name, kind in _COLUMNS.items() if name not in records.columns}
    return records.withColumns({n: F.lit(None).cast(kind) for n, kind in lacking.items()})
