"""Reads the rows of one look at a table, whatever others have published on it since."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.lake import TableState
from cdc_assets.merge.rebuild.site import Site
from cdc_assets.merge.statements import sql
from cdc_assets.schema.iceberg import from_iceberg


def seen_rows(site: Site, seen: TableState) -> DataFrame:
    """Returns exactly the rows that a table had when it was seen, under the columns seen with them.

    Offsets, counts and the mark of the side table are those of that snapshot. Read by the table's
    name, rows that another process has published since would come in ahead of these offsets, and
    those of a table without a key be counted twice.

    A snapshot has the columns that it was written with, under the names and of the types of that
    time; columns added since are NULL.
    """
    name = sql.table(site.catalog, seen.name)
    rows = site.spark().read.option("versionAsOf", str(seen.snapshot_id)).table(name)
    return rows.select(*_columns(seen))


def _columns(seen: TableState) -> Iterator[Expression]:
    for each in seen.columns:
        then, type_ = seen.head_columns.get(each.name), seen.head_types.get(each.name)
        there = F.col(sql.quote(then)) if then else F.lit(None)
        if type_ != each.type:
            there = there.cast(str(from_iceberg(each.type) or each.type))
        yield there.alias(each.name)
