"""Identifies changes, to distinguish redelivered and replayed changes from new ones.

1. A change is identified by the source's position, without the Kafka offset and other numbers that
   depend on the connector's starts (`Order.stable_numbers`), with its kind and key. Where several
   changes may share these (rows without a key, MariaDB), also by its number in its transaction, or
   else by its content. If two contents have one number, the transaction was renumbered: the table
   stops.
2. A row of a snapshot is read, not changed, and a second reading is a different event: the row is
   identified by its coordinate. So is every change where positions do not identify changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.changes.position import Scheme
from cdc_assets.errors import RejectedRecordError
from cdc_assets.formats.flat import any_of
from cdc_assets.formats.order import NUMBERS, order_of, position_bytes
from cdc_assets.merge.apply.content import content_of, require_whole_content
from cdc_assets.merge.plan.plan import BatchPlan

CONTENT_BYTES: Final = 8
"""Length of the content hash at the end of an event; the preceding bytes identify the change."""
CHANGE_ID: Final = f"substring(event, 1, length(event) - {CONTENT_BYTES})"
_KEPT: Final = (
    "op", "partition", "offset", "ts", "told_ms", "position", "key", "row", "old_row", "unset",
    "event", "is_numbered",
)  # fmt: skip
_BY_LSN: Final = frozenset({Scheme.POSTGRES})


@dataclass(frozen=True, slots=True)
class Identification:
    """The identification of a table's changes.

    Attributes:
        by_position: whether by the source's positions, or else by coordinates.
        is_unique: whether position, kind and key are enough.
    """

    by_position: bool
    is_unique: bool

    @classmethod
    def of(cls, plan: BatchPlan) -> Identification:
        """Returns the identification that follows from the table's order."""
        order, keyed = order_of(plan.layout.scheme), bool(plan.schema.key)
        by_key = keyed and order.tells_changes
        by_position = by_key or order.tells_repeats
        return cls(by_position, by_key or not by_position or (not keyed and order.is_unique))


def recordable(changes: DataFrame, plan: BatchPlan, omittable: tuple[str, ...] = ()) -> DataFrame:
    """Adds ``position``, ``event``, and ``partial``: whether any of these columns is unset."""
    is_partial = any_of(F.col("unset").getField(name) for name in omittable)
    named = changes.withColumns(
        {
            "position": position_bytes(plan.numbers),
            "event": _event(plan),
            "is_numbered": F.col("ordinal").isNotNull() | F.lit(Identification.of(plan).is_unique),
        }
    )
    partial = F.coalesce(is_partial & F.col("op").isin("c", "u"), F.lit(False))
    return named.select(*_KEPT, (partial if omittable else F.lit(False)).alias("partial"))


def first_deliveries(changes: DataFrame) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Adds ``change_id`` to changes; returns all, each change's first delivery, and the repeats."""
    events = changes.withColumn("change_id", F.expr(CHANGE_ID))
    nth = F.row_number().over(Window.partitionBy("change_id").orderBy("partition", "offset"))
    ranked = events.withColumn("nth", nth)
    return events, ranked.where("nth = 1").drop("nth"), ranked.where("nth > 1").drop("nth")


def unset_names(omittable: tuple[str, ...]) -> Expression:
    """Returns the names of the columns that a change leaves unchanged; NULL without any."""
    names = [F.when(is_unset(name), F.lit(name)) for name in omittable]
    unset = F.array_compact(F.array(*names)) if names else F.array().cast("array<string>")
    return F.when(F.size(unset) > 0, unset)


def is_unset(name: str) -> Expression:
    """Whether a change leaves a column alone."""
    return F.coalesce(F.col("unset").getField(name) & F.col("op").isin("c", "u"), F.lit(False))


def require_distinct(
    plan: BatchPlan,
    changes: tuple[DataFrame, DataFrame, DataFrame],
    there: DataFrame | None,
) -> None:
    """Fails if a redelivered change cannot be distinguished from a second, equal one.

    Args:
        plan: of the batch.
        changes: of `first_deliveries`.
        there: ``change_id event known_place`` of those that the table has; None if it has none.

    Raises:
        RejectedRecordError: if they may be changes of their own.
        TerminalError: see `require_whole_content`.
    """
    if there is not None:
        require_whole_content(plan)
    events, once, again = changes
    both = events.where("op != 'r'").select("change_id", "event", "partition", "offset")
    repeats = again
    if there is not None:
        place = F.concat_ws(":", F.lit(plan.entry.topic), "partition", "offset")
        places = there.select("change_id", "known_place")
        found = once.join(places, "change_id").where(place != F.col("known_place"))
        repeats = repeats.unionByName(found.drop("known_place"))
        both = both.unionByName(there.select("change_id", "event"), allowMissingColumns=True)
    unclear = repeats.where("NOT is_numbered AND op != 'r'")
    if plan.layout.scheme in _BY_LSN:
        unclear = unclear.where("op = 'c'")  # others are logged one by one
    if (at := _first(unclear)) is not None:
        what = "a change has position and content of another one: delivered twice, or made twice"
        remedy = (
            "set the connector's provide.transaction.metadata=true, then: cdc-assets rebuild TABLE"
        )
        raise RejectedRecordError(what, where=_at(plan, at), remedy=remedy)
    here = F.col("offset").isNotNull()
    contents = both.groupBy("change_id").agg(
        F.count_distinct("event").alias("n"),
        F.min(F.when(here, F.struct("partition", "offset"))).alias("place"),
    )
    found = contents.where("n > 1").agg(F.max("place").alias("first")).collect()[0]["first"]
    if found is not None:
        what = "two changes have one number in one transaction: a redelivery renumbered it"
        remedy = "it is unknown which of the two is new: cdc-assets rebuild TABLE"
        raise RejectedRecordError(
            what, where=_at(plan, found), remedy=remedy, page="renumbered-transaction"
        )


def _event(plan: BatchPlan) -> Expression:
    telling, order = Identification.of(plan), order_of(plan.layout.scheme)
    key = [F.col("key").getField(name).cast("string") for name in plan.schema.key]
    none = F.lit(0).cast("bigint")
    place = [F.col("partition"), F.col(NUMBERS[plan.layout.scheme.numbers - 1])]
    at_coordinate = _bytes(*place, F.xxhash64(F.lit(plan.entry.topic), "op", *key), none)
    if not telling.by_position:
        return at_coordinate
    content = none if telling.is_unique else content_of(plan.made, plan.schema)
    apart = [] if telling.is_unique else [F.coalesce("ordinal", content)]
    streamed = _bytes(*order.stable_numbers(), F.xxhash64("op", *key, *apart), content)
    return F.when(F.col("op") == "r", at_coordinate).otherwise(streamed)


def _bytes(*numbers: Expression) -> Expression:
    return F.unhex(F.concat(*(F.lpad(F.hex(each.cast("bigint")), 16, "0") for each in numbers)))


def _first(changes: DataFrame) -> tuple[int, int] | None:
    """Returns partition and offset of the first change; None without any."""
    return changes.agg(F.min(F.struct("partition", "offset")).alias("first")).collect()[0]["first"]


def _at(plan: BatchPlan, place: tuple[int, int]) -> str:
    at = Coordinate(plan.entry.topic, place[0], place[1])
    return f"table={plan.entry.table} {at}"
