"""Looks up keys in the lake: their rows and their remembered deletes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.mode import Mode
from cdc_assets.formats.order import order_of
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.joins import hinted
from cdc_assets.merge.tables.pruning import KeySearch
from cdc_assets.merge.tables.tombstones import Tombstones

_PLACE: Final = "_spec_id int, _partition struct<>, _file string, _pos bigint"


def lake_table(spark: SparkSession, catalog: str, plan: BatchPlan, branch: str | None) -> DataFrame:
    """Returns the shard's rows as a batch finds them: on its branch, or at its plan's head if None.

    A snapshot has the columns that it was written with, under the names and of the types of that
    time; columns added since are NULL, and those widened since have their present types: Spark
    compares structs of the batch's rows and the lake's only if their decimals have equal digits.
    """
    mine = sql.of_shard(plan.entry.shard)
    if branch is not None:
        return spark.table(branch).where(mine)
    name = sql.table(catalog, plan.entry.target)
    if plan.head is None:
        own = f"{sql.POSITION} binary, {sql.COMMIT_TIME} timestamp, {_PLACE}"
        columns = (f"{sql.quote(each.name)} {each.type}" for each in plan.schema.columns)
        return spark.createDataFrame([], ", ".join([*columns, own]))
    rows = spark.read.option("versionAsOf", str(plan.head)).table(name).where(mine)
    others = dict(_others(plan))
    return rows.withColumns(others) if others else rows


def _others(plan: BatchPlan) -> Iterator[tuple[str, Expression]]:
    """Yields the columns whose name or type differs at the head, or that the head does not have."""
    for each in plan.schema.columns:
        name, type_ = plan.name_at_head(each.name), plan.type_at_head(each.name)
        there = F.col(sql.quote(name)) if name else F.lit(None)
        if name is None or type_ not in {None, each.type}:
            yield each.name, there.cast(str(each.type))
        elif name != each.name:
            yield each.name, there


class KeyLookups:
    """Look-ups by key, for one batch.

    Args:
        spark: the session.
        catalog: name of the lake's catalog.
        plan: of the batch.
        columns: columns of a row that may be asked for.
        tombstones: remembered deletes.
    """

    def __init__(
        self,
        spark: SparkSession,
        catalog: str,
        plan: BatchPlan,
        columns: tuple[str, ...],
        tombstones: Tombstones,
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._plan = plan
        self._columns = columns
        self._tombstones = tombstones

    def rows(
        self, wanted: DataFrame, branch: str | None = None, *, count: int | None = None
    ) -> DataFrame:
        """Returns ``known_key known_position known_row`` of the lake's rows with these keys.

        And ``is_gone``: whether the row is one that its source has deleted, and that stays.

        Args:
            wanted: has ``key``.
            branch: a branch's table identifier; None for the head that the plan was made on.
            count: largest possible number of keys; None to count them.
        """
        plan = self._plan
        key = F.struct(*(F.col(sql.quote(each)) for each in plan.schema.key))
        values = [F.col(sql.quote(each)) for each in self._columns]
        table = lake_table(self._spark, self._catalog, plan, branch)
        search = KeySearch(plan, self._catalog)
        if search.prunes:
            own = (F.col("key").getField(name).alias(name) for name in plan.schema.key)
            table = search.narrowed(table, wanted.select(*own))
        if plan.mode is Mode.HISTORY and (plan.head or branch):  # others are not rows any more
            table = table.where(sql.CURRENT)
        is_gone = F.col(sql.DELETED) if plan.soft and (plan.head or branch) else F.lit(False)
        packed = table.select(
            key.alias("known_key"),
            F.coalesce(F.col(sql.POSITION), F.lit(b"")).alias("known_position"),
            is_gone.alias("is_gone"),
            F.struct(*(values or [F.lit(1)])).alias("known_row"),
        )
        keys = wanted.select(F.col("key").alias("wanted"))
        keys = hinted(keys, wanted.count() if count is None else count)
        return packed.join(keys, packed["known_key"] == keys["wanted"], "left_semi")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a caller may ask for."""
        return self._columns

    def given_up(self, places: DataFrame) -> DataFrame:
        """Returns the events at which the lake knows a delete of their key.

        Args:
            places: ``at`` of `Order.event_at`; few.
        """
        at = self._event_at(sql.POSITION)
        if self._plan.mode is Mode.CHANGELOG:
            rows = lake_table(self._spark, self._catalog, self._plan, None)
            deleted = rows.where(F.col(sql.OP) == "d").select(at) if self._plan.head else None
        elif self._plan.mode is Mode.HISTORY:
            deleted = self._ended()
        elif self._plan.soft:
            rows = lake_table(self._spark, self._catalog, self._plan, None)
            deleted = rows.where(F.col(sql.DELETED)).select(at) if self._plan.head else None
        else:
            entries = self._tombstones.entries()
            deleted = None if entries is None else entries.select(at)
        if deleted is None:
            return places.limit(0)
        wanted = F.broadcast(places.select(F.col("at").alias("wanted")))
        found = deleted.join(wanted, deleted["at"] == wanted["wanted"], "left_semi")
        return found.distinct()

    def positions(self, wanted: DataFrame, rows: DataFrame) -> DataFrame:
        """Returns ``known_key known_position``: for each key the newest of its rows and deletes."""
        return self.newest(wanted, rows).drop("is_gone")

    def newest(self, wanted: DataFrame, rows: DataFrame) -> DataFrame:
        """Returns `positions` with ``is_gone``: whether a delete is known at the position.

        ``is_gone`` is false for a history's versions.
        """
        found = rows.select("known_key", "known_position", "is_gone")
        if self._plan.mode is Mode.HISTORY and self._plan.head:
            found = self._reached(wanted).withColumn("is_gone", F.lit(False))
        published = self._plan.published
        if published and published.carried.max_tombstone:
            deleted = self._tombstones.known(wanted)
            if deleted is not None:
                found = found.unionByName(deleted.withColumn("is_gone", F.lit(True)))
        newest = F.max(F.struct("known_position", "is_gone")).alias("newest")
        return found.groupBy("known_key").agg(newest).select("known_key", "newest.*")

    def _reached(self, wanted: DataFrame) -> DataFrame:
        """Returns the newest position that a history knows of these keys, for each version."""
        key = F.struct(*(F.col(sql.quote(each)) for each in self._plan.schema.key))
        read = F.array_max(F.transform(sql.READ_AGAIN, lambda each: each.getField("position")))
        newest = F.greatest(F.col(sql.POSITION), sql.END_POSITION, read)
        rows = lake_table(self._spark, self._catalog, self._plan, None)
        packed = rows.select(key.alias("known_key"), newest.alias("known_position"))
        keys = hinted(wanted.select(F.col("key").alias("wanted")), wanted.count())
        return packed.join(keys, packed["known_key"] == keys["wanted"], "left_semi")

    def _event_at(self, position: str) -> Expression:
        order = order_of(self._plan.layout.scheme)
        return order.event_at(F.col(position)).alias("at")

    def _ended(self) -> DataFrame | None:
        """Returns where a history knows deletes (``at``), whether or not they ended a version."""
        entries, found = self._tombstones.entries(), None
        if entries is not None:
            found = entries.where(F.col(sql.OP) == "d").select(self._event_at(sql.POSITION))
        if not self._plan.head:
            return found
        rows = lake_table(self._spark, self._catalog, self._plan, None)
        ended = rows.where(F.col(sql.ENDED_BY) == "d").select(self._event_at(sql.END_POSITION))
        return ended if found is None else ended.unionByName(found)
