"""Derives versions of rows from the events that made and ended them.

An *event* is a change of one key: ``c``, ``u``, ``r`` set a row, ``d`` and ``t`` end it. Given all
events of a key from some version on, in any order and each once:

1. They are ordered by position. A *life* begins with a create and after an end.
2. A column that an update leaves alone gets the value of the newest event of its life that has
   one. An update whose life holds no whole row before it cannot be completed.
3. A snapshot's row that equals the version before it makes no version: it has read that again.
4. Each other row is a version, until the next event.

The result depends on the events alone, not on the batches that they came in: a version of the
table takes part as the event that made it, together with its recorded end and the snapshots that
have read it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from cdc_assets.merge.statements import sql

PLACED: Final = ("position", "ts", "event", "topic", "partition", "offset")
"""Columns that place an event; versions record them of their ends and of snapshots."""
_HELD: Final = "struct<is_current: boolean, end_position: binary, reads: int>"


def changes_as_events(
    changes: DataFrame, names: Sequence[str], topic: str, unset: Expression
) -> DataFrame:
    """Returns the events of a batch's changes that the table does not have.

    Args:
        changes: ``op key position ts told_ms event partition offset row unset``, no truncates.
        names: of the table's columns.
        topic: of the changes.
        unset: names of the columns that each leaves alone; NULL for none.
    """
    row = F.struct(*(F.col("row").getField(name).alias(name) for name in names))
    at = F.coalesce("ts", F.timestamp_millis("told_ms")).alias("ts")
    return changes.select(
        "key",
        "op",
        "position",
        at,
        "event",
        F.lit(topic).alias("topic"),
        "partition",
        "offset",
        F.when(_is_set(), row).alias("row"),
        unset.alias("unset"),
        F.lit(False).alias("known"),
        F.lit(None).cast(_HELD).alias("held"),
    )


def versions_as_events(table: DataFrame, key: Sequence[str], names: Sequence[str]) -> DataFrame:
    """Returns the events that made the table's versions, with their ends as recorded.

    Only versions have ``held``, their recorded state, with which their new state is compared.
    """
    size = F.coalesce(F.size(sql.READ_AGAIN), F.lit(0))
    held = F.struct(
        F.col(sql.CURRENT).alias("is_current"),
        F.col(sql.END_POSITION).alias("end_position"),
        F.when(size < 0, 0).otherwise(size).alias("reads"),
    )
    return table.select(
        _struct(key).alias("key"),
        F.col(sql.OP).alias("op"),
        F.col(sql.POSITION).alias("position"),
        F.col(sql.VALID_FROM).alias("ts"),
        F.col(sql.EVENT).alias("event"),
        F.col(sql.TOPIC).alias("topic"),
        F.col(sql.PARTITION).alias("partition"),
        F.col(sql.OFFSET).alias("offset"),
        _struct(names).alias("row"),
        F.col(sql.UNSET).alias("unset"),
        F.lit(True).alias("known"),
        held.alias("held"),
        F.col(sql.READ_AGAIN).alias("reads"),
        F.struct(
            F.col(sql.ENDED_BY).alias("op"),
            F.col(sql.END_POSITION).alias("position"),
            F.col(sql.VALID_TO).alias("ts"),
            F.col(sql.END_EVENT).alias("event"),
            F.col(sql.END_TOPIC).alias("topic"),
            F.col(sql.END_PARTITION).alias("partition"),
            F.col(sql.END_OFFSET).alias("offset"),
        ).alias("end"),
    )


def also_known(versions: DataFrame) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Splits `versions_as_events` into events that made, read again, and deleted the versions.

    Truncates belong to no key and are not among them.
    """
    made = versions.drop("reads", "end")
    read = versions.where("reads IS NOT NULL").select("*", F.explode("reads").alias("again"))
    reads = read.select(
        "key",
        F.lit("r").alias("op"),
        *(F.col("again").getField(name).alias(name) for name in PLACED),
        "row",
        F.lit(None).cast("array<string>").alias("unset"),
        F.lit(True).alias("known"),
        F.lit(None).cast(_HELD).alias("held"),
    )
    deletes = versions.where("end.op = 'd'").select("key", "end.*")
    return made, reads, ends_as_events(deletes, versions.schema["row"].dataType)


def ends_as_events(ends: DataFrame, row_type: DataType) -> DataFrame:
    """Returns known ends (``key op position ts event topic partition offset``) as events."""
    return ends.select(
        "key",
        "op",
        *PLACED,
        F.lit(None).cast(row_type).alias("row"),
        F.lit(None).cast("array<string>").alias("unset"),
        F.lit(True).alias("known"),
        F.lit(None).cast(_HELD).alias("held"),
    )


def in_lives(events: DataFrame) -> DataFrame:
    """Adds to events their ``life``, and ``whole``: whether each has a whole row or can get one.

    If a version and the side table record the same event as an end, one of them stays.
    """
    rank = F.when(_is_set(), 1).otherwise(0)
    once = Window.partitionBy("key", "event", "op").orderBy(F.col("known").desc(), "position")
    is_first = _is_set() | (F.row_number().over(once) == 1)
    apart = events.withColumn("stays", is_first).where("stays").drop("stays")
    begins = F.when(F.col("op").isin("c", "d", "t"), 1).otherwise(0)
    is_whole = F.coalesce(F.size("unset"), F.lit(0)) <= 0
    lives = apart.withColumn("rank", rank).withColumn("life", F.sum(begins).over(_by_key()))
    is_anchor = _is_set() & (is_whole | F.col("known"))
    has_anchor = F.coalesce(F.max(is_anchor).over(_in_life()), F.lit(False))
    return lives.withColumn("whole", ~_is_set() | has_anchor)


def carried(events: DataFrame, unset: Sequence[str]) -> DataFrame:
    """Completes the whole events of `in_lives` with values that the version before them had.

    A version of the table has these values already. They are still taken from an earlier event if
    there is one, as a change may have come late between the two.

    Args:
        events: of `in_lives`.
        unset: the columns that any of them leaves alone.
    """
    whole = events.where("whole")
    if not unset:
        return whole.withColumn("was_row", F.col("row"))
    first = F.row_number().over(_in_life()) == 1
    marked = whole.withColumn("tells_all", F.col("known") & first)

    def newest(name: str) -> Expression:
        tells = _is_set() & (F.col("tells_all") | ~_leaves(name))
        value = F.when(tells, F.struct(F.col("row").getField(name).alias("v")))
        return F.last(value, ignorenulls=True).over(_in_life()).getField("v")

    found = marked.withColumns({f"carried{i}": newest(name) for i, name in enumerate(unset)})
    at = {name: i for i, name in enumerate(unset)}

    def value(name: str) -> Expression:
        now = F.col("row").getField(name)
        if name not in at:
            return now.alias(name)
        return F.when(_leaves(name), F.col(f"carried{at[name]}")).otherwise(now).alias(name)

    names = _names(events)
    row = F.when(_is_set(), F.struct(*(value(name) for name in names)))
    made = found.withColumn("was_row", F.col("row")).withColumn("row", row)
    return made.drop("tells_all", *(f"carried{i}" for i in range(len(unset))))


def read_apart(events: DataFrame) -> DataFrame:
    """Adds ``is_again``: whether a snapshot's row equals the version before it."""
    before, was_set = F.lag("row").over(_by_key()), F.lag(_is_set()).over(_by_key())
    is_again = (F.col("op") == "r") & was_set & F.col("row").eqNullSafe(before)
    return events.withColumn("is_again", F.coalesce(is_again, F.lit(False)))


def ended(events: DataFrame) -> DataFrame:
    """Returns each event of `read_apart` that is not another reading, with ``reads`` and ``end``.

    ``end`` is the next event, NULL without one; ``is_new``, ``is_changed``: whether it is a version
    that the table lacks, or has in another state; ``is_lone``: a new delete that ends nothing.
    """
    nth = F.sum(F.when(F.col("is_again"), 0).otherwise(1)).over(_by_key())
    of_version = Window.partitionBy("key", "nth")
    read = F.when(F.col("is_again"), F.struct(*PLACED))
    found = events.withColumn("nth", nth)
    found = found.withColumn("reads", F.sort_array(F.collect_list(read).over(of_version)))
    kept = found.where("NOT is_again")
    following = F.struct("op", *PLACED)
    kept = kept.withColumns(
        {
            "end": F.lead(following).over(_by_key()),
            "follows_row": F.coalesce(F.lag(_is_set()).over(_by_key()), F.lit(False)),
        }
    )
    is_held = F.col("held").isNotNull()
    as_it_was = (
        F.col("end").getField("position").eqNullSafe(F.col("held").getField("end_position"))
        & (F.size("reads") == F.col("held").getField("reads"))
        & F.col("row").eqNullSafe(F.col("was_row"))
    )
    is_changed = is_held & ~as_it_was
    return kept.select(
        "*",
        (_is_set() & ~is_held).alias("is_new"),
        F.coalesce(is_changed, F.lit(False)).alias("is_changed"),
        ((F.col("op") == "d") & ~F.col("known") & ~F.col("follows_row")).alias("is_lone"),
    )


def as_rows(versions: DataFrame, names: Sequence[str]) -> DataFrame:
    """Returns the versions of `ended` as rows of the table."""
    end = F.col("end")
    own = {
        sql.VALID_FROM: F.col("ts"),
        sql.VALID_TO: end.getField("ts"),
        sql.CURRENT: end.isNull(),
        sql.OP: F.col("op"),
        sql.ENDED_BY: end.getField("op"),
        sql.POSITION: F.col("position"),
        sql.END_POSITION: end.getField("position"),
        sql.TOPIC: F.col("topic"),
        sql.PARTITION: F.col("partition"),
        sql.OFFSET: F.col("offset"),
        sql.END_TOPIC: end.getField("topic"),
        sql.END_PARTITION: end.getField("partition"),
        sql.END_OFFSET: end.getField("offset"),
        sql.UNSET: F.col("unset"),
        sql.EVENT: F.col("event"),
        sql.END_EVENT: end.getField("event"),
        sql.READ_AGAIN: F.when(F.size("reads") > 0, F.col("reads")),
    }
    values = (F.col("row").getField(name).alias(name) for name in names)
    return versions.select(*values, *(each.alias(name) for name, each in own.items()))


def _by_key() -> WindowSpec:
    return Window.partitionBy("key").orderBy("position", "rank")


def _in_life() -> WindowSpec:
    return Window.partitionBy("key", "life").orderBy("position", "rank")


def _leaves(name: str) -> Expression:
    return F.coalesce(F.array_contains("unset", name), F.lit(False))


def _is_set() -> Expression:
    return F.col("op").isin("c", "u", "r")


def _struct(names: Sequence[str]) -> Expression:
    return F.struct(*(F.col(sql.quote(name)).alias(name) for name in names))


def _names(events: DataFrame) -> list[str]:
    row = events.schema["row"].dataType
    return row.fieldNames() if isinstance(row, StructType) else []
