"""Resolves changed keys whose delete and create come in different batches.

A create with a placeholder whose delete is not in the batch may hold text of the user's, or leave
alone a value whose row is gone. The cases, in this order:

1. A delete that was merged as part of the create's own event makes it a change of key. If the
   lake has the row of that very change, it is a redelivery, and its values are those of the row.
   Otherwise the value is lost: the change is refused.
2. Where the batch ends between transactions that its records name, the delete would be there: the
   text is data.
3. In a topic of several partitions the delete may still come: the change is refused. With one
   partition it would have come before, and the text is data.

In doubt a change is refused: a placeholder that is stored as data would never be noticed.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.formats.order import order_of
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.tables.known import Known


def told(found: DataFrame, plan: BatchPlan, known: Known) -> DataFrame:
    """Adds to the result of `moves` what is known of creates whose deletes are not in the batch.

    Args:
        found: ``at`` of `Order.event_at`, ``is_moved``, and others.
        plan: of the batch.
        known: look-ups, in the columns that may be unset.
    """
    alone = found.where("NOT is_moved").select("at")
    if alone.isEmpty():
        return found
    before = known.given_up(alone)
    gone = alone.join(before.withColumn("was_given_up", F.lit(True)), "at", "left")
    may_follow = plan.partitions > 1 and not plan.is_aligned
    moved = F.coalesce(F.col("was_given_up"), F.lit(may_follow))
    joined = found.join(gone.select("at", moved.alias("is_apart")), "at", "left")
    is_moved = F.col("is_moved") | F.coalesce("is_apart", F.lit(False))
    return joined.withColumn("is_moved", is_moved).drop("is_apart")


def sent_again(found: DataFrame, changes: DataFrame, plan: BatchPlan, known: Known) -> DataFrame:
    """Adds rows to moves that are redelivered: those that the lake has from these very changes.

    The arguments are those of `told`, and the decoded changes with their ``at``. Moves without
    such a row stay incomplete.
    """
    left = found.where("is_moved AND carried IS NULL").select("at")
    if left.isEmpty():
        return found
    joined = found.join(_rows_of(changes, left, plan, known), "at", "left")
    carried = F.coalesce("carried", "carried_again")
    return joined.withColumn("carried", carried).drop("carried_again")


def _rows_of(changes: DataFrame, placed: DataFrame, plan: BatchPlan, known: Known) -> DataFrame:
    """Returns ``at carried_again``, the lake's rows that are of these very events."""
    mine = changes.where("in_doubt").join(placed, "at")
    rows = known.rows(mine)
    of = order_of(plan.layout.scheme).event_at(F.col("known_position"))
    same = mine.join(rows, mine["key"] == rows["known_key"]).where(of == F.col("at"))
    names = frozenset(known.columns)

    def value(name: str) -> Expression:
        now = F.col("row").getField(name)
        if name not in names:
            return now.alias(name)
        held = F.col("known_row").getField(name)
        return F.when(F.col("unset").getField(name), held).otherwise(now).alias(name)

    row = F.struct(*(value(name) for name in plan.schema.names))
    return same.select("at", row.alias("carried_again")).dropDuplicates(["at"])
