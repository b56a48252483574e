"""Appends a batch's new changes to a table that holds each change as a row.

The batch is not folded, no row is deleted, and there is no side table. Each row identifies its
change (``_cdc_event``, of `cdc_assets.merge.apply.identify`), so that a redelivery or a replay is
recognized. The table is read only if the batch may hold a change that the table already has: in a
replay, or if not all positions are above the highest applied one.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.position import without_offset
from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.apply.identify import (
    CHANGE_ID,
    CONTENT_BYTES,
    Identification,
    first_deliveries,
    is_unset,
    require_distinct,
    unset_names,
)
from cdc_assets.merge.intake.observe import BatchFigures
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.deadline import Steps
from cdc_assets.merge.statements.joins import hinted
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets.merge.tables.lookups import lake_table


class ChangeLogTable:
    """The lake table while a batch is applied to it.

    Args:
        spark: the session.
        catalog: name of the lake's catalog.
        plan: of the batch.
        steps: measures.
        omittable: columns that a change may leave alone.
    """

    def __init__(
        self,
        spark: SparkSession,
        catalog: str,
        plan: BatchPlan,
        steps: Steps,
        omittable: tuple[str, ...],
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._plan = plan
        self._steps = steps
        self._omittable = omittable
        self._telling = Identification.of(plan)

    def new(self, frame: DataFrame, figures: BatchFigures, count: int) -> DataFrame:
        """Returns the changes that the table does not have yet, each once; checkpointed.

        Args:
            frame: of `recordable`, cached.
            figures: of the batch.
            count: number of changes.

        Raises:
            RejectedRecordError: if a redelivered change cannot be distinguished from two changes.
        """
        with self._steps.step("look for changes that are there"):
            events, once, again = first_deliveries(frame)
            there = self._recorded(events, count) if self._may_repeat(frame, figures) else None
            if not self._telling.is_unique:
                require_distinct(self._plan, (events, once, again), there)
            if there is not None:
                keys = hinted(there.select("change_id").distinct(), there.count())
                once = once.join(keys, "change_id", "left_anti")
            return pinned(once.drop("change_id"))

    def write(self, new: DataFrame, branch: Branch, properties: dict[str, str]) -> None:
        """Appends the new changes."""
        with self._steps.step("write rows", publishes=branch.publishes(properties)):
            branch.write(self._rows(new).sortWithinPartitions(sql.POSITION), properties)

    # ── what is there ────────────────────────────────────────────────────────────────────

    def _may_repeat(self, frame: DataFrame, figures: BatchFigures) -> bool:
        """Whether the table may have one of the changes."""
        plan, published = self._plan, self._plan.published
        if published is None:
            return False
        if plan.replay:
            return True
        if not self._telling.by_position:
            return False
        if figures.may_be_anywhere:
            return True
        streamed = frame.where("op != 'r'").groupBy("partition")
        rows = streamed.agg(F.hex(F.min("position")).alias("lowest")).collect()
        lowest = {row["partition"]: row["lowest"] for row in rows}
        applied = plan.applied_before(lowest)
        return any(
            without_offset(position) <= without_offset(applied[p]) for p, position in lowest.items()
        )

    def _recorded(self, events: DataFrame, count: int) -> DataFrame:
        """Returns ``change_id event known_place`` of these changes' rows; checkpointed."""
        bounds = events.agg(F.min("event").alias("low"), F.max("event").alias("high")).collect()[0]
        if bounds["low"] is None:
            return events.select("change_id", "event", F.lit("").alias("known_place")).limit(0)
        low, high = (bytes(bounds[each])[:-CONTENT_BYTES] for each in ("low", "high"))
        event, above = F.col(sql.EVENT), high + b"\xff" * (CONTENT_BYTES + 1)
        # Files without any of them are skipped by their statistics of the lowest and highest.
        rows = lake_table(self._spark, self._catalog, self._plan, None)
        known = rows.where((event >= F.lit(low)) & (event <= F.lit(above))).select(
            event.alias("event"),
            F.concat_ws(":", sql.TOPIC, sql.PARTITION, sql.OFFSET).alias("known_place"),
        )
        known = known.withColumn("change_id", F.expr(CHANGE_ID))
        wanted = hinted(events.select("change_id").distinct(), count)
        return pinned(known.join(wanted, "change_id", "left_semi"))

    # ── rows ─────────────────────────────────────────────────────────────────────────────

    def _rows(self, new: DataFrame) -> DataFrame:
        plan, is_delete = self._plan, F.col("op") == "d"

        def value(name: str) -> Expression:
            now = F.col("row").getField(name)
            if name in self._omittable:
                now = F.when(~is_unset(name), now)
            if not plan.schema.key:
                return F.when(is_delete, F.col("old_row").getField(name)).otherwise(now)
            if name in plan.schema.key:
                return F.when(is_delete, F.col("key").getField(name)).otherwise(now)
            return now

        return new.select(
            *(value(name).alias(name) for name in plan.schema.names),
            F.col("op").alias(sql.OP),
            F.col("position").alias(sql.POSITION),
            F.col("ts").alias(sql.COMMIT_TIME),
            F.lit(plan.entry.topic).alias(sql.TOPIC),
            F.col("partition").alias(sql.PARTITION),
            F.col("offset").alias(sql.OFFSET),
            unset_names(self._omittable).alias(sql.UNSET),
            F.col("event").alias(sql.EVENT),
        )
