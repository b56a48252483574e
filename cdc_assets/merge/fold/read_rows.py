"""Passes over changes without their row, if rows were read from the live source after them.

Changes merged over such rows begin before these were read. An update that leaves large values alone
may find its row gone: it was deleted, or given another key, after the update and before it was
read. The log shows this before the place at which all that was read had been delivered. So the
update has no effect in the end, and is passed over. A row that the log itself has begun exists in
any case, possibly without the values that a change of its key has left out
(`cdc_assets.merge.resnapshot.beside`).

Beyond that place of the log no row is gone unless the log shows it, and a change that lacks its
row is refused as elsewhere.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.lake.beside import Beside


def is_below(ends: OffsetVector | None) -> Expression:
    """Returns whether a change comes before these ends of its topic."""
    pairs = [F.lit(number) for pair in ends or () for number in pair]
    if not pairs:
        return F.lit(False)
    end = F.create_map(*pairs)[F.col("partition")]
    return F.coalesce(F.col("offset") < end, F.lit(False))


def of_rows_that_stay(incomplete: DataFrame, beside: Beside) -> DataFrame:
    """Returns those of the changes without their rows that are still refused."""
    return incomplete.where(~is_below(beside.until))
