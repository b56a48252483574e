"""Many changes of one key to the one that counts, and its row made whole.

The newest change of a key is found by one window over the position. Spark limits such a
window to one row per key before it shuffles, so that only survivors travel.

A newest change may be partial: columns that hold the "unchanged" placeholder. Then, for
those keys only, the older changes of the batch are looked at column by column: a column takes
the newest value set after the last delete, else the value that the table has.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import reduce
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

NUMBERS: Final = ("n0", "n1", "n2")
"""Columns of the position, most significant first."""

_KEPT: Final = ("op", "partition", "offset", "ts", "key", "row", "unset")
FOLDED: Final = (*_KEPT, "position", "partial")


def position_bytes(numbers: tuple[Expression, ...]) -> Expression:
    """The same bytes as `cdc_assets.changes.position.encode`."""
    return F.unhex(F.concat(*(F.lpad(F.hex(number), 16, "0") for number in numbers)))


def newest_by_key(
    changes: DataFrame, key: tuple[str, ...], unset_able: tuple[str, ...]
) -> DataFrame:
    """The change with the highest position of each key, as ``FOLDED`` columns."""
    by_key = Window.partitionBy(*(F.col("key").getField(name) for name in key))
    order = by_key.orderBy(*(F.col(number).desc() for number in NUMBERS))
    newest = changes.withColumn("rank", F.row_number().over(order)).where("rank = 1").drop("rank")
    return newest.select(
        *_KEPT,
        position_bytes(tuple(F.col(number) for number in NUMBERS)).alias("position"),
        _any(F.col("unset").getField(name) for name in unset_able).alias("partial"),
    )


def _any(flags: Iterable[Expression]) -> Expression:
    return reduce(operator.or_, flags, F.lit(False))


def only_newer(newest: DataFrame, known: DataFrame) -> DataFrame:
    """Drop changes that are not newer than what their key already carries.

    Args:
        newest: one change per key.
        known: ``key``, ``known_position``: of the table's rows and of remembered deletes;
            at most one row per key.
    """
    joined = newest.join(F.broadcast(known), newest["key"] == known["known_key"], "left")
    newer = F.col("known_position").isNull() | (F.col("position") > F.col("known_position"))
    return joined.where(newer).drop("known_key", "known_position")


def set_values(
    changes: DataFrame, partial: DataFrame, known: DataFrame | None, unset_able: tuple[str, ...]
) -> DataFrame:
    """For each partial key, the newest value that the batch sets in each unset-able column.

    Args:
        changes: all changes of the batch.
        partial: the newest changes that are partial; their keys are looked for.
        known: ``known_key``, ``known_position``, to leave out changes that the table has.
        unset_able: the columns that may be unset.

    Returns:
        ``set_key``, ``was_deleted`` and ``in_batch``: per column a struct of one field ``v``,
        NULL if the batch sets no value after the key's last delete.
    """
    wanted = partial.select(F.col("key").alias("wanted"))
    mine = changes.join(F.broadcast(wanted), changes["key"] == wanted["wanted"], "left_semi")
    mine = mine.withColumn("at", position_bytes(tuple(F.col(number) for number in NUMBERS)))
    if known is not None:
        mine = mine.join(F.broadcast(known), mine["key"] == known["known_key"], "left")
        mine = mine.where("known_position IS NULL OR at > known_position")
    folded = mine.groupBy("key").agg(
        F.max(F.when(F.col("op") == "d", F.col("at"))).alias("last_delete"),
        *(_newest_set(name).alias(f"c{i}") for i, name in enumerate(unset_able)),
    )
    alive = (_after_delete(F.col(f"c{i}")).alias(name) for i, name in enumerate(unset_able))
    return folded.select(
        F.col("key").alias("set_key"),
        F.col("last_delete").isNotNull().alias("was_deleted"),
        F.struct(*alive).alias("in_batch"),
    )


def _newest_set(name: str) -> Expression:
    is_set = F.col("row").isNotNull() & ~F.col("unset").getField(name)
    value = F.struct(F.col("row").getField(name).alias("v"), F.col("at").alias("at"))
    return F.max_by(F.when(is_set, value), F.when(is_set, F.col("at")))


def _after_delete(value: Expression) -> Expression:
    fresh = F.col("last_delete").isNull() | (value.getField("at") > F.col("last_delete"))
    return F.when(value.isNotNull() & fresh, F.struct(value.getField("v").alias("v")))


def completed(
    partial: DataFrame,
    values: DataFrame,
    existing: DataFrame,
    unset_able: tuple[str, ...],
    names: tuple[str, ...],
) -> DataFrame:
    """Partial changes with their rows made whole; ``incomplete`` marks those that cannot be.

    Args:
        partial: newest changes that are partial.
        values: of `set_values`.
        existing: ``known_key`` and ``known_row``, a struct of the columns that may be unset.
        unset_able: those columns.
        names: all columns.
    """
    joined = partial.join(values, partial["key"] == values["set_key"], "left").join(
        existing, partial["key"] == existing["known_key"], "left"
    )
    has_row = F.col("known_row").isNotNull() & ~F.coalesce(F.col("was_deleted"), F.lit(False))

    def whole(name: str) -> Expression:
        current = F.col("row").getField(name)
        if name not in unset_able:
            return current.alias(name)
        in_batch = F.col("in_batch").getField(name)
        in_lake = F.when(has_row, F.col("known_row").getField(name))
        kept = F.when(in_batch.isNotNull(), in_batch.getField("v")).otherwise(in_lake)
        return F.when(F.col("unset").getField(name), kept).otherwise(current).alias(name)

    def lost(name: str) -> Expression:
        return F.col("unset").getField(name) & F.col("in_batch").getField(name).isNull() & ~has_row

    others = [column for column in FOLDED if column != "row"]
    return joined.select(
        *others,
        F.struct(*(whole(name) for name in names)).alias("row"),
        _any(lost(name) for name in unset_able).alias("incomplete"),
    ).select(*FOLDED, "incomplete")
