"""Rows of the lake that a snapshot by the connector has not shown.

A snapshot sends each row that it reads, unless the log tells a change of the row while its chunk is
read; then that change is sent, and the row is not. So of each key that the source had when its
chunk was read, the log has a record since the snapshot was asked for, and also of each key that
was inserted later. A row of the lake whose key is in none of these records is *unshown*: the source
has it no more, the record is still under way between connector and Kafka, or the connector has left
it out. Which of these it is, only the source can say.

*Partial* are rows of which there are such records, but only updates that leave large values alone.
These values were not shown either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.names import HELPERS
from cdc_assets.formats.flat import any_of
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets.merge.verifying.canonical import canonical
from cdc_assets.schema.comparing import Comparison, Key

_WHOLE: Final = f"{HELPERS}is_whole"
_TOLD: Final = f"{HELPERS}is_told"


@dataclass(frozen=True, slots=True)
class Unshown:
    """Rows of which not everything was shown.

    Attributes:
        rows: of the lake; pinned.
        unshown: number of rows of which nothing was shown.
        partial: number of rows of which only large values were not shown.
    """

    rows: DataFrame
    unshown: int
    partial: int

    def keys(self, comparison: Comparison, most: int) -> tuple[Key, ...]:
        """Returns their keys as canonical text, those of unshown rows first; up to so many."""
        texts = [canonical(each).alias(f"k{n}") for n, each in enumerate(comparison.key)]
        each_once = self.rows.select(_TOLD, *texts).distinct()  # the lake may have a row twice
        found = each_once.orderBy(_TOLD).limit(most).drop(_TOLD)
        return tuple(tuple(row) for row in found.collect())


def unshown(
    lake: DataFrame, changes: DataFrame | None, key: tuple[str, ...], unset: tuple[str, ...]
) -> Unshown:
    """Finds them.

    Args:
        lake: living rows of the table.
        changes: what the log has said since the snapshot was asked for, up to where the lake is;
            None for nothing.
        key: names of the table's key columns.
        unset: columns that updates may have left out.
    """
    names = [sql.quote(name) for name in key]
    rows = lake.select(*names)
    if changes is None:
        found = rows.withColumn(_TOLD, F.lit(False)).withColumn(_WHOLE, F.lit(False))
    else:
        found = _beside(rows, _shown(changes, key, unset), key)
    left = pinned(found.where(~F.col(_WHOLE)))
    counts = dict(left.groupBy(_TOLD).count().collect())
    return Unshown(left, counts.get(False, 0), counts.get(True, 0))


def _shown(changes: DataFrame, key: tuple[str, ...], unset: tuple[str, ...]) -> DataFrame:
    """Returns ``k0``, … and whether any record of the key has the whole row."""
    left_out = any_of(F.coalesce(F.col("unset").getField(name), F.lit(False)) for name in unset)
    whole = F.col("op").isin("c", "r") | (~left_out if unset else F.lit(True))
    mine = changes.where(F.col("op").isin("c", "u", "d", "r") & F.col("reject").isNull())
    parts = [F.col("key").getField(name).alias(f"k{n}") for n, name in enumerate(key)]
    told = mine.select(*parts, whole.alias(_WHOLE))
    return told.groupBy(*(f"k{n}" for n in range(len(key)))).agg(F.max(_WHOLE).alias(_WHOLE))


def _beside(rows: DataFrame, shown: DataFrame, key: tuple[str, ...]) -> DataFrame:
    same = [rows[sql.quote(name)].eqNullSafe(shown[f"k{n}"]) for n, name in enumerate(key)]
    joined = rows.join(shown, same, "left")
    return joined.select(
        *(rows[sql.quote(name)] for name in key),
        shown[_WHOLE].isNotNull().alias(_TOLD),
        F.coalesce(shown[_WHOLE], F.lit(False)).alias(_WHOLE),
    )
