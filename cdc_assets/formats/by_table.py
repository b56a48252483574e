"""Separates the records of a topic by table, before any is decoded.

The format's own `Format.envelope` is asked on behalf of a table that does not exist: each record
that it attributes to another table is attributed to it here as well, as each of the topic's tables
would.
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
"""``schema.table`` of a record; NULL if it is unknown, or the record changes no rows."""
OF_ROWS: Final = "of_rows"
"""Number of changes as which a decoded batch of another table counts a record."""

_NOBODY: Final = TableSchema(())


def opened(raw: DataFrame, fmt: Format, layout: Layout) -> DataFrame:
    """Returns the messages of records, without the bytes of those that are too large.

    Args:
        raw: the records; for a format that `tells_tables` they may already be opened.
        fmt: their format.
        layout: their layout.
    """
    if fmt.tells_tables and OVERSIZE in raw.columns:
        return raw
    return fmt.opened(blanked(raw, fmt, layout))


def told_apart(messages: DataFrame, fmt: Format, layout: Layout) -> DataFrame:
    """Adds `OF_TABLE` and `OF_ROWS` to the result of `opened`, for a format that `tells_tables`.

    Records that cannot be attributed to one table for certain are attributed to none: broken and
    too large records, marks, and statements that do not change rows.
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
    """Returns the number of rows; a message without rows counts once."""
    return F.greatest(F.coalesce(F.size(rows), F.lit(1)), F.lit(1))
