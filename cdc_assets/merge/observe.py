"""What one pass over a batch's records tells, besides the rows.

The figures ride on the pass that folds the batch (Spark's observed metrics), so that they
cost no second reading.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from cdc_assets.changes.latency import BOUNDS, LatencyHistogram
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.formats.debezium_json import TOMBSTONE

_OPS: Final = ("c", "u", "d", "r", "t")


@dataclass(frozen=True, slots=True)
class Rejection:
    """A record that cannot be merged: where and why, never what it holds."""

    coordinate: Coordinate
    reason: str


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """Counts of one batch's records.

    Attributes:
        records: with a value; tombstones are counted apart.
        by_op: changes per operation.
        rejected: how many cannot be merged; ``first_rejected`` is one of the lowest partition.
        unknown_column: a field of a row that the schema does not have, and where.
        ages: latencies at ``asked_at``; shift them by the time until the publish.
        max_read, min_floating: see `cdc_assets.changes.position`, None if there are none.
    """

    records: int
    tombstones: int
    by_op: dict[str, int]
    rejected: int
    first_rejected: Rejection | None
    unknown_column: Rejection | None
    ages: LatencyHistogram
    asked_at: datetime
    max_read: int | None
    min_floating: int | None

    def floor_needed(self, used: int) -> int | None:
        """A higher read floor that changes the order of this batch, or None."""
        floor = max(used, self.max_read or 0)
        matters = self.min_floating is not None and self.min_floating <= floor
        return floor if floor > used and matters else None


class BatchObserver:
    """Attaches the figures to a decoded batch and gives them after an action."""

    def __init__(self, topic: str, asked_at: datetime) -> None:
        self._topic = topic
        self._asked_at = asked_at
        self._observation = Observation(f"batch-{uuid.uuid4()}")

    def attach(self, decoded: DataFrame) -> DataFrame:
        """The same rows, observed."""
        return decoded.observe(self._observation, *self._metrics())

    def figures(self) -> BatchFigures:
        """Blocks until an action over the attached rows has finished."""
        got = self._observation.get
        ages = [int(got[f"age{i}"]) for i in range(len(BOUNDS))]
        timed = int(got["timed"])
        counts = [ages[0], *(b - a for a, b in pairwise(ages)), timed - ages[-1]]
        return BatchFigures(
            records=int(got["records"]),
            tombstones=int(got["tombstones"]),
            by_op={op: int(got[f"op_{op}"]) for op in _OPS},
            rejected=int(got["rejected"]),
            first_rejected=self._rejection(got["first_rejected"]),
            unknown_column=self._rejection(got["unknown_column"]),
            ages=LatencyHistogram.from_counts({b: n for b, n in enumerate(counts) if n}),
            asked_at=self._asked_at,
            max_read=got["max_read"],
            min_floating=got["min_floating"],
        )

    def _metrics(self) -> list[Expression]:
        op, ok = F.col("op"), F.col("reject").isNull()
        age = F.lit(self._asked_at.timestamp()) - F.col("ts").cast("double")
        return [
            F.count_if(op.isNull() | (op != TOMBSTONE)).alias("records"),
            F.count_if(F.coalesce(op == TOMBSTONE, F.lit(False))).alias("tombstones"),
            F.count_if(~ok).alias("rejected"),
            _first(F.col("reject")).alias("first_rejected"),
            _first(F.col("unknown")).alias("unknown_column"),
            F.max("read_lsn").alias("max_read"),
            F.min("floating_lsn").alias("min_floating"),
            *(F.count_if(ok & (op == each)).alias(f"op_{each}") for each in _OPS),
            F.count("ts").alias("timed"),
            *(F.count_if(age <= bound).alias(f"age{i}") for i, bound in enumerate(BOUNDS)),
        ]

    def _rejection(self, found: Any) -> Rejection | None:
        if found is None:
            return None
        return Rejection(Coordinate(self._topic, found["partition"], found["offset"]), found["why"])


def _first(reason: Expression) -> Expression:
    at = F.struct(F.col("partition"), F.col("offset"), reason.alias("why"))
    return F.min(F.when(reason.isNotNull(), at))
