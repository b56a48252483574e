"""Remembered deletes: a side table per lake table, so that a late change revives nothing.

A delete leaves no row that could carry its position. It is written here before the rows are
published; writing it twice does no harm. It is read only when a batch holds a position that
is not newer than everything applied: in steady state it costs one small write per batch with
deletes, and no read.
"""

from __future__ import annotations

import hashlib

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.names import LakeName
from cdc_assets.merge import sql
from cdc_assets.schema.types import TableSchema

NAMESPACE = "cdc_assets_tombstones"


def side_name(target: LakeName) -> LakeName:
    """The side table of a lake table; the hash keeps ``a.b_c`` and ``a_b.c`` apart."""
    digest = hashlib.sha256(str(target).encode()).hexdigest()[:8]
    return LakeName(NAMESPACE, f"{target.namespace}_{target.name}_{digest}")


class Tombstones:
    """The side table of one lake table."""

    def __init__(
        self, spark: SparkSession, catalog: str, target: LakeName, schema: TableSchema
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._name = side_name(target)
        self._schema = schema

    def create(self) -> None:
        """Make the side table, if it is not there."""
        columns = [(name, str(self._schema.column(name).type)) for name in self._schema.key]
        columns += [(sql.POSITION, "binary"), (sql.COMMIT_TIME, "timestamp")]
        self._spark.sql(sql.create_namespace(self._catalog, self._name))
        self._spark.sql(
            sql.create_side_table(self._catalog, self._name, columns, {"format-version": "2"})
        )

    def remember(self, deletes: DataFrame) -> None:
        """Append the position of each deleted key (``key position ts``)."""
        rows = deletes.select(
            *(F.col("key").getField(name).alias(name) for name in self._schema.key),
            F.col("position").alias(sql.POSITION),
            F.col("ts").alias(sql.COMMIT_TIME),
        )
        rows.writeTo(sql.table(self._catalog, self._name)).append()

    def known(self, keys: DataFrame) -> DataFrame:
        """``known_key``, ``known_position`` of those of the keys that were deleted."""
        names = self._schema.key
        table = self._spark.table(sql.table(self._catalog, self._name))
        packed = table.select(
            F.struct(*(F.col(sql.quote(name)) for name in names)).alias("known_key"),
            F.col(sql.POSITION).alias("known_position"),
        )
        wanted = F.broadcast(keys.select(F.col("key").alias("wanted")))
        mine = packed.join(wanted, packed["known_key"] == wanted["wanted"], "left_semi")
        return mine.groupBy("known_key").agg(F.max("known_position").alias("known_position"))
