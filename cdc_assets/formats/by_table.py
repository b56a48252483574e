"""Separates the records of a topic by table, before any is decoded.

The format's own `Format.envelope` is asked on behalf of a table that does not exist: each record
that it attributes to another table is attributed to it here as well, as each of the topic's tables
would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc_assets.changes.names import TableName
from cdc_assets.formats.flat import any_of
from cdc_assets.formats.format import Format
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.oversized import OVERSIZE, blanked
from cdc_assets.formats.spec import ReadSpec
from cdc_assets.registry import TableEntry, Taken
from cdc_assets.schema.types import TableSchema

OF_TABLE: Final = "of_table"
"""``schema.table`` of a record; NULL if it is unknown, or the record changes no rows."""
OF_ROWS: Final = "of_rows"
"""Number of changes that a record counts for, if it belongs to another table."""

_NOBODY: Final = TableSchema(())


def opened(raw: DataFrame, fmt: Format, layout: Layout) -> DataFrame:
    """Returns the messages of records, without the bytes of messages that are too large.

    Args:
        raw: the records; for a format that `tells_tables` they may already be opened.
        fmt: their format.
        layout: their layout.
    """
    if fmt.tells_tables and OVERSIZE in raw.columns:
        return raw
    return fmt.opened(blanked(raw, fmt, layout))


def with_tables(messages: DataFrame, fmt: Format, layout: Layout) -> DataFrame:
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
    is_certain = F.col(OVERSIZE).isNull() & (F.col("named") != "")
    table = F.when(is_certain, F.col("named")).alias(OF_TABLE)
    return named.select(*(F.col(each) for each in messages.columns), table, rows.alias(OF_ROWS))


MOST_LONE: Final = 1_000
"""Most records without a value that are listed one by one, if their table is unknown."""


@dataclass(frozen=True, slots=True)
class SkippedRecords:
    """The records of a range that a table need not read, where records may name their table.

    Attributes:
        others: number of changes of each other table, by ``schema.table``.
        lone: by partition, offsets of records without a value that do not directly follow a delete.
        has_more: whether there are more than `MOST_LONE` such records; ``lone`` is empty then.
    """

    others: Mapping[str, int]
    lone: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    has_more: bool = False

    def own_records(self, owned: DataFrame, table: TableName) -> DataFrame:
        """Returns the records that the table has to read: its own, and records of an unknown table.

        A record without a value names no table. The one right after a delete adds nothing to it.

        Args:
            owned: as from `with_owners`.
            table: by the name that records give it.
        """
        of_table, is_empty = F.col(OF_TABLE), F.col("is_empty")
        is_mine = ~is_empty & (of_table.isNull() | (of_table == table.qualified))
        found = owned.where(is_mine | (is_empty & self._is_lone()))
        return found.drop(OF_TABLE, "is_delete", "is_empty")

    def _is_lone(self) -> Expression:
        if self.has_more:
            return F.lit(True)
        return any_of(
            (F.col("partition") == partition) & F.col("offset").isin(*offsets)
            for partition, offsets in self.lone.items()
        )


def with_owners(raw: DataFrame, fmt: Format, layout: Layout, topic: str) -> DataFrame:
    """Adds `OF_TABLE` and what `Format.whose` tells to raw records.

    A record that is too large is no known table's.
    """
    size = F.octet_length("value") <= fmt.source.batch.max_record_bytes
    kept = raw.withColumns({"whole": F.col("value"), "value": F.when(size, F.col("value"))})
    owned = fmt.whose(kept, layout, topic)
    was_blanked = F.col("value").isNull() & F.col("whole").isNotNull()
    whole = {"value": F.col("whole"), "is_empty": F.col("is_empty") & ~was_blanked}
    return owned.withColumns(whole).drop("whole")


def changes_of(raw: DataFrame, fmt: Format, layout: Layout, entry: TableEntry) -> DataFrame:
    """Returns the records with a value that may be the table's, as far as the topic is known.

    Args:
        raw: the records.
        fmt: their format.
        layout: their layout.
        entry: the table.
    """
    if not (fmt.names_tables and entry.is_shared) or entry.taken is Taken.ALL:
        return raw
    owned = with_owners(raw, fmt, layout, entry.topic)
    return SkippedRecords({}).own_records(owned, entry.at_source)


def find_skipped(owned: DataFrame, before: DataFrame | None, table: TableName) -> SkippedRecords:
    """Finds the records of a range that are not a table's.

    Args:
        owned: the records, as from `with_owners`.
        before: the record before each range, too; None if there are none.
        table: by the name that records give it.
    """
    rows = owned.groupBy(OF_TABLE, "is_empty").count().collect()
    counted = {(row[OF_TABLE], row["is_empty"]): row["count"] for row in rows}
    others = {name: n for (name, _), n in counted.items() if name not in (None, table.qualified)}
    if not any(empty for _, empty in counted):
        return SkippedRecords(others)
    return _with_lone(others, owned if before is None else owned.unionByName(before), before)


def _with_lone(
    others: Mapping[str, int], all_: DataFrame, before: DataFrame | None
) -> SkippedRecords:
    """Finds the records without a value that do not follow a delete of their key."""
    in_log = Window.partitionBy("partition").orderBy("offset")
    slim = all_.select("partition", "offset", "key", "is_delete", "is_empty")
    was = F.lag(F.struct("key", "is_delete")).over(in_log)
    empty = slim.withColumn("was", was).where("is_empty")
    is_paired = F.col("was.is_delete") & F.col("was.key").eqNullSafe(F.col("key"))
    lone = empty.where(~F.coalesce(is_paired, F.lit(False))).select("partition", "offset")
    if before is not None:
        lone = lone.join(before.select("partition", "offset"), ["partition", "offset"], "left_anti")
    rows = lone.limit(MOST_LONE + 1).collect()
    if len(rows) > MOST_LONE:
        return SkippedRecords(others, has_more=True)
    found: dict[int, list[int]] = {}
    for row in rows:
        found.setdefault(row["partition"], []).append(row["offset"])
    return SkippedRecords(others, {number: tuple(offsets) for number, offsets in found.items()})


def _lines(rows: str) -> Expression:
    """Returns the number of rows; a message without rows counts once."""
    return F.greatest(F.coalesce(F.size(rows), F.lit(1)), F.lit(1))
