"""Summarizes folded changes by a few figures for each Kafka partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.changes.restarts import APART_MS
from cdc_assets.merge.statements.observed import Observed

_PARTITIONS: Final = 4
"""With four, counting saves a thirtieth of a batch of 100 updates and a twentieth of its CPU."""
_LOOKED_AT: Final = 20_000


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


class Counted:
    """Counts the folded changes while they are computed, for few partitions.

    A query for the same is a statement of its own: a twentieth of a small batch.

    Args:
        ranges: of the batch.
    """

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        self._partitions = tuple(each.partition for each in ranges)
        self._observed = Observed("folded")

    @staticmethod
    def pays(ranges: Sequence[OffsetRange]) -> bool:
        """Returns whether a query would take longer.

        Each change is looked at for each partition, and the plan grows with partitions.
        """
        few = 0 < len(ranges) <= _PARTITIONS
        return few and sum(each.length for each in ranges) * len(ranges) <= _LOOKED_AT

    def attach(self, newest: DataFrame) -> DataFrame:
        """Returns the same changes, counted."""
        here = ((p, F.col("partition") == p) for p in self._partitions)
        return self._observed.attach(
            newest, [F.struct(*_figures(is_mine)).alias(f"of {p}") for p, is_mine in here]
        )

    def told(self, read: DataFrame) -> list[Mapping[str, Any]] | None:
        """Returns what `counted_by_partition` would; None if Spark has not told it.

        Args:
            read: the frame whose execution has computed the changes.
        """
        told = self._observed.told(read)
        found = ((p, told.get(f"of {p}")) for p in self._partitions)
        rows = [{"partition": p, **row.asDict()} for p, row in found if row is not None]
        return [row for row in rows if row["keys"]] if told else None


def counted_by_partition(newest: DataFrame) -> DataFrame:
    """Returns the figures for `summarized`: a row for each Kafka partition."""
    return newest.groupBy("partition").agg(*_figures(F.lit(True)))


def _figures(is_mine: Expression) -> Iterator[Expression]:
    """Yields the figures of the changes that satisfy a condition."""

    def mine(value: Expression) -> Expression:
        return F.when(is_mine, value)

    is_delete, position = F.col("op") == "d", F.col("position")
    # An update that changes the key is a delete and a create at one position.
    place = mine(F.when(F.col("ts").isNotNull(), F.struct("position", (~is_delete).alias("row"))))
    told = F.when(F.col("told_ms").isNotNull(), position)
    yield F.count_if(is_mine).alias("keys")
    yield F.count_if(is_mine & is_delete).alias("deletes")
    yield F.count_if(is_mine & F.col("partial")).alias("partial")
    yield F.hex(F.min(mine(position))).alias("lowest")
    yield F.hex(F.max(mine(position))).alias("highest")
    yield F.hex(F.max(mine(F.when(is_delete, position)))).alias("highest_delete")
    yield F.max_by("offset", place).alias("newest")
    yield F.max_by(is_delete, place).alias("newest_is_delete")
    yield F.max(mine(F.col("told_ms"))).alias("latest")
    yield F.max_by("told_ms", mine(told)).alias("at_highest")


def summarized(newest: DataFrame, rows: Sequence[Row | Mapping[str, Any]]) -> Folded:
    """Returns the folded changes with their figures, the rows of `counted_by_partition`."""
    return Folded(
        frame=newest,
        keys=sum(row["keys"] for row in rows),
        deletes=sum(row["deletes"] for row in rows),
        partial=sum(row["partial"] for row in rows),
        lowest={row["partition"]: row["lowest"] for row in rows},
        highest={row["partition"]: row["highest"] for row in rows},
        highest_delete=max((row["highest_delete"] or "" for row in rows), default=""),
        newest={
            row["partition"]: (row["newest"], row["newest_is_delete"])
            for row in rows
            if row["newest"] is not None
        },
        latest_ms={row["partition"]: row["latest"] for row in rows if row["latest"] is not None},
        is_unordered=any(
            row["latest"] > row["at_highest"] + APART_MS
            for row in rows
            if row["latest"] is not None
        ),
    )
