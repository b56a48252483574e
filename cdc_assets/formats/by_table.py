"""Tells the records of a topic apart by the tables that they are of, before any is decoded.

By the format's own `Format.envelope`, which is asked in the name of a table that does not exist:
whatever that one calls another table's is told, as each of the topic's tables would tell it.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.names import TableName
from cdc_assets.formats.format import Format
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.oversized import OVERSIZE, blanked
from cdc_assets.formats.spec import ReadSpec
from cdc_assets.schema.types import TableSchema

OF_TABLE: Final = "of_table"
"""``schema.table`` that a record is of; NULL if it is not told, or the record changes no rows."""
OF_ROWS: Final = "of_rows"
"""How many changes a decoded batch of another table counts a record as."""

_NOBODY: Final = TableSchema(())


def opened(raw: DataFrame, fmt: Format, layout: Layout) -> DataFrame:
    """The messages of records, without the bytes of those that are too large.

    Args:
        raw: the records; of a format that `tells_tables` they may have been opened before.
        fmt: of the records.
        layout: of them.
    """
    if fmt.tells_tables and OVERSIZE in raw.columns:
        return raw
    return fmt.opened(blanked(raw, fmt, layout))


def told_apart(messages: DataFrame, fmt: Format, layout: Layout) -> DataFrame:
    """What `opened` gives, of a format that `tells_tables`, with `OF_TABLE` and `OF_ROWS`.

    What is not told of one table for certain is told of none: broken and too large records, marks,
    statements that are no changes of rows.
    """
    spec = ReadSpec(_NOBODY, layout, _NOBODY, TableName("", "", ""))
    found = messages.select("*", fmt.document(spec).alias("document"))
    said, rows = F.col("document"), F.lit(1)
    if fmt.has_many_rows:
        read = fmt.rows(said, spec)
        found = found.select("*", read.head.alias("head"), read.rows.alias("rows"))
        said, rows = F.struct("head", F.get("rows", F.lit(0)).alias("row")), _lines("rows")
    named = found.select("*", fmt.envelope(said, spec).other_table.alias("named"))
    is_told = F.col(OVERSIZE).isNull() & (F.col("named") != "")
    told = F.when(is_told, F.col("named")).alias(OF_TABLE)
    return named.select(*(F.col(each) for each in messages.columns), told, rows.alias(OF_ROWS))


def _lines(rows: str) -> Expression:
    """A message without rows counts once."""
    return F.greatest(F.coalesce(F.size(rows), F.lit(1)), F.lit(1))
