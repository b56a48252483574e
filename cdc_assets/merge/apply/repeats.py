"""Finds changes missing from a history, whose versions record the changes at both their ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.merge.apply.identify import (
    CONTENT_BYTES,
    TOLD,
    Identification,
    first_deliveries,
    require_told,
)
from cdc_assets.merge.fold.summary import Folded
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.joins import sent
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets.merge.tables.ends import Emptied, Ends, frame_of

_PLACED: Final = ("event", "topic", "partition", "offset")
_MADE: Final = (sql.EVENT, sql.TOPIC, sql.PARTITION, sql.OFFSET)
_ENDED: Final = (sql.END_EVENT, sql.END_TOPIC, sql.END_PARTITION, sql.END_OFFSET)


@dataclass(frozen=True, slots=True)
class EndsKnown:
    """Remembered truncates, and deletes of the batch's keys, that ended no version."""

    truncates: tuple[Emptied, ...] = ()
    lone: DataFrame | None = None


class Repeats:
    """Look-ups for one batch.

    Args:
        spark: the session.
        plan: of the batch.
        ends: the remembered deletes and truncates, in the side table.
    """

    def __init__(self, spark: SparkSession, plan: BatchPlan, ends: Ends) -> None:
        self._spark = spark
        self._plan = plan
        self._ends = ends
        self._telling = Identification.of(plan)

    def ends_known(self, folded: Folded) -> EndsKnown:
        """Returns all remembered truncates, and the remembered deletes of the batch's keys."""
        truncates, published = self._ends.truncates(), self._plan.published
        if published is None or not published.carried.max_tombstone:
            return EndsKnown(truncates)
        keys = folded.frame.where("op != 't'").select("key").distinct()
        lone = self._ends.deletes(keys, folded.keys)
        return EndsKnown(truncates, None if lone is None else pinned(lone))

    def new(self, folded: Folded, ends: EndsKnown, table: DataFrame, *, is_late: bool) -> DataFrame:
        """Returns the changes that the table does not have yet, each once; checkpointed.

        Args:
            folded: of the batch.
            ends: of `ends_known`.
            table: as the batch finds it.
            is_late: whether the table may have any of the changes.

        Raises:
            RejectedRecordError: if a redelivered change cannot be distinguished from two changes.
        """
        changes = first_deliveries(folded.frame)
        told, once, _ = changes
        there = None
        if is_late:
            wanted = sent(told.select("told").distinct(), folded.keys)
            there = pinned(self._there(folded, ends, table).join(wanted, "told", "left_semi"))
        if not self._telling.is_unique:
            require_told(self._plan, changes, there)
        if there is not None:
            repeated = there.select("told").distinct()
            once = once.join(sent(repeated, folded.keys), "told", "left_anti")
        return pinned(once.drop("told"))

    def _there(self, folded: Folded, ends: EndsKnown, table: DataFrame) -> DataFrame:
        """Returns ``told event known_place`` of recorded changes that may be among these."""
        frames = [frame_of(self._spark, ends.truncates).select(*_PLACED)]
        if ends.lone is not None:
            frames.append(ends.lone.select(*_PLACED))
        if self._plan.head is not None:
            bounds, has_readings = self._bounds(folded)
            frames += [
                _placed(table.where(F.col(sql.EVENT).between(*bounds)), _MADE),
                _placed(table.where(F.col(sql.END_EVENT).between(*bounds)), _ENDED),
            ]
            if has_readings:
                again = table.select(F.explode(sql.READ_AGAIN).alias("again"))
                frames.append(_placed(again, tuple(f"again.{name}" for name in _PLACED)))
        told = reduce(DataFrame.unionByName, frames)
        place = F.concat_ws(":", "topic", "partition", "offset").alias("known_place")
        return told.select(F.expr(TOLD).alias("told"), "event", place).distinct()

    def _bounds(self, folded: Folded) -> tuple[tuple[Expression, Expression], bool]:
        """Returns bounds of the events, and whether the events include rows of snapshots.

        Files with no event within the bounds are skipped by their statistics.
        """
        found = folded.frame.agg(
            F.min("event").alias("low"),
            F.max("event").alias("high"),
            F.max(F.col("op") == "r").alias("has_readings"),
        ).collect()[0]
        low, high = (bytes(found[name] or b"")[:-CONTENT_BYTES] for name in ("low", "high"))
        bounds = F.lit(low), F.lit(high + b"\xff" * (CONTENT_BYTES + 1))
        return bounds, bool(found["has_readings"])


def _placed(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    return rows.select(*(F.col(name).alias(as_) for name, as_ in zip(names, _PLACED, strict=True)))
