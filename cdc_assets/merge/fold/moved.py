"""Completes creates of changed keys that left large values alone.

A changed key is a delete of the old key and a create of the new one, of one event. A large
value that the update left alone is not logged: the create then holds the placeholder, and the
value is that of the row of the old key. In any other create the same text is data.

A *move* is identified by what all deliveries of its event share (`Order.event_at`): not by the
Kafka offset, nor by the last commit, which a connector made anew does not know, nor by a read
floor, which the two may have different ones of in their partitions.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc_assets.formats.order import order_of, position_bytes
from cdc_assets.merge.fold.apart import sent_again, told
from cdc_assets.merge.fold.newest import FOLDED, completed, set_values
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements.joins import sent
from cdc_assets.merge.statements.pinning import pinned, pinned_in_rounds
from cdc_assets.merge.tables.known import Known

MOVE: Final = ("at", "is_moved", "from_key", "given_at", "carried")
"""Columns of a move, see `moves`."""
_IS_OPEN: Final = "from_key IS NOT NULL AND carried IS NULL"
_CHAIN: Final = 8
"""Limit for changes of one key in a batch over which a large value is carried."""


def moves(
    changes: DataFrame, plan: BatchPlan, known: Known, unset_able: tuple[str, ...]
) -> DataFrame:
    """Decides whether creates with a placeholder are data or moves, and completes the moves' rows.

    Args:
        changes: decoded ones that can be merged.
        plan: of the batch.
        known: look-ups.
        unset_able: columns that may be unset.

    Returns:
        ``at`` of `Order.event_at`; ``is_moved``; ``from_key``, NULL if it is not a single key;
        ``given_at``: position of its delete, without the offset, the lowest if it came several
        times; ``carried``: the completed row, NULL if it cannot be completed.
    """
    changes, found = with_event(changes, plan), told_moves(changes, plan, known)
    keys = found.where(_IS_OPEN).select(F.col("from_key").alias("key")).distinct()
    count = keys.count()
    if not count:
        return pinned(sent_again(found, changes, plan, known))
    # All that follows uses these repeatedly, so the log and the lake are read for them only once.
    changes = pinned(_concerned(changes, keys, count))
    rows = pinned(known.rows(keys, count=count))
    for _ in range(_CHAIN):
        whole = pinned(_carried(changes, found, plan, rows, unset_able))
        if whole.isEmpty():
            break
        made = found.join(whole, "at", "left")
        row = F.coalesce("carried", "carried_now")
        found = pinned_in_rounds(made.withColumn("carried", row).drop("carried_now"))
        if found.where(_IS_OPEN).isEmpty():
            break
    return pinned(sent_again(found, changes, plan, known))


def told_moves(changes: DataFrame, plan: BatchPlan, known: Known) -> DataFrame:
    """Does the same as `moves`, without completing rows."""
    given_up = F.when(F.col("op") == "d", F.col("key"))
    given_at = F.when(F.col("op") == "d", position_bytes(plan.numbers[:-1]))
    places = (
        with_event(changes.where("in_doubt OR op = 'd'"), plan)
        .groupBy("at")
        .agg(
            F.min(given_at).alias("given_at"),
            F.max("in_doubt").alias("in_doubt"),
            F.min(given_up).alias("lowest"),
            F.max(given_up).alias("highest"),
        )
    )
    row_type = changes.schema["row"].dataType
    found = pinned(
        places.where("in_doubt").select(
            "at",
            F.col("lowest").isNotNull().alias("is_moved"),
            F.when(F.col("lowest") == F.col("highest"), F.col("lowest")).alias("from_key"),
            "given_at",
            F.lit(None).cast(row_type).alias("carried"),
        )
    )
    return told(found, plan, known)


def with_event(changes: DataFrame, plan: BatchPlan) -> DataFrame:
    """Adds ``at``, which identifies the event of a change."""
    order = order_of(plan.layout.scheme)
    return changes.withColumn("at", order.event_at(position_bytes(plan.numbers)))


def _concerned(changes: DataFrame, keys: DataFrame, count: int) -> DataFrame:
    """Returns the changes in doubt, and all changes of these keys."""
    wanted = sent(keys.select(F.col("key").alias("wanted")), count)
    joined = changes.join(wanted, changes["key"] == wanted["wanted"], "left")
    return joined.where("in_doubt OR wanted IS NOT NULL").drop("wanted")


def settled(changes: DataFrame, found: DataFrame, unset_able: tuple[str, ...]) -> DataFrame:
    """Applies the result of `moves` to changes with their ``at``.

    Rows of moves are completed, and data stays data. The result's columns are added.
    """
    own = found.withColumn("in_doubt", F.lit(True))
    # No hint: the rows may be large, and Spark knows their size when it comes to the join.
    joined = changes.join(own, ["at", "in_doubt"], "left")
    keeps = F.col("is_moved").isNull() | (F.col("is_moved") & F.col("carried").isNull())
    flags = ((F.col("unset").getField(name) & keeps).alias(name) for name in unset_able)
    return joined.withColumns({"row": F.coalesce("carried", "row"), "unset": F.struct(*flags)})


def _carried(
    changes: DataFrame,
    found: DataFrame,
    plan: BatchPlan,
    rows: DataFrame,
    unset_able: tuple[str, ...],
) -> DataFrame:
    """Returns ``carried_now`` of moves that their old keys' values of that time can complete.

    Of a key that was changed away several times, only the first move that is not completed yet.
    """
    history = settled(changes, found, unset_able)
    history = history.withColumn("position", position_bytes(plan.numbers))
    asked = history.where(_IS_OPEN).dropDuplicates(["at"])
    turn = F.row_number().over(Window.partitionBy("from_key").orderBy("given_at"))
    todo = pinned(asked.withColumn("turn", turn).where("turn = 1").drop("turn"))
    as_old = todo.withColumn("key", F.col("from_key")).withColumn("partial", F.lit(True))
    partial = as_old.select(*FOLDED)
    # Without the offset: the delete of the old key is itself at this position, and must not
    # count among the changes before it. Nor does a row that the key has had since.
    moved_at = F.concat("given_at", F.lit(bytes(8))).alias("moved_at")
    count = todo.count()
    until = sent(as_old.select(F.col("key").alias("moved_key"), moved_at), count)
    before = history.join(until, history["key"] == until["moved_key"])
    mine = before.where("position < moved_at").drop("moved_key", "moved_at")
    there = rows.join(until, rows["known_key"] == until["moved_key"])
    there = there.where("known_position < moved_at")
    positions = there.select("known_key", "known_position")
    values = set_values(mine, partial, positions, unset_able, count=count, keep_deleted=plan.soft)
    existing = there.select("known_key", "known_row")
    made = completed(partial, values, existing, unset_able, plan.schema.names)
    place = ["partition", "offset"]
    back = todo.select(*place, "at")
    whole = made.where("NOT incomplete").select(*place, F.col("row").alias("carried_now"))
    return back.join(whole, place).select("at", "carried_now")
