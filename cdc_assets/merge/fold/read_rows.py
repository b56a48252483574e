"""Changes of a table whose rows were read from its live source after some of them.

What is merged over such rows begins before they were read. An update that leaves large values alone
may find its row gone: it was deleted, or given another key, after the update and before it was
read, and the log tells so before it ends where all that was read had been delivered. So the update
changes nothing in the end, and is passed over. A row that the log itself has begun is there in any
case, if need be without what the change of its key has left out
(`cdc_assets.merge.resnapshot.beside`).

Beyond that place of the log no row is gone unless the log has told it, and whatever lacks its row
is refused as anywhere.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.lake.beside import Beside


def is_below(ends: OffsetVector | None) -> Expression:
    """Whether a change comes before these ends of its topic."""
    pairs = [F.lit(number) for pair in ends or () for number in pair]
    if not pairs:
        return F.lit(False)
    end = F.create_map(*pairs)[F.col("partition")]
    return F.coalesce(F.col("offset") < end, F.lit(False))


def of_rows_that_stay(incomplete: DataFrame, beside: Beside) -> DataFrame:
    """Those of the changes without their rows that are refused all the same."""
    return incomplete.where(~is_below(beside.until))
