"""Summarizes folded changes by a few figures for each Kafka partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from cdc_assets.changes.restarts import APART_MS


@dataclass(frozen=True, slots=True)
class Folded:
    """The newest change of each key of a part of a batch, and figures about them.

    Attributes:
        frame: the changes, cached.
        keys, deletes, partial: their numbers.
        lowest, highest: positions by partition, hexadecimal.
        highest_delete: highest position of a delete, hexadecimal; empty without deletes.
        newest: by partition the offset of the streamed change with the highest position, and
            whether it is a delete.
        latest_ms: by partition the newest time that the source gave for them, in milliseconds.
        is_unordered: whether in some partition this time is more than `APART_MS` after the time
            of the change with the highest position.
    """

    frame: DataFrame
    keys: int
    deletes: int
    partial: int
    lowest: Mapping[int, str]
    highest: Mapping[int, str]
    highest_delete: str
    newest: Mapping[int, tuple[int, bool]]
    latest_ms: Mapping[int, int] = field(default_factory=dict[int, int])
    is_unordered: bool = False


def counted_by_partition(newest: DataFrame) -> DataFrame:
    """Returns the figures for `summarized`: a row for each Kafka partition."""
    is_delete = F.col("op") == "d"
    # An update that changes the key is a delete and a create at one position.
    place = F.struct("position", (~is_delete).alias("is_row"))
    streamed = F.when(F.col("ts").isNotNull(), place)
    return newest.groupBy("partition").agg(
        F.count(F.lit(1)).alias("keys"),
        F.count_if(is_delete).alias("deletes"),
        F.count_if(F.col("partial")).alias("partial"),
        F.hex(F.min("position")).alias("lowest"),
        F.hex(F.max("position")).alias("highest"),
        F.hex(F.max(F.when(is_delete, F.col("position")))).alias("highest_delete"),
        F.max_by(F.struct("offset", is_delete.alias("is_delete")), streamed).alias("newest"),
        F.max("told_ms").alias("latest"),
        F.max_by("told_ms", F.when(F.col("told_ms").isNotNull(), F.col("position"))).alias(
            "at_highest"
        ),
    )


def summarized(newest: DataFrame, rows: Sequence[Row]) -> Folded:
    """Returns the folded changes with their figures, the rows of `counted_by_partition`."""
    return Folded(
        frame=newest,
        keys=sum(row["keys"] for row in rows),
        deletes=sum(row["deletes"] for row in rows),
        partial=sum(row["partial"] for row in rows),
        lowest={row["partition"]: row["lowest"] for row in rows},
        highest={row["partition"]: row["highest"] for row in rows},
        highest_delete=max((row["highest_delete"] or "" for row in rows), default=""),
        newest={row["partition"]: tuple(row["newest"]) for row in rows if row["newest"]},
        latest_ms={row["partition"]: row["latest"] for row in rows if row["latest"] is not None},
        is_unordered=any(
            row["latest"] > row["at_highest"] + APART_MS
            for row in rows
            if row["latest"] is not None
        ),
    )
