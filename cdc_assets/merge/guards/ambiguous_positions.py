"""Finds changes that share a place in the source's log, so that their order is unknown.

MySQL gives the events in a compressed transaction (``binlog_transaction_compression``) no places of
their own. Debezium's changes of all of them then have the transaction's, and rows that count from 0
again in each: of two changes of a row the older may seem to be newer, or sent twice. So it is with
every transaction of MariaDB 11.4 and later, if the connector for MySQL reads it.

Two things show it, of which the first holds however often a change is sent again:

1. Different changes of one kind at one place and row. A change of a key is a delete and a create
   there.
2. Changes of one key at one place that came, each for the first time, in another order than that of
   their rows, or at one row. An event changes a key once, or frees it at a row and gives it away
   at the same or a later one (``UPDATE t SET id = id - 1``); of these the delete is sent first.

A change came for the first time if its place is above all that were merged from its partition, and
nothing in the batch before it is the same. One that was merged before proves nothing by its order:
a connector that starts again within an event sends the rows from before the batch after those in
it. So changes of one transaction that are in two batches are not compared by 2.

A table without a key finds such changes when it counts (`cdc_assets.merge.apply.multiset`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.errors import TerminalError
from cdc_assets.formats.order import position_bytes
from cdc_assets.merge.fold.context import Pass
from cdc_assets.merge.guards.guard import Guard
from cdc_assets.merge.plan.plan import BatchPlan

_REMEDY: Final = (
    "SET GLOBAL binlog_transaction_compression=OFF for all sessions, or use the connector for "
    "MariaDB for one; then build the table from a new snapshot: "
    "cdc-assets rebuild TABLE --from-snapshot"
)


class SharedPlaces(Guard):
    """Stops a table for which seeming redeliveries are different changes at the same place."""

    case = "changes may share a place in the binlog"

    def settle(self, last: Pass) -> Pass:
        """Checks the places of a batch's changes, where changes may share one.

        Raises:
            TerminalError: see `require_places_of_their_own`.
        """
        if last.plan.repeats_places and last.plan.schema.key:
            with self.look("look for changes at one place"):
                decoded = last.batch.changes.decoded(last.knowledge)
                require_places_of_their_own(decoded, last.plan)
        return last


def require_places_of_their_own(changes: DataFrame, plan: BatchPlan) -> None:
    """Fails if changes of a batch share a place, so that their order is unknown.

    Args:
        changes: of rows, of a table with a key.
        plan: of the batch.

    Raises:
        TerminalError: names the first place's last record.
    """
    found = not_in_order(changes, plan.numbers, _merged(plan))
    first = found.agg(F.min("last").alias("first")).collect()[0]["first"]
    if first is None:
        return
    what = (
        "different changes have one place in the binlog, as those of a compressed transaction do "
        "(binlog_transaction_compression): it is unknown which are newer"
    )
    where = f"table={plan.entry.table} {Coordinate(plan.entry.topic, *first)}"
    raise TerminalError(what, where=where, remedy=_REMEDY, page="shared-position")


def _merged(plan: BatchPlan) -> dict[int, str]:
    """Returns by partition the highest position merged; none if earlier records are unread."""
    known = [each.partition for each in plan.ranges if plan.published or not each.start]
    return plan.applied_before(known)


def not_in_order(
    changes: DataFrame, numbers: tuple[str, ...], merged: Mapping[int, str]
) -> DataFrame:
    """Returns the places, by kind of change, at which changes have no order.

    Args:
        changes: of rows, of a table with a key.
        numbers: columns of their positions: those of the place, the row, the offset.
        merged: by partition the highest position merged before, hexadecimal; empty if nothing was.
            In a partition that is not named the order in which changes came shows nothing.

    Returns:
        The columns of place and row, ``op``, and ``last``: partition and offset of the last record.
    """
    *place, row, _ = numbers
    content = F.xxhash64("key", "row")
    streamed = changes.where("op != 'r'").select(
        "partition", "offset", "op", "key", *place, row, content.alias("content")
    )
    of_key = ("partition", "key", *place)
    ends = {"first": F.min("offset"), "last": F.max("offset")}
    contents = {"lowest": F.min("content"), "highest": F.max("content")}
    each = (
        streamed.repartition(*of_key)
        .groupBy(*of_key, row, "op")
        .agg(*(found.alias(name) for name, found in (ends | contents).items()))
    )
    is_new = F.coalesce(_above((*place, row), merged), F.lit(False))
    came = Window.partitionBy(*of_key, "is_new").orderBy("first")
    before, op_before = F.lag(row).over(came), F.lag("op").over(came)
    is_moved = (before == F.col(row)) & (op_before == "d") & (F.col("op") == "c")
    descends = F.col("is_new") & (before >= F.col(row)) & ~is_moved
    judged = each.withColumn("is_new", is_new).withColumn("descends", descends)
    differ = F.min("lowest") != F.max("highest")
    by_place = judged.groupBy(*place, row, "op").agg(
        (differ | F.coalesce(F.bool_or("descends"), F.lit(False))).alias("is_torn"),
        F.max(F.struct("partition", "last")).alias("last"),
    )
    return by_place.where("is_torn").drop("is_torn")


def _above(numbers: tuple[str, ...], merged: Mapping[int, str]) -> Expression:
    """Whether a place is above all merged places of its partition; NULL if unknown.

    A merged position has the offset after the numbers compared: its own place is not above it.
    """
    pairs = [F.lit(each) for pair in merged.items() for each in pair]
    if not pairs:
        return F.lit(None).cast("boolean")
    return position_bytes(numbers) > F.unhex(F.create_map(*pairs)[F.col("partition")])
