"""Compares the keys of decoded changes."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats.flat import any_of


def has_moved() -> Expression:
    """Returns whether an update changed the key, of decoded changes."""
    return F.coalesce(F.col("old_key") != F.col("key"), F.lit(False))


def any_null(struct: Expression, names: tuple[str, ...]) -> Expression:
    """Returns whether one of these fields is NULL."""
    return any_of(struct.getField(name).isNull() for name in names)
