"""Finds why a decoded change cannot be merged. For what its record holds see ``Changes.java``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats.spec import CONTROL, OTHER, STATEMENT, TOMBSTONE, ReadSpec

_LATE_READ: Final = (
    "a row of a snapshot that was taken while changes were streamed: without a key it cannot be "
    "told from them"
)


def unplaced(spec: ReadSpec) -> Iterator[Expression]:
    """Yields rejections of changes without a position."""
    yield F.when(F.col("is_late_read"), _LATE_READ)
    no_position = ~F.col("op").isin(TOMBSTONE, CONTROL, STATEMENT, OTHER) & F.col("n0").isNull()
    yield F.when(no_position, f"no source position ({spec.layout.scheme})")
