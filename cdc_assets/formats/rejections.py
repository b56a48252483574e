"""Finds why a decoded change cannot be merged. For what its record holds see ``Changes.java``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats.record_keys import any_null
from cdc_assets.formats.spec import CONTROL, OTHER, ROW_OPS, STATEMENT, TOMBSTONE, ReadSpec

_LATE_READ: Final = (
    "a row of a snapshot that was taken while changes were streamed: without a key it cannot be "
    "told from them"
)


def unplaced(spec: ReadSpec) -> Iterator[Expression]:
    """Yields rejections of changes without a complete key, or without a position."""
    op = F.col("op")
    if spec.target.key:
        missing = any_null(F.col("key"), spec.target.key)
        nameless = (op == "d") & F.col("pair").isNull() & missing
        yield F.when(nameless, "a delete with neither key nor before image")
        yield F.when(op.isin(*ROW_OPS, "d") & missing, "a key column has no value")
        unknown = F.col("old_key").isNotNull() & any_null(F.col("old_key"), spec.target.key)
        reason = "an update without the key before it (REPLICA IDENTITY FULL would log it)"
        yield F.when(unknown, reason)
    yield F.when(F.col("is_late_read"), _LATE_READ)
    no_position = ~op.isin(TOMBSTONE, CONTROL, STATEMENT, OTHER) & F.col("n0").isNull()
    yield F.when(no_position, f"no source position ({spec.layout.scheme})")
