"""Events that a table without a key has counted: a side table, so that a repeat counts once.

Counting is not idempotent as replacing a row by its key is. Each streamed event is written
here with its coordinate before the rows are published. An entry holds once the committed
offsets are beyond its coordinate: those of a batch that failed do not hold, and the batch may
be tried again. It is read only when a batch has an event that is not newer than everything
applied.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.names import LakeName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.merge import sql
from cdc_assets.merge.tombstones import side_name

EVENT: Final = ("at", "ordinal")
"""What tells events apart: position without the offset, and the place in the transaction."""
_COLUMNS: Final = (
    ("at", "binary"),
    ("ordinal", "bigint"),
    ("content", "bigint"),
    ("partition", "int"),
    ("offset", "bigint"),
)


class Ledger:
    """The counted events of one lake table."""

    def __init__(self, spark: SparkSession, catalog: str, target: LakeName) -> None:
        self._spark = spark
        self._catalog = catalog
        self._name = side_name(target)

    def create(self) -> None:
        """Make the side table, if it is not there."""
        self._spark.sql(sql.create_namespace(self._catalog, self._name))
        self._spark.sql(
            sql.create_side_table(self._catalog, self._name, _COLUMNS, {"format-version": "2"})
        )

    def record(self, events: DataFrame) -> None:
        """Append events (``at ordinal content partition offset``)."""
        rows = events.select(*(name for name, _ in _COLUMNS))
        rows.writeTo(sql.table(self._catalog, self._name)).append()

    def entries(self, events: DataFrame, committed: OffsetVector) -> DataFrame:
        """What is written of these events, by batches that were published or not.

        Returns:
            The columns of the side table, and ``is_counted``: a published batch wrote it, since
            it lies below the committed offsets.
        """
        table = self._spark.table(sql.table(self._catalog, self._name))
        wanted = F.broadcast(events.select(*EVENT).distinct())
        ends = (
            F.when(F.col("partition") == partition, F.lit(end).cast("bigint"))
            for partition, end in committed
        )
        end = F.coalesce(*ends, F.lit(0).cast("bigint"))
        mine = table.join(wanted, list(EVENT), "left_semi")
        return mine.withColumn("is_counted", F.col("offset") < end)
