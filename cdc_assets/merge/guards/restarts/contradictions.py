"""Finds records that contradict what came before them, and where an accepted restart begins.

The rules are those of `cdc_assets.changes.restarts`, here as columns of records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc_assets.changes.position import Scheme
from cdc_assets.changes.restarts import (
    CLOCK_MS,
    COMMIT_NUMBERS,
    SKEW_MS,
    Commit,
    MergedState,
    Restart,
)
from cdc_assets.formats.order import NUMBERS

Value = TypeVar("Value")


class PartitionState(NamedTuple):
    """The state of a partition before one of its records.

    Attributes:
        highest: highest commit.
        newest: newest time.
        truncated: commit of the last truncate; NULL without one.
        is_overtaken: whether a change of the record's own key with a higher position came before.
    """

    highest: Expression
    newest: Expression
    truncated: Expression
    is_overtaken: Expression


class PriorFacts:
    """Facts from before the batch, by partition, as columns of a record.

    They are in arrays, which generated code gets by reference: they differ between batches, and
    code with other numbers in it would have to be compiled again.
    """

    def __init__(
        self, partitions: int, scheme: Scheme, seen: MergedState, pending: Mapping[int, Restart]
    ) -> None:
        self._size = partitions
        self._seen = seen
        self._pending = pending
        self.names = NUMBERS[: COMMIT_NUMBERS[scheme]]
        self._type = "bigint"
        self.commit = F.col(self.names[0])
        if len(self.names) > 1:
            self._type = f"struct<{', '.join(f'{name}: bigint' for name in self.names)}>"
            self.commit = F.struct(*self.names)
        self.highest = self._commits(seen.highest)
        self.newest = self._numbers(seen.newest_ms)

    def contradiction(self, before: PartitionState) -> Expression:
        """Returns whether a record is a witness against this: see `cdc_assets.changes.restarts`."""
        found = self._is_own(before)
        seen = self._seen
        if seen.highest_of_all is None and seen.keys_stay:
            return found
        above, latest = self._of_all(before.highest, before.newest)
        truncated = F.greatest(self._commits(self._same(seen.truncated)), before.truncated)
        is_low = self._is_low(before._replace(highest=above, truncated=truncated))
        return found | _or_false(
            above.isNotNull() & is_low & (F.col("told_ms") > latest + CLOCK_MS)
        )

    def against(self, before: PartitionState) -> Expression:
        """Returns the commit and the time that a witness contradicts."""
        above, latest = self._of_all(before.highest, before.newest)
        own = F.struct(before.highest.alias("before"), before.newest.alias("before_ms"))
        all_of_it = F.struct(above.alias("before"), latest.alias("before_ms"))
        return F.when(self._is_own(before), own).otherwise(all_of_it)

    def _is_own(self, before: PartitionState) -> Expression:
        """Returns whether a record contradicts its own partition."""
        if not self._seen.keys_stay:
            return F.lit(False)
        later = F.col("told_ms") > before.newest + self._seen.apart_ms
        return _or_false(before.highest.isNotNull() & self._is_low(before) & later)

    def _is_low(self, before: PartitionState) -> Expression:
        floats = before.is_overtaken | _or_false(self.commit < before.truncated)
        in_order = _or_false(F.col("may_witness") & (self.commit < before.highest))
        return F.when(F.col("floats"), floats).otherwise(in_order)

    def _of_all(self, highest: Expression, newest: Expression) -> tuple[Expression, Expression]:
        """Returns the commit and the time that records of any partition are compared with."""
        seen = self._seen
        above = self._commits(self._same(seen.highest_of_all))
        if not seen.keys_stay:
            above = F.greatest(above, highest)
        return above, F.greatest(newest, self._numbers(self._same(seen.newest_of_all_ms)))

    def _same(self, value: Value | None) -> Mapping[int, Value]:
        return {} if value is None else dict.fromkeys(range(self._size), value)

    def begins(self) -> Expression:
        """Returns whether it begins there, unless it has begun before: `Restart.has_begun`."""
        if not self._pending:
            return F.lit(False)
        pending, commit, at_ms = self._pending, self.commit, F.col("told_ms")
        after = self._commits({p: each.after for p, each in pending.items()})
        before = self._commits({p: each.before for p, each in pending.items()})
        after_ms = self._numbers({p: each.after_ms for p, each in pending.items()})
        before_ms = self._numbers({p: each.before_ms for p, each in pending.items()})
        return (
            F.when(commit <= after, at_ms > before_ms)
            .when(commit < before, at_ms >= after_ms)
            .otherwise(at_ms > after_ms + SKEW_MS)
        )

    def _commits(self, by_partition: Mapping[int, Commit]) -> Expression:
        each = (self._one(by_partition.get(p)) for p in range(self._size))
        return F.get(F.array(*each), F.col("partition"))

    def _numbers(self, by_partition: Mapping[int, int]) -> Expression:
        each = (F.lit(by_partition.get(p)).cast("bigint") for p in range(self._size))
        return F.get(F.array(*each), F.col("partition"))

    def _one(self, commit: Commit | None) -> Expression:
        if commit is None:
            return F.lit(None).cast(self._type)
        if len(self.names) == 1:
            return F.lit(commit[0]).cast("bigint")
        named = zip(self.names, commit, strict=True)
        return F.struct(*(F.lit(number).cast("bigint").alias(name) for name, number in named))


def in_order(placed: DataFrame, known: PriorFacts) -> DataFrame:
    """Finds, by partition, the first witness, and where an accepted restart begins.

    Args:
        placed: the batch's records that can be merged and have a position, with ``is_overtaken``.
        known: facts from before them.
    """
    before = Window.partitionBy("partition").orderBy("offset").rowsBetween(
        Window.unboundedPreceding, -1
    )  # fmt: skip
    flags = ("may_witness", "floats", "is_overtaken", "op")
    commits = placed.select("partition", "offset", *known.names, "told_ms", *flags)
    truncate = F.when(F.col("op") == "t", known.commit)
    ranked = commits.withColumns({
        "highest": F.greatest(known.highest, F.max(known.commit).over(before)),
        "truncated": F.max(truncate).over(before),
    })  # fmt: skip
    is_low = _or_false(known.commit < F.col("highest"))
    counted = ranked.withColumn("counted", F.when(~is_low, F.col("told_ms")))
    timed = counted.withColumn("newest", F.greatest(known.newest, F.max("counted").over(before)))
    before_it = PartitionState(*map(F.col, PartitionState._fields))
    seen = F.struct(
        "offset",
        known.against(before_it).alias("against"),
        known.commit.alias("after"),
        F.col("told_ms").alias("after_ms"),
    )
    is_witness = known.contradiction(before_it)
    found = timed.groupBy("partition").agg(
        F.min_by(seen, F.when(is_witness, F.col("offset"))).alias("witness"),
        F.min(F.when(known.begins(), F.col("offset"))).alias("begin"),
    )
    return found.where("witness IS NOT NULL OR begin IS NOT NULL")


def restart_of(partition: int, found: Any) -> Restart:
    """Returns the restart shown by the witness that `in_order` found in a partition."""
    against = found["against"]
    return Restart(
        partition, found["offset"], _commit(against["before"]), against["before_ms"],
        _commit(found["after"]), found["after_ms"],
    )  # fmt: skip


def _commit(value: Any) -> Commit:
    return (value,) if isinstance(value, int) else tuple(value)


def _or_false(flag: Expression) -> Expression:
    return F.coalesce(flag, F.lit(False))
