"""Folds the changes of a key into the newest one, and completes its row.

The newest change of a key is found by one window over the position. Spark limits such a
window to one row per key before it shuffles, so that only the newest changes are shuffled.

A newest change may be partial: some columns hold the "unchanged" placeholder. Then, for those
keys only, the older changes of the batch are examined column by column: a column takes the newest
value set after the last delete, or else the table's value.

A create begins a new row: a value that it leaves out (`cdc_assets.merge.guards.placeholders`) is
not that of an earlier row of its key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc_assets.formats.flat import any_of
from cdc_assets.formats.order import position_bytes
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.joins import hinted
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets.schema.row_condition import columns_of

_KEPT: Final = ("op", "partition", "offset", "ts", "told_ms", "key", "row", "unset")
FOLDED: Final = (*_KEPT, "position", "partial")
_FEW: Final = 32
"""Up to this many columns one plan does it all; with more, Spark would take longer to optimize and
compile it than to write an intermediate result."""


def newest_by_key(
    changes: DataFrame,
    key: tuple[str, ...],
    numbers: tuple[str, ...],
    omittable: tuple[str, ...],
    of_all: Mapping[str, Expression] | None = None,
) -> DataFrame:
    """Returns the change with the highest position of each key, as ``FOLDED`` columns.

    Args:
        changes: of the batch.
        key: names of its columns.
        numbers: of the position.
        omittable: columns that ``unset`` has.
        of_all: aggregates of all changes of a key, by the names of columns to be added. With them
            all changes are shuffled.
    """
    by_key = Window.partitionBy(*(F.col("key").getField(name) for name in key))
    order = by_key.orderBy(*(F.col(number).desc() for number in numbers))
    ranked = changes.withColumn("rank", F.row_number().over(order))
    whole = order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    also = {name: each.over(whole) for name, each in (of_all or {}).items()}
    if also:
        ranked = ranked.withColumns(also)
    return ranked.where("rank = 1").select(
        *_KEPT,
        position_bytes(numbers).alias("position"),
        any_of(F.col("unset").getField(name) for name in omittable).alias("partial"),
        *also,
    )


def matching_alone(
    folded: DataFrame, plan: BatchPlan, unset: tuple[str, ...], is_open: Expression | None = None
) -> DataFrame:
    """Returns folded changes in which a row that the table does not get is a delete of its key.

    Args:
        folded: `FOLDED` columns and others.
        plan: of the batch; has the condition on the table's rows.
        unset: columns that ``unset`` has.
        is_open: of which changes a column of the condition is unset; None for those of ``unset``.
    """
    condition, schema = plan.condition, plan.schema
    if condition is None:
        return folded
    if is_open is None:
        known = columns_of(condition)
        is_open = any_of(F.col("unset").getField(name) for name in unset if name in known)
    matches = F.coalesce(F.expr(sql.condition(condition, schema, "row")), F.lit(False))
    is_gone = (F.col("op") != "d") & ~is_open & ~matches
    return folded.withColumns(
        {
            "op": F.when(is_gone, "d").otherwise(F.col("op")),
            "partial": F.col("partial") & ~is_gone,
        }
    )


def not_newer(newest: DataFrame, known: DataFrame, count: int) -> DataFrame:
    """Returns the keys (``stale``) of changes that are not newer than what is known of them.

    Args:
        newest: one change per key.
        known: ``known_key``, ``known_position``: of the table's rows and of remembered deletes;
            at most one row per key.
        count: number of keys.
    """
    joined = newest.join(hinted(known, count), newest["key"] == known["known_key"])
    return joined.where("position <= known_position").select(F.col("key").alias("stale"))


def set_values(
    changes: DataFrame,
    partial: DataFrame,
    known: DataFrame,
    omittable: tuple[str, ...],
    *,
    count: int,
    keep_deleted: bool,
) -> DataFrame:
    """Returns the newest value that the batch sets in each omittable column of a partial key.

    Args:
        changes: of the batch, with their ``position``.
        partial: the newest changes that are partial; their keys are looked for.
        known: ``known_key``, ``known_position``, to leave out changes that the table has.
        omittable: the columns that may be unset.
        count: number of keys, partial or not.
        keep_deleted: whether a delete keeps the row's values; if not, only values set after it
            count.

    Returns:
        ``set_key``, ``was_deleted``, ``was_begun`` (by a create that leaves columns out, if
        nothing deleted it since) and ``in_batch``: per column a struct of one field ``v``, NULL if
        the batch sets no value after the key's last delete.
    """
    wanted = partial.select(F.col("key").alias("wanted"))
    mine = changes.join(hinted(wanted, count), changes["key"] == wanted["wanted"], "left_semi")
    mine = mine.join(hinted(known, count), mine["key"] == known["known_key"], "left")
    mine = mine.where("known_position IS NULL OR position > known_position")
    is_partial = any_of(F.col("unset").getField(name) for name in omittable)
    begins = (F.col("op") == "c") & is_partial
    resets = begins if keep_deleted else begins | (F.col("op") == "d")
    flat = mine.select(
        "key",
        F.when(resets, F.col("position")).alias("reset_at"),
        F.when(begins, F.col("position")).alias("begun_at"),
        *(_set_at(name).alias(f"c{i}") for i, name in enumerate(omittable)),
    )
    if len(omittable) > _FEW:
        flat = pinned(flat)
    newest = (F.max_by(f"c{i}", f"c{i}.at").alias(f"c{i}") for i in range(len(omittable)))
    folded = flat.groupBy("key").agg(
        F.max("reset_at").alias("reset_at"), F.max("begun_at").alias("begun_at"), *newest
    )
    alive = (_since_reset(F.col(f"c{i}")).alias(name) for i, name in enumerate(omittable))
    return folded.select(
        F.col("key").alias("set_key"),
        F.col("reset_at").isNotNull().alias("was_deleted"),
        F.coalesce(F.col("begun_at") == F.col("reset_at"), F.lit(False)).alias("was_begun"),
        F.struct(*alive).alias("in_batch"),
    )


def left_alone(partial: DataFrame, omittable: tuple[str, ...]) -> tuple[str, ...]:
    """Returns those of the columns that one of these changes leaves alone; all if they are few.

    Of hundreds of columns that may hold large values, only some do.
    """
    if len(omittable) <= _FEW:
        return omittable
    used = partial.agg(
        *(F.max(F.col("unset").getField(name)).alias(f"c{i}") for i, name in enumerate(omittable))
    ).collect()[0]
    return tuple(name for i, name in enumerate(omittable) if used[f"c{i}"])


def _set_at(name: str) -> Expression:
    is_set = F.col("row").isNotNull() & ~F.col("unset").getField(name)
    return F.when(
        is_set, F.struct(F.col("row").getField(name).alias("v"), F.col("position").alias("at"))
    )


def _since_reset(value: Expression) -> Expression:
    fresh = F.col("reset_at").isNull() | (value.getField("at") >= F.col("reset_at"))
    return F.when(value.isNotNull() & fresh, F.struct(value.getField("v").alias("v")))


def completed(
    partial: DataFrame,
    values: DataFrame,
    existing: DataFrame,
    omittable: tuple[str, ...],
    names: tuple[str, ...],
    may_lack: Expression | None = None,
) -> DataFrame:
    """Completes the rows of partial changes; ``incomplete`` marks those that cannot be completed.

    Args:
        partial: newest changes that are partial.
        values: of `set_values`.
        existing: ``known_key`` and ``known_row``, a struct of the columns that may be unset.
        omittable: those columns.
        names: all columns.
        may_lack: of which changes a row that the batch begins may lack values, which are NULL then;
            None for no change.
    """
    joined = partial.join(values, partial["key"] == values["set_key"], "left").join(
        existing, partial["key"] == existing["known_key"], "left"
    )
    may_be_unset = frozenset(omittable)
    has_row = F.col("known_row").isNotNull() & ~F.coalesce(F.col("was_deleted"), F.lit(False))

    def whole(name: str) -> Expression:
        current = F.col("row").getField(name)
        if name not in may_be_unset:
            return current.alias(name)
        in_batch = F.col("in_batch").getField(name)
        in_lake = F.when(has_row, F.col("known_row").getField(name))
        kept = F.when(in_batch.isNotNull(), in_batch.getField("v")).otherwise(in_lake)
        return F.when(F.col("unset").getField(name), kept).otherwise(current).alias(name)

    def lost(name: str) -> Expression:
        # A delete that keeps its row but finds none writes the key alone: nothing is incomplete.
        unset = F.col("unset").getField(name) & (F.col("op") != "d")
        return unset & F.col("in_batch").getField(name).isNull() & ~has_row

    others = [column for column in FOLDED if column != "row"]
    incomplete = any_of(lost(name) for name in omittable)
    if may_lack is not None:
        incomplete = incomplete & ~(may_lack & F.coalesce(F.col("was_begun"), F.lit(False)))
    return joined.select(
        *others,
        F.struct(*(whole(name) for name in names)).alias("row"),
        incomplete.alias("incomplete"),
    ).select(*FOLDED, "incomplete")
