"""Summarizes folded changes by a few figures for each Kafka partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.restarts import APART_MS
from cdc_assets.errors import TransientError
from cdc_assets.merge.statements.observed import Observed

Figures = TypeVar("Figures")


@dataclass(frozen=True, slots=True)
class Folded:
    """The newest change of each key of a batch, with figures about these changes.

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


class Summary:
    """Counts folded changes while Spark computes them, as a query would be another statement."""

    def __init__(self) -> None:
        self._observed = Observed("folded")

    def attach(self, newest: DataFrame) -> DataFrame:
        """Returns the same changes, counted: see ``figures/Folded.java``."""
        place = map(F.col, ("partition", "offset", "op", "position"))
        is_streamed = F.col("ts").isNotNull()
        parts = *place, is_streamed, F.col("partial"), F.col("told_ms")
        return self._observed.attach(newest, "fold", {}, *parts)

    def result(self, frame: DataFrame, read: DataFrame) -> Folded | None:
        """Returns the changes with their figures; None if Spark has not reported the figures.

        Args:
            frame: the changes.
            read: the frame whose execution has computed them.
        """
        rows = self._observed.figures(read)
        return None if rows is None else _folded(frame, rows)


def summarized(frame: DataFrame, where: str) -> Folded:
    """Returns folded changes with their figures, by a query.

    Args:
        frame: the changes.
        where: of their batch, for errors.

    Raises:
        TransientError: if Spark does not report the figures.
    """
    summary = Summary()
    return require_figures(summary.result(frame, read_through(summary.attach(frame))), where)


def require_figures(figures: Figures | None, where: str) -> Figures:
    """Returns the figures that Spark has reported.

    Raises:
        TransientError: if Spark has not reported them.
    """
    if figures is None:
        what = "Spark has read this batch and has not reported its figures"
        raise TransientError(
            what, where=where, remedy="nothing was published; the next try merges it"
        )
    return figures


def read_through(frame: DataFrame) -> DataFrame:
    """Makes Spark compute all rows and report their figures; returns the executed frame."""
    query = frame.agg(F.count(F.lit(1)))
    query.collect()
    return query


def _folded(newest: DataFrame, rows: Sequence[Mapping[str, Any]]) -> Folded:
    timed = [row for row in rows if "latest" in row]
    return Folded(
        frame=newest,
        keys=sum(row["keys"] for row in rows),
        deletes=sum(row["deletes"] for row in rows),
        partial=sum(row["partial"] for row in rows),
        lowest={row["partition"]: row["lowest"] for row in rows},
        highest={row["partition"]: row["highest"] for row in rows},
        highest_delete=max((row["highest_delete"] for row in rows), default=""),
        newest={
            row["partition"]: (row["newest"], row["newest_is_delete"])
            for row in rows
            if "newest" in row
        },
        latest_ms={row["partition"]: row["latest"] for row in timed},
        is_unordered=any(row["latest"] > row["at_highest"] + APART_MS for row in timed),
    )
