"""From a record's own type of a column to the lake's, where that is not the same.

The lake's type is wider; or it was kept, though the source has changed it
(`cdc_assets.schema.evolution.Kept`): then NULL stands for every value that it cannot hold.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats.values import decoded
from cdc_assets.schema.promotions import fits
from cdc_assets.schema.types import Column


def stored(value: Expression, column: Column, target: Column) -> Expression:
    """A decoded value as the lake has it; NULL if it is another one there."""
    if column.type == target.type:
        return value
    if fits(column.type, target.type):
        return value.cast(str(target.type))
    kept = value.try_cast(str(target.type))
    return F.when(kept.try_cast(str(column.type)) == value, kept)


def unfit_for(value: Expression, column: Column, target: Column) -> Expression | None:
    """Whether a wire value can be decoded, and is none of the lake's; None if it always is."""
    if fits(column.type, target.type):
        return None
    found = decoded(value, column)
    return found.isNotNull() & stored(found, column, target).isNull()
