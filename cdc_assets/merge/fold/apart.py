"""Resolves changed keys whose delete and create come in different batches.

A create with a placeholder whose delete is not in the batch may hold text of the user's, or leave
alone a value whose row is gone. The cases, in this order:

1. Where batches hold whole transactions, the delete would be there: the text is data.
2. A delete that was merged at the create's own source position makes it a change of key. If the
   lake has the row of that very change, it is a redelivery, and its values are those of the row.
   Otherwise the value is lost: the change is refused.
3. In a topic of several partitions the delete may still come: the change is refused. With one
   partition it would have come before, and the text is data.

In doubt a change is refused: a placeholder that is stored as data would never be noticed.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.formats.order import position_bytes
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.tables.known import Known

_NUMBER_BYTES: Final = 8


def told(found: DataFrame, plan: BatchPlan, known: Known) -> DataFrame:
    """Adds to the result of `moves` what is known of creates whose deletes are not in the batch.

    Args:
        found: the numbers of the position without the offset, ``is_moved``, ``from_key``,
            ``carried``.
        plan: of the batch.
        known: look-ups, in the columns that may be unset.
    """
    alone = found.where("NOT is_moved")
    if plan.is_aligned or alone.isEmpty():
        return found
    source = plan.numbers[:-1]
    placed = alone.select(*source, position_bytes(source).alias("at"))
    before = known.given_up(placed.select("at"), _NUMBER_BYTES * len(source))
    gone = placed.join(before.withColumn("was_given_up", F.lit(True)), "at", "left")
    moved = F.coalesce(F.col("was_given_up"), F.lit(plan.partitions > 1))
    apart = gone.select(*source, moved.alias("is_apart"))
    joined = found.join(apart, list(source), "left")
    is_moved = F.col("is_moved") | F.coalesce("is_apart", F.lit(False))
    return joined.select(*source, is_moved.alias("is_moved"), "from_key", "carried")


def sent_again(found: DataFrame, changes: DataFrame, plan: BatchPlan, known: Known) -> DataFrame:
    """Adds rows to moves that are redelivered: those that the lake has from these very changes.

    The arguments are those of `told`, and the decoded changes. Moves without such a row stay
    incomplete.
    """
    source = plan.numbers[:-1]
    left = found.where("is_moved AND carried IS NULL").select(*source)
    if left.isEmpty():
        return found
    placed = left.withColumn("at", position_bytes(source))
    joined = found.join(_rows_of(changes, placed, plan, known), list(source), "left")
    carried = F.coalesce("carried", "carried_again").alias("carried")
    return joined.select(*source, "is_moved", "from_key", carried)


def _rows_of(changes: DataFrame, placed: DataFrame, plan: BatchPlan, known: Known) -> DataFrame:
    """Returns ``carried_again``, the lake's rows of the changes at these places."""
    source = plan.numbers[:-1]
    mine = changes.where("in_doubt").join(placed, list(source))
    rows = known.rows(mine)
    width = _NUMBER_BYTES * len(source)
    same = mine.join(rows, mine["key"] == rows["known_key"]).where(
        F.substring("known_position", 1, width) == F.col("at")
    )
    names = frozenset(known.columns)

    def value(name: str) -> Expression:
        now = F.col("row").getField(name)
        if name not in names:
            return now.alias(name)
        held = F.col("known_row").getField(name)
        return F.when(F.col("unset").getField(name), held).otherwise(now).alias(name)

    row = F.struct(*(value(name) for name in plan.schema.names))
    return same.select(*source, row.alias("carried_again")).dropDuplicates(list(source))
