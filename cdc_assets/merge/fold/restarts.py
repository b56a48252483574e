"""Detects positions that went back in a batch; refuses them, or gives accepted ones their epoch.

The rule is `cdc_assets.changes.restarts`; it looks at the records of a partition one after the
other. To do so for every batch would cost as much as a second read. So each batch is first
checked at next to no cost (`RestartWatch.suspicion`, `RestartWatch.must_look`). Only if that
shows that a restart is possible are its records examined in their order (`in_order`), and changes
without a last commit compared with those of their keys (`cdc_assets.merge.fold.overtaken`).

The cheap check misses a restart inside one batch if all of this holds: it is not in the first
batch of a partition; the connector has not started anew in this table (a snapshot, a change
without a last commit); it went back to a commit that was not merged yet; and within the same
batch the new numbering rose above all of the old one. A connector that keeps its offsets is sent
nothing below them, so this takes one that was started anew without a snapshot, while the lake was
further behind than what the source had lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple, TypeVar

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc_assets.changes.position import Scheme
from cdc_assets.changes.restarts import (
    CLOCK_MS,
    COMMIT_NUMBERS,
    LEEWAY_MS,
    SKEW_MS,
    Commit,
    Permit,
    Restart,
    Restarts,
    Seen,
    commit_of,
    newest_after,
)
from cdc_assets.errors import TerminalError
from cdc_assets.formats.order import NUMBERS, Epochs, order_of
from cdc_assets.merge.fold.summary import Folded
from cdc_assets.merge.intake.observe import BatchFigures
from cdc_assets.merge.plan.plan import BatchPlan

_UNKNOWN_CLOCK: Final = timedelta(minutes=5)
"""Largest assumed lead of a source's clock over ours, for tables that carried no times yet."""

Decode = Callable[[Epochs], DataFrame]
Value = TypeVar("Value")


class RestartError(TerminalError):
    """The source's positions went back, and nobody has accepted that."""

    def __init__(self, plan: BatchPlan, restart: Restart) -> None:
        self.restart = restart
        what = (
            "the source's positions went back, as after a restore or an upgrade by dump: "
            f"{restart.describe(plan.layout.scheme)}"
        )
        entry = plan.entry
        where = (
            f"table={entry.table} topic={entry.topic} partition={restart.partition} "
            f"offset={restart.offset}"
        )
        name = f"{entry.table.source}.{entry.table.qualified}"
        remedy = (
            f"`cdc-assets accept-restart {name}` takes what follows as newer; rows that the "
            "source no longer has stay in the table unless it sends their deletes. "
            f"`cdc-assets rebuild {name}` makes the table anew"
        )
        super().__init__(what, where=where, remedy=remedy)


class RestartWatch:
    """A search for restarts in one batch.

    Attributes:
        restarts: the known ones, and those that this batch adds.
    """

    def __init__(self, plan: BatchPlan) -> None:
        carried = Restarts.from_json(plan.numbering)
        granted = Permit.from_json(plan.permit).granted(carried) if plan.permit else carried
        self.restarts = granted
        self._plan = plan
        self._seen = seen_before(plan, carried)
        self._looked = False

    @classmethod
    def of(cls, plan: BatchPlan) -> RestartWatch | None:
        """Returns a watch; None for other schemes, and for records that were merged before."""
        is_watched = plan.layout.scheme in COMMIT_NUMBERS and not plan.replay
        return cls(plan) if is_watched else None

    # ── what costs next to nothing ───────────────────────────────────────────────────────

    def suspicion(self) -> Expression:
        """Returns whether a record contradicts earlier batches, or may begin an accepted epoch."""
        pending = self.restarts.all_pending(self._plan.partitions)
        known = self._known(pending)
        # Any change that floats may be overtaken; that is checked later.
        before = Before(known.highest, known.newest, known.nothing, F.col("floats"))
        contradicts = known.contradiction(before)
        of_record = contradicts | known.may_begin()
        return F.coalesce(F.col("reject").isNull() & of_record, F.lit(False))

    def must_look(self, figures: BatchFigures, folded: Folded) -> bool:
        """Returns whether the batch may hold a restart, according to its fold and its figures."""
        if self._looked or figures.lowest_commit is None or not folded.highest:
            return False
        if figures.suspicious or figures.by_op["t"]:
            return True
        if self._is_fresh(figures):
            if not _may_contradict_itself(figures):
                return False
            highest = max(int(position[:16], 16) for position in folded.highest.values())
            is_low = figures.lowest_commit < highest or figures.min_floating is not None
            return is_low or COMMIT_NUMBERS[self._plan.layout.scheme] > 1
        return not _is_ordered(figures, folded)

    def _is_fresh(self, figures: BatchFigures) -> bool:
        """Returns whether a partition is unknown, or the connector may have started anew."""
        if any(each.partition not in self._seen.highest for each in self._plan.ranges):
            return True
        if not order_of(self._plan.layout.scheme).has_floors:
            return figures.by_op["r"] > 0
        return figures.max_read is not None or figures.min_floating is not None

    # ── the look itself ──────────────────────────────────────────────────────────────────

    def look(self, decode: Decode) -> bool:
        """Examines the batch's records in their order.

        Args:
            decode: returns them, decoded with these epochs, with ``is_overtaken``.

        Returns:
            Whether an accepted restart begins in this batch; then its positions change.

        Raises:
            RestartError: at a restart that nobody has accepted.
        """
        self._looked = True
        before = self.restarts
        while begun := self._begun(decode(self.restarts.epochs)):
            for partition, offset in begun.items():
                self.restarts = self.restarts.begun(partition, offset)
        return self.restarts != before

    def _begun(self, decoded: DataFrame) -> Mapping[int, int]:
        """Returns the offset where an accepted restart begins, by partition.

        Raises:
            RestartError: if there is a witness of one that is not accepted.
        """
        pending = self.restarts.all_pending(self._plan.partitions)
        begins, witnesses = self._found(decoded, pending)
        others = [each for p, each in witnesses.items() if p not in pending]
        if others:
            raise RestartError(self._plan, min(others, key=lambda each: each.after_ms))
        if witnesses:
            # Witnesses show more about their own partitions: `cdc_assets.changes.restarts.begin`.
            more, _ = self._found(decoded, witnesses)
            begins = {
                p: min(more.get(p, at), begins.get(p, at)) for p, at in {**begins, **more}.items()
            }
        return begins

    def _found(
        self, decoded: DataFrame, pending: Mapping[int, Restart]
    ) -> tuple[Mapping[int, int], Mapping[int, Restart]]:
        """Returns, by partition, where a pending restart begins, and the first witness of any."""
        found = in_order(decoded, self._known(pending)).collect()
        begins = {row["partition"]: row["begin"] for row in found if row["begin"] is not None}
        witnesses = {
            row["partition"]: restart_of(row["partition"], row["witness"])
            for row in found
            if row["witness"] is not None
        }
        return begins, witnesses

    def _known(self, pending: Mapping[int, Restart]) -> Known:
        return Known(self._plan.partitions, self._plan.layout.scheme, self._seen, pending)

    def carried(self, figures: BatchFigures, folded: Folded) -> str:
        """Returns the numbering that the batch's publish records."""
        is_ordered = _is_ordered(figures, folded)
        newest = newest_after(folded.latest_ms, figures.newest_told_ms, is_ordered=is_ordered)
        return self.restarts.used().read(newest).to_json()


def _may_contradict_itself(figures: BatchFigures) -> bool:
    """Returns whether one record may be newer than another by more than a redelivery can be."""
    newest, oldest = figures.newest_told_ms, figures.oldest_told_ms
    return newest is not None and oldest is not None and newest - oldest > LEEWAY_MS


def _is_ordered(figures: BatchFigures, folded: Folded) -> bool:
    """Returns whether the batch's times rise with its positions, as far as its fold shows."""
    told, latest = figures.newest_told_ms, max(folded.latest_ms.values(), default=None)
    is_hidden = told is not None and latest is not None and told > latest + LEEWAY_MS
    return not (is_hidden or folded.is_unordered)


def seen_before(plan: BatchPlan, carried: Restarts) -> Seen:
    """Returns the commits and times that were merged before the batch."""
    published, scheme = plan.published, plan.layout.scheme
    apart = LEEWAY_MS
    if published is None:
        return Seen(keys_stay=plan.keys_remain, apart_ms=apart)
    highest = {p: commit_of(scheme, text) for p, text in published.carried.applied.items()}
    truncated = commit_of(scheme, published.carried.max_truncate)
    newest = dict(carried.newest_ms)
    if not newest:
        until = int((published.published_at + _UNKNOWN_CLOCK).timestamp() * 1000)
        newest = dict.fromkeys(highest, until)
    known = {p: commit for p, commit in highest.items() if commit is not None}
    compared = [] if plan.keys_remain else list(known.values())
    return Seen(
        highest=known,
        newest_ms=newest,
        highest_of_all=max([*compared, *([truncated] if truncated else [])], default=None),
        newest_of_all_ms=max(newest.values(), default=None),
        truncated=truncated,
        keys_stay=plan.keys_remain,
        apart_ms=apart,
    )


class Before(NamedTuple):
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


class Known:
    """Facts from before the batch, by partition, as columns of a record.

    They are in arrays, which generated code gets by reference: they differ between batches, and
    code with other numbers in it would have to be compiled again.
    """

    def __init__(
        self, partitions: int, scheme: Scheme, seen: Seen, pending: Mapping[int, Restart]
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
        self.nothing = F.lit(None).cast(self._type)

    def contradiction(self, before: Before) -> Expression:
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

    def against(self, before: Before) -> Expression:
        """Returns the commit and the time that a witness contradicts."""
        above, latest = self._of_all(before.highest, before.newest)
        own = F.struct(before.highest.alias("before"), before.newest.alias("before_ms"))
        all_of_it = F.struct(above.alias("before"), latest.alias("before_ms"))
        return F.when(self._is_own(before), own).otherwise(all_of_it)

    def _is_own(self, before: Before) -> Expression:
        """Returns whether a record contradicts its own partition."""
        if not self._seen.keys_stay:
            return F.lit(False)
        later = F.col("told_ms") > before.newest + self._seen.apart_ms
        return _or_false(before.highest.isNotNull() & self._is_low(before) & later)

    def _is_low(self, before: Before) -> Expression:
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

    def may_begin(self) -> Expression:
        """Returns whether an accepted restart may begin at a record."""
        if not self._pending:
            return F.lit(False)
        return F.col("told_ms") > self._numbers(
            {p: each.before_ms for p, each in self._pending.items()}
        )

    def begins(self) -> Expression:
        """Returns whether it begins there, unless it has begun before: `Restart.has_begun`."""
        if not self._pending:
            return F.lit(False)
        pending, commit, told = self._pending, self.commit, F.col("told_ms")
        after = self._commits({p: each.after for p, each in pending.items()})
        before = self._commits({p: each.before for p, each in pending.items()})
        after_ms = self._numbers({p: each.after_ms for p, each in pending.items()})
        before_ms = self._numbers({p: each.before_ms for p, each in pending.items()})
        return (
            F.when(commit <= after, told > before_ms)
            .when(commit < before, told >= after_ms)
            .otherwise(told > after_ms + SKEW_MS)
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


def in_order(decoded: DataFrame, known: Known) -> DataFrame:
    """Finds, by partition, the first witness, and where an accepted restart begins.

    Args:
        decoded: the batch's records, with ``is_overtaken``.
        known: facts from before them.
    """
    placed = decoded.where(F.col("reject").isNull() & F.col("n0").isNotNull())
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
    before_it = Before(*map(F.col, Before._fields))
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
