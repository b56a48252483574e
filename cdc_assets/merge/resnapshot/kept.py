"""Rows that the source no longer has: a table with ``deletes: soft`` keeps them, marked.

A table that is read beside the old one gets from the source what is there. What is not there is
the old table's to tell: rows that it has marked, and rows that were deleted since, or of which the
log has lost the delete. All of them are put in, marked, at the position that the table was read at:
whatever the log still says of such a key is newer, and is merged over its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from cdc_assets.changes.names import HELPERS
from cdc_assets.merge.statements import sql

HELD: Final = f"{HELPERS}held"
"""Column: whether the new types can hold all of a row's values."""

_RANK: Final = f"{HELPERS}rank"
_WAS: Final = f"{HELPERS}was"


def rows_to_keep(old: DataFrame, new: DataFrame, key: Sequence[str], position: bytes) -> DataFrame:
    """Returns the old table's rows whose keys the new one does not have, in the new one's columns.

    Args:
        old: the old table; where it has several rows of a key, the newest one counts.
        new: the new one, with all rows that were read.
        key: names of its columns, which both have.
        position: that the rows are put at.

    Returns:
        The new table's columns, then ``HELD``. When a row was deleted is empty unless the old table
        says so.
    """
    had = {each.name: each for each in old.schema}

    def value(field: StructField) -> Expression:
        if field.name == sql.POSITION:
            return F.lit(position)
        if field.name == sql.DELETED:
            return F.lit(True)
        before = had.get(field.name)
        if before is None:
            return F.lit(None).cast(field.dataType)
        own = F.col(sql.quote(field.name))
        return own if before.dataType == field.dataType else own.try_cast(field.dataType)

    lost = (
        F.col(sql.quote(each.name)).isNotNull() & value(each).isNull()
        for each in new.schema
        if each.name in had
    )
    held = ~reduce(lambda a, b: a | b, lost, F.lit(False))
    values = (value(each).alias(each.name) for each in new.schema)
    made = old.select(*values, held.alias(HELD), F.col(sql.POSITION).alias(_WAS))
    keys = [F.col(sql.quote(name)) for name in key]
    gone = made.join(new.select(*keys), list(key), "left_anti")
    newest = Window.partitionBy(*keys).orderBy(F.col(_WAS).desc_nulls_last())
    single = gone.withColumn(_RANK, F.row_number().over(newest)).where(F.col(_RANK) == 1)
    return single.select(*(F.col(sql.quote(name)) for name in new.columns), HELD)
