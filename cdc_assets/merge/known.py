"""What the lake knows of keys: their rows and their remembered deletes."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.merge import sql
from cdc_assets.merge.plan import BatchPlan
from cdc_assets.merge.tombstones import Tombstones


def lake_table(spark: SparkSession, catalog: str, plan: BatchPlan, branch: str | None) -> DataFrame:
    """The lake's rows as a batch finds them: on its branch, or at the head of its plan if None."""
    if branch is not None:
        return spark.table(branch)
    reader = spark.read
    if plan.head is not None:
        reader = reader.option("versionAsOf", str(plan.head))
    return reader.table(sql.table(catalog, plan.entry.target))


class Known:
    """Look-ups by key, for one batch.

    Args:
        spark: the session.
        catalog: name of the lake's catalog.
        plan: of the batch.
        columns: which columns of a row may be asked for.
    """

    def __init__(
        self, spark: SparkSession, catalog: str, plan: BatchPlan, columns: tuple[str, ...]
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._plan = plan
        self._columns = columns

    def rows(self, wanted: DataFrame, branch: str | None = None) -> DataFrame:
        """``known_key known_position known_row`` of the lake's rows with these keys.

        Args:
            wanted: has ``key``; few enough to be sent to every task.
            branch: a branch's table identifier; None for the head that the plan was made on.
        """
        plan = self._plan
        key = F.struct(*(F.col(sql.quote(each)) for each in plan.schema.key))
        values = [F.col(sql.quote(each)) for each in self._columns]
        table = lake_table(self._spark, self._catalog, plan, branch)
        packed = table.select(
            key.alias("known_key"),
            F.coalesce(F.col(sql.POSITION), F.lit(b"")).alias("known_position"),
            F.struct(*(values or [F.lit(1)])).alias("known_row"),
        )
        keys = F.broadcast(wanted.select(F.col("key").alias("wanted")))
        return packed.join(keys, packed["known_key"] == keys["wanted"], "left_semi")

    def positions(self, wanted: DataFrame, rows: DataFrame) -> DataFrame:
        """``known_key known_position``, at most one for each key: of its row or its delete."""
        found = rows.select("known_key", "known_position")
        published = self._plan.published
        if published and published.tombstones:
            side = Tombstones(
                self._spark, self._catalog, self._plan.entry.target, self._plan.schema
            )
            found = found.unionByName(side.known(wanted))
        return found.groupBy("known_key").agg(F.max("known_position").alias("known_position"))
