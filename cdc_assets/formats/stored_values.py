"""Converts a value from the column type in its record to the lake's type, where they differ.

The lake's type is wider, or was kept although the source has changed its own
(`cdc_assets.schema.table_changes.Kept`); then NULL stands for every value that it cannot hold.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats.values import decoded
from cdc_assets.schema.promotions import fits
from cdc_assets.schema.types import Column


def stored(value: Expression, column: Column, target: Column) -> Expression:
    """Returns a decoded value in the lake's type; NULL if it would not be the same value there."""
    if column.type == target.type:
        return value
    if fits(column.type, target.type):
        return value.cast(str(target.type))
    kept = value.try_cast(str(target.type))
    return F.when(kept.try_cast(str(column.type)) == value, kept)


def unfit_for(value: Expression, column: Column, target: Column) -> Expression | None:
    """Returns whether a wire value can be decoded but not stored; None if it always fits."""
    if fits(column.type, target.type):
        return None
    found = decoded(value, column)
    return found.isNotNull() & stored(found, column, target).isNull()
