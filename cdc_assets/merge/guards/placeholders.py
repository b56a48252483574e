"""Completes creates of changed keys whose update did not change large values.

A changed key is a delete of the old key and a create of the new key, of one event. A large value
that the update did not change is not logged: the create then holds the placeholder, and the value
is in the row of the old key. In any other create the same text is data.

A *move* is identified by the numbers that all deliveries of its event share (`Order.event_at`):
not by the Kafka offset, nor by the last commit, which a recreated connector does not know, nor by
the low watermark, which may differ between the partitions of the delete and the create.

The delete and the create may come in different batches. A create with a placeholder whose delete
is not in the batch may hold text of the user's, or leave alone a value whose row is gone. The
cases, in this order:

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

from dataclasses import replace
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc_assets.changes.mode import Mode
from cdc_assets.formats.order import order_of, position_bytes
from cdc_assets.lake.carried import Carried
from cdc_assets.merge.fold.changeset import Knowledge
from cdc_assets.merge.fold.context import Pass
from cdc_assets.merge.fold.newest import FOLDED, completed, set_values
from cdc_assets.merge.guards.guard import Guard
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements.joins import hinted
from cdc_assets.merge.statements.pinning import pinned, pinned_in_rounds
from cdc_assets.merge.tables.lookups import KeyLookups

_MOVE: Final = ("at", "is_moved", "from_key", "given_at", "carried")
"""Columns of a move, see `moves`."""
_IS_OPEN: Final = "from_key IS NOT NULL AND carried IS NULL"
_CHAIN: Final = 8
"""Limit for changes of one key in a batch over which a large value is carried."""


class Placeholders(Guard):
    """Decides which creates with a placeholder are changed keys, and completes their rows."""

    case = "a create may be a changed key that left a large value alone"

    def learn(self, this: Pass, known: Knowledge) -> Knowledge:
        """Adds which of them are, and their rows."""
        if not (this.figures.signs["in_doubt"] and len(this.plan.numbers) > 1):
            return known
        plan, omittable = this.plan, this.batch.decoder.omittable
        rows = self.means.lookups(this.batch, omittable)
        with self.means.steps.step("look up"):
            decoded = this.batch.changes.decoded(known)
            if plan.mode is Mode.CHANGELOG:  # a left-out value is not looked up
                found = pinned(incomplete_moves(decoded, plan, rows))
            else:
                found = moves(decoded, plan, rows, omittable)

        def amend(changes: DataFrame) -> DataFrame:
            return with_moves(with_event(changes, plan), found, omittable).drop(*_MOVE)

        return known.amended(amend)

    def carry(self, carried: Carried, last: Pass) -> Carried:
        """Notes that a shadow table read from the source had such creates, to be checked.

        Where a condition chooses the table's rows, a change that left values alone may have been
        passed over although its row exists: the row did not match when rows were read.
        """
        shadow = carried.shadow
        if shadow is None:
            return carried
        more = last.figures.signs["in_doubt"]
        more += last.folded.partial if last.plan.condition is not None else 0
        return replace(carried, shadow=shadow.with_doubts(more, last.plan.start))


def moves(
    changes: DataFrame, plan: BatchPlan, known: KeyLookups, omittable: tuple[str, ...]
) -> DataFrame:
    """Decides whether creates with a placeholder are data or moves, and completes the moves' rows.

    Args:
        changes: decoded ones that can be merged.
        plan: of the batch.
        known: look-ups.
        omittable: columns that may be unset.

    Returns:
        ``at`` of `Order.event_at`; ``is_moved``; ``from_key``, NULL if it is not a single key;
        ``given_at``: position of its delete, without the offset, the lowest if it came several
        times; ``carried``: the completed row, NULL if it cannot be completed.
    """
    changes, found = with_event(changes, plan), incomplete_moves(changes, plan, known)
    keys = found.where(_IS_OPEN).select(F.col("from_key").alias("key")).distinct()
    count = keys.count()
    if not count:
        return pinned(sent_again(found, changes, plan, known))
    # All that follows uses these repeatedly, so the log and the lake are read for them only once.
    changes = pinned(_concerned(changes, keys, count))
    rows = pinned(known.rows(keys, count=count))
    for _ in range(_CHAIN):
        whole = pinned(_carried(changes, found, plan, rows, omittable))
        if whole.isEmpty():
            break
        made = found.join(whole, "at", "left")
        row = F.coalesce("carried", "carried_now")
        found = pinned_in_rounds(made.withColumn("carried", row).drop("carried_now"))
        if found.where(_IS_OPEN).isEmpty():
            break
    return pinned(sent_again(found, changes, plan, known))


def incomplete_moves(changes: DataFrame, plan: BatchPlan, known: KeyLookups) -> DataFrame:
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
    return with_known_deletes(found, plan, known)


def with_event(changes: DataFrame, plan: BatchPlan) -> DataFrame:
    """Adds ``at``, which identifies the event of a change."""
    order = order_of(plan.layout.scheme)
    return changes.withColumn("at", order.event_at(position_bytes(plan.numbers)))


def _concerned(changes: DataFrame, keys: DataFrame, count: int) -> DataFrame:
    """Returns the changes in doubt, and all changes of these keys."""
    wanted = hinted(keys.select(F.col("key").alias("wanted")), count)
    joined = changes.join(wanted, changes["key"] == wanted["wanted"], "left")
    return joined.where("in_doubt OR wanted IS NOT NULL").drop("wanted")


def with_moves(changes: DataFrame, found: DataFrame, omittable: tuple[str, ...]) -> DataFrame:
    """Applies the result of `moves` to changes with their ``at``.

    Rows of moves are completed, and data stays data. The result's columns are added.
    """
    own = found.withColumn("in_doubt", F.lit(True))
    # No hint: the rows may be large, and Spark knows their size when it comes to the join.
    joined = changes.join(own, ["at", "in_doubt"], "left")
    keeps = F.col("is_moved").isNull() | (F.col("is_moved") & F.col("carried").isNull())
    flags = ((F.col("unset").getField(name) & keeps).alias(name) for name in omittable)
    return joined.withColumns({"row": F.coalesce("carried", "row"), "unset": F.struct(*flags)})


def _carried(
    changes: DataFrame,
    found: DataFrame,
    plan: BatchPlan,
    rows: DataFrame,
    omittable: tuple[str, ...],
) -> DataFrame:
    """Returns ``carried_now`` of moves that their old keys' values of that time can complete.

    Of a key that was changed away several times, only the first move that is not completed yet.
    """
    history = with_moves(changes, found, omittable)
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
    until = hinted(as_old.select(F.col("key").alias("moved_key"), moved_at), count)
    before = history.join(until, history["key"] == until["moved_key"])
    mine = before.where("position < moved_at").drop("moved_key", "moved_at")
    there = rows.join(until, rows["known_key"] == until["moved_key"])
    there = there.where("known_position < moved_at")
    positions = there.select("known_key", "known_position")
    values = set_values(mine, partial, positions, omittable, count=count, keep_deleted=plan.soft)
    existing = there.select("known_key", "known_row")
    made = completed(partial, values, existing, omittable, plan.schema.names)
    place = ["partition", "offset"]
    back = todo.select(*place, "at")
    whole = made.where("NOT incomplete").select(*place, F.col("row").alias("carried_now"))
    return back.join(whole, place).select("at", "carried_now")


def with_known_deletes(found: DataFrame, plan: BatchPlan, known: KeyLookups) -> DataFrame:
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


def sent_again(
    found: DataFrame, changes: DataFrame, plan: BatchPlan, known: KeyLookups
) -> DataFrame:
    """Adds rows to moves that are redelivered: those that the lake has from these very changes.

    The arguments are those of `with_known_deletes`, and the decoded changes with their ``at``.
    Moves without such a row stay incomplete.
    """
    left = found.where("is_moved AND carried IS NULL").select("at")
    if left.isEmpty():
        return found
    joined = found.join(_rows_of(changes, left, plan, known), "at", "left")
    carried = F.coalesce("carried", "carried_again")
    return joined.withColumn("carried", carried).drop("carried_again")


def _rows_of(
    changes: DataFrame, placed: DataFrame, plan: BatchPlan, known: KeyLookups
) -> DataFrame:
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
