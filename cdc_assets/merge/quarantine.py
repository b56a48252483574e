"""Records that cannot be merged, kept where a person can look at them.

One table per source, written before the batch publishes. A coordinate is written once, also
when the batch is tried again. It holds raw keys and values: whoever may read the source's
tables may read it, and nobody else should.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.names import LakeName
from cdc_assets.merge import sql

NAMESPACE: Final = "cdc_assets_quarantine"
_COLUMNS: Final = (
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("reason", "string"),
    ("key", "binary"),
    ("value", "binary"),
    ("run_id", "string"),
    ("quarantined_at", "timestamp"),
)
_COORDINATE: Final = ["topic", "partition", "offset"]


def quarantine_name(source: str) -> LakeName:
    """The quarantine table of a source."""
    return LakeName(NAMESPACE, source)


class Quarantine:
    """The quarantine of one source."""

    def __init__(self, spark: SparkSession, catalog: str, source: str) -> None:
        self._spark = spark
        self._catalog = catalog
        self._name = quarantine_name(source)

    def add(self, raw: DataFrame, rejected: DataFrame, run_id: str, now: datetime) -> None:
        """Write what is not there yet.

        Args:
            raw: Kafka records, as Spark's source gives them.
            rejected: ``partition offset reason`` of those that cannot be merged.
            run_id: recorded beside them.
            now: likewise.
        """
        self._spark.sql(sql.create_namespace(self._catalog, self._name))
        self._spark.sql(
            sql.create_side_table(self._catalog, self._name, _COLUMNS, {"format-version": "2"})
        )
        name = sql.table(self._catalog, self._name)
        known = self._spark.table(name).select(*_COORDINATE)
        records = raw.join(F.broadcast(rejected), ["partition", "offset"])
        rows = records.select(
            *(F.col(column) for column in ("topic", "partition", "offset", "timestamp", "reason")),
            F.col("key"),
            F.col("value"),
            F.lit(run_id).alias("run_id"),
            F.lit(now).cast("timestamp").alias("quarantined_at"),
        )
        rows.join(known, _COORDINATE, "left_anti").writeTo(name).append()
