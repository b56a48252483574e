"""Tables that hold each change as a row: a batch appends the changes that are not there yet.

Nothing is folded, nothing deleted, and nothing remembered beside the table. Each row says which
change it is (``_cdc_event``), so that one that is delivered again, or replayed, is told:

1. A change has the source's position, without the Kafka offset and whatever else depends on the
   connector's starts (`Order.told_again`), beside its kind and key. Where several changes may have
   these in common (rows without a key, MariaDB) also its place in its transaction, or else its
   content. A place that two contents have was numbered anew: the table stops.
2. A row of a snapshot is read, not changed, and a second reading is another one: it is told by its
   coordinate. So is everything where positions tell no change.
3. The table is looked at only if the batch may hold a change that it has: a replay, or positions
   that are not above all that was applied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.changes.position import Scheme
from cdc_assets.errors import RejectedRecordError
from cdc_assets.formats.order import NUMBERS, order_of, position_bytes
from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.apply.multiset import without_offset
from cdc_assets.merge.intake.observe import BatchFigures
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.joins import sent
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets.merge.statements.steps import Steps
from cdc_assets.merge.tables.known import lake_table

_KEPT: Final = (
    "op", "partition", "offset", "ts", "told_ms", "position", "key", "row", "old_row", "unset",
    "event", "is_numbered",
)  # fmt: skip
_CONTENT_BYTES: Final = 8
_BY_LSN: Final = frozenset({Scheme.POSTGRES})
_TOLD: Final = f"substring(event, 1, length(event) - {_CONTENT_BYTES})"


@dataclass(frozen=True, slots=True)
class _Telling:
    """By what a table's changes are told.

    Attributes:
        by_position: by the source's positions; else by coordinates.
        is_unique: position, kind and key are enough.
    """

    by_position: bool
    is_unique: bool

    @classmethod
    def of(cls, plan: BatchPlan) -> _Telling:
        order, keyed = order_of(plan.layout.scheme), bool(plan.schema.key)
        by_key = keyed and order.tells_changes
        by_position = by_key or order.tells_repeats
        return cls(by_position, by_key or not by_position or (not keyed and order.is_unique))


def recordable(changes: DataFrame, plan: BatchPlan) -> DataFrame:
    """The changes with ``position`` and ``event``, as `ChangeLogTable` takes them."""
    named = changes.withColumns(
        {
            "position": position_bytes(plan.numbers),
            "event": _event(plan),
            "is_numbered": F.col("ordinal").isNotNull() | F.lit(_Telling.of(plan).is_unique),
        }
    )
    return named.select(*_KEPT, F.lit(False).alias("partial"))


def _event(plan: BatchPlan) -> Expression:
    telling, order = _Telling.of(plan), order_of(plan.layout.scheme)
    key = [F.col("key").getField(name).cast("string") for name in plan.schema.key]
    none = F.lit(0).cast("bigint")
    place = [F.col("partition"), F.col(NUMBERS[plan.layout.scheme.numbers - 1])]
    at_coordinate = _bytes(*place, F.xxhash64(F.lit(plan.entry.topic), "op", *key), none)
    if not telling.by_position:
        return at_coordinate
    content = none if telling.is_unique else F.xxhash64("op", "row", "old_row")
    apart = [] if telling.is_unique else [F.coalesce("ordinal", content)]
    streamed = _bytes(*order.told_again(), F.xxhash64("op", *key, *apart), content)
    return F.when(F.col("op") == "r", at_coordinate).otherwise(streamed)


def _bytes(*numbers: Expression) -> Expression:
    return F.unhex(F.concat(*(F.lpad(F.hex(each.cast("bigint")), 16, "0") for each in numbers)))


def _first(changes: DataFrame) -> tuple[int, int] | None:
    """Partition and offset of the first of them."""
    return changes.agg(F.min(F.struct("partition", "offset")).alias("first")).collect()[0]["first"]


class ChangeLogTable:
    """The lake table while a batch is applied to it.

    Args:
        spark: the session.
        catalog: name of the lake's catalog.
        plan: of the batch.
        steps: measures.
        unset_able: columns that a change may leave alone.
    """

    def __init__(
        self,
        spark: SparkSession,
        catalog: str,
        plan: BatchPlan,
        steps: Steps,
        unset_able: tuple[str, ...],
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._plan = plan
        self._steps = steps
        self._unset_able = unset_able
        self._telling = _Telling.of(plan)

    def new(self, frame: DataFrame, figures: BatchFigures, count: int) -> DataFrame:
        """Those of the changes that the table has not, each once; pinned.

        Args:
            frame: of `recordable`, cached.
            figures: of the batch.
            count: how many changes there are.

        Raises:
            RejectedRecordError: if one that came twice cannot be told from two that are alike.
        """
        with self._steps.step("look for changes that are there"):
            told = frame.withColumn("told", F.expr(_TOLD))
            nth = F.row_number().over(Window.partitionBy("told").orderBy("partition", "offset"))
            ranked = told.withColumn("nth", nth)
            once, again = ranked.where("nth = 1").drop("nth"), ranked.where("nth > 1").drop("nth")
            there = self._there(told, count) if self._may_repeat(frame, figures) else None
            if not self._telling.is_unique:
                self._require_told(told, once, again, there)
            if there is not None:
                keys = sent(there.select("told").distinct(), there.count())
                once = once.join(keys, "told", "left_anti")
            return pinned(once.drop("told"))

    def write(self, new: DataFrame, branch: Branch, properties: dict[str, str]) -> None:
        """Append them."""
        with self._steps.step("append rows"):
            branch.append(self._rows(new).sortWithinPartitions(sql.POSITION), properties)

    # ── what is there ────────────────────────────────────────────────────────────────────

    def _may_repeat(self, frame: DataFrame, figures: BatchFigures) -> bool:
        """Whether the table may have one of the changes.

        A truncate has no key, and may come again in any partition. The position of a change without
        a last commit, or without an event, may be another one each time.
        """
        plan, published = self._plan, self._plan.published
        if published is None:
            return False
        if plan.replay:
            return True
        if not self._telling.by_position:
            return False
        odd = figures.by_op["t"] or figures.lone_tombstones or figures.min_floating is not None
        if odd:
            return True
        applied = published.carried.applied
        streamed = frame.where("op != 'r'").groupBy("partition")
        rows = streamed.agg(F.hex(F.min("position")).alias("lowest")).collect()
        lowest = {row["partition"]: row["lowest"] for row in rows}
        if not plan.layout.keyed or plan.partitions != published.carried.partitions:
            applied = dict.fromkeys(lowest, max(applied.values(), default=""))
        return any(
            without_offset(position) <= without_offset(applied.get(p, ""))
            for p, position in lowest.items()
        )

    def _there(self, told: DataFrame, count: int) -> DataFrame:
        """``told event known_place`` of the rows that the table has of these changes; pinned."""
        bounds = told.agg(F.min("event").alias("low"), F.max("event").alias("high")).collect()[0]
        if bounds["low"] is None:
            return told.select("told", "event", F.lit("").alias("known_place")).limit(0)
        low, high = (bytes(bounds[each])[:-_CONTENT_BYTES] for each in ("low", "high"))
        event, above = F.col(sql.EVENT), high + b"\xff" * (_CONTENT_BYTES + 1)
        # Files without any of them are passed over by what they say of their lowest and highest.
        rows = lake_table(self._spark, self._catalog, self._plan, None)
        known = rows.where((event >= F.lit(low)) & (event <= F.lit(above))).select(
            event.alias("event"),
            F.concat_ws(":", sql.TOPIC, sql.PARTITION, sql.OFFSET).alias("known_place"),
        )
        known = known.withColumn("told", F.expr(_TOLD))
        wanted = sent(told.select("told").distinct(), count)
        return pinned(known.join(wanted, "told", "left_semi"))

    # ── what cannot be told ──────────────────────────────────────────────────────────────

    def _require_told(
        self, told: DataFrame, once: DataFrame, again: DataFrame, there: DataFrame | None
    ) -> None:
        """That repeats are repeats.

        Raises:
            RejectedRecordError: if they may be changes of their own.
        """
        both = told.where("op != 'r'").select("told", "event", "partition", "offset")
        repeats = again
        if there is not None:
            place = F.concat_ws(":", F.lit(self._plan.entry.topic), "partition", "offset")
            places = there.select("told", "known_place")
            found = once.join(places, "told").where(place != F.col("known_place"))
            repeats = repeats.unionByName(found.drop("known_place"))
            both = both.unionByName(there.select("told", "event"), allowMissingColumns=True)
        unclear = repeats.where("NOT is_numbered AND op != 'r'")
        if self._plan.layout.scheme in _BY_LSN:
            unclear = unclear.where("op = 'c'")  # others are logged one by one
        if (at := _first(unclear)) is not None:
            what = (
                "a change has position and content of another one: delivered twice, or made twice"
            )
            remedy = (
                "set the connector's provide.transaction.metadata=true, then: cdc-assets rebuild"
            )
            raise RejectedRecordError(what, where=self._at(at), remedy=remedy)
        here = F.col("offset").isNotNull()
        contents = both.groupBy("told").agg(
            F.count_distinct("event").alias("n"),
            F.min(F.when(here, F.struct("partition", "offset"))).alias("place"),
        )
        found = contents.where("n > 1").agg(F.max("place").alias("first")).collect()[0]["first"]
        if found is not None:
            what = "two changes have one number in one transaction: it was numbered anew when sent"
            remedy = "which of them are new cannot be told: cdc-assets rebuild"
            raise RejectedRecordError(what, where=self._at(found), remedy=remedy)

    def _at(self, place: tuple[int, int]) -> str:
        at = Coordinate(self._plan.entry.topic, place[0], place[1])
        return f"table={self._plan.entry.table} {at}"

    # ── rows ─────────────────────────────────────────────────────────────────────────────

    def _rows(self, new: DataFrame) -> DataFrame:
        plan, is_delete = self._plan, F.col("op") == "d"
        names = [F.when(self._is_unset(name), F.lit(name)) for name in self._unset_able]
        unset = F.array_compact(F.array(*names)) if names else F.array().cast("array<string>")
        left_alone = F.when(F.size(unset) > 0, unset)

        def value(name: str) -> Expression:
            now = F.col("row").getField(name)
            if name in self._unset_able:
                now = F.when(~self._is_unset(name), now)
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
            left_alone.alias(sql.UNSET),
            F.col("event").alias(sql.EVENT),
        )

    def _is_unset(self, name: str) -> Expression:
        return F.coalesce(F.col("unset").getField(name) & F.col("op").isin("c", "u"), F.lit(False))
