"""Handles records that cannot be merged: stops the table, or puts them into quarantine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.missing import MOST, Missing
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.config.batch import QuarantineConfig
from cdc_assets.errors import RejectedRecordError
from cdc_assets.formats.oversized import is_refusal
from cdc_assets.merge.fold.changeset import of_rows_that_stay
from cdc_assets.merge.fold.context import Pass
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.plan.quarantine_replay import Requeue, count_kept
from cdc_assets.merge.statements.deadline import Steps
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets.merge.tables.quarantine import Origin, Quarantine

INCOMPLETE: Final = "an update without its unchanged columns, of a row that the lake does not have"

_NOT_CHOSEN: Final = (
    "as it may not have matched the condition on rows (where): have the source log whole rows "
    "(ALTER TABLE … REPLICA IDENTITY FULL), then cdc-assets rebuild TABLE --from-source"
)


class Refusals(Protocol):
    """A handler of the records that a batch cannot merge."""

    quarantined: int | None
    """Number of the table's records in quarantine now; None if the number has not changed."""

    def take(self, refused: DataFrame, steps: Steps) -> int:
        """Handles records (``partition offset reason``), at least one; returns their number.

        Raises:
            RejectedRecordError: if the table must stop.
        """
        ...

    def missing(self, plan: BatchPlan) -> Missing | None:
        """Returns the records missing from the table after the batch; see `Carried.missing`."""
        ...


class Stopping:
    """``bad_records: fail``, which also applies to all records of withheld columns.

    Args:
        plan: of the batch.
        may_set_aside: whether the configuration could send the records to quarantine.
    """

    quarantined: int | None = None

    def __init__(self, plan: BatchPlan, *, may_set_aside: bool) -> None:
        self._plan = plan
        self._may_set_aside = may_set_aside

    def take(self, refused: DataFrame, steps: Steps) -> int:
        """Stops the table; names the first record and the reason."""
        first = F.min(F.struct("partition", "offset", "reason")).alias("first")
        with steps.step("look at rejections"):
            found = refused.agg(F.count(F.lit(1)).alias("n"), first).collect()[0]
        partition, offset, reason = found["first"]
        at = Coordinate(self._plan.entry.topic, partition, offset)
        what = f"{found['n']} record(s) cannot be merged; the first: {reason}"
        where = f"table={self._plan.entry.table} {at}"
        remedy = f"correct the source or the configuration{self._alternative}"
        page = "record-too-large" if is_refusal(reason) else ""
        raise RejectedRecordError(what, where=where, remedy=remedy, page=page)

    def missing(self, plan: BatchPlan) -> Missing | None:
        """Returns the records missing from the table: none of this batch's."""
        return _lacking(plan, Missing())

    @property
    def _alternative(self) -> str:
        if self._may_set_aside:
            return ", or set bad_records: quarantine"
        return "; quarantine would keep the whole record, and columns are excluded or masked"


class KeptApart:
    """``bad_records: quarantine``, up to a bound.

    Args:
        quarantine: of the source.
        plan: of the batch.
        raw: reads its records.
        limits: for the table's records in quarantine.
        clock: wall clock.
    """

    quarantined: int | None = None

    def __init__(
        self,
        quarantine: Quarantine,
        plan: BatchPlan,
        raw: Callable[[], DataFrame],
        limits: QuarantineConfig,
        clock: Callable[[], datetime],
    ) -> None:
        self._quarantine = quarantine
        self._plan = plan
        self._raw = raw
        self._limits = limits
        self._clock = clock
        self._refused: Missing | None = Missing()

    def take(self, refused: DataFrame, steps: Steps) -> int:
        """Writes the records to the quarantine.

        Raises:
            RejectedRecordError: if there are then more than the bound; or if they are too large
                for the quarantine, and then none is written.
        """
        plan = self._plan
        topic_id = plan.identity.topic_id
        origin = Origin(plan.entry, topic_id, plan.ranges, plan.run_id, self._clock())
        with steps.step("quarantine"):
            known = pinned(refused)
            self._quarantine.add(self._raw(), known, origin, self._limits.max_bytes)
            count = known.count()
            self._note(known)
            self.quarantined = self._held()
        most = self._limits.max_records
        if self.quarantined <= most:
            return count
        what = f"{self.quarantined} record(s) are in quarantine, more than {most}"
        remedy = "look at them (cdc-assets quarantine list), or raise quarantine.max_records"
        raise RejectedRecordError(what, where=plan.where, remedy=remedy, page="quarantine-full")

    def missing(self, plan: BatchPlan) -> Missing | None:
        """Returns the records missing from the table, with this batch's quarantined ones."""
        return _lacking(plan, self._refused) if self._refused is not None else None

    def _note(self, refused: DataFrame) -> None:
        """Notes the coordinates of records, unless they are too many for a publish to list."""
        some = refused.select("partition", "offset").limit(MOST + 1).collect()
        if self._refused is not None and len(some) <= MOST:
            places = Missing(frozenset((each[0], each[1]) for each in some))
            self._refused = self._refused.with_(places)
        else:
            self._refused = None

    def _held(self) -> int:
        """Returns how many records of the table will be in quarantine after the batch's publish."""
        table = self._plan.entry.table
        kept = self._quarantine.kept(table, MOST + 1)
        if len(kept) > MOST:
            return self._quarantine.count(table)
        return count_kept(kept, self._plan, self.missing(self._plan))


class Reported:
    """A handler for quarantined records that are merged again: records refused again stay.

    Attributes:
        found: coordinates and reasons of the refused ones.
        merged: records that are in the table now.
        overtaken: records whose rows had newer changes.

    Args:
        requeue: the table's records in quarantine.
        keep_overtaken: reason why overtaken ones stay there too; None if they may leave.
    """

    quarantined: int | None = None

    def __init__(self, requeue: Requeue, keep_overtaken: str | None) -> None:
        self._taken = {(each.partition, each.offset): each for each in requeue.taken}
        self._requeue = requeue
        self._keep_overtaken = keep_overtaken
        self.found: dict[Coordinate, str] = {}
        self.merged: tuple[Coordinate, ...] = ()
        self.overtaken: tuple[Coordinate, ...] = ()

    def take(self, refused: DataFrame, steps: Steps) -> int:
        """Notes the records with their reasons."""
        with steps.step("look at rejections"):
            rows = refused.collect()
        for row in rows:
            self.found[self._taken[row["partition"], row["offset"]]] = row["reason"]
        return len(rows)

    def settle(self, applied: DataFrame, steps: Steps) -> None:
        """Sorts the records by their outcome.

        Args:
            applied: ``partition offset`` of the changes that are in the table now.
            steps: measures.
        """
        with steps.step("look at rejections"):
            rows = applied.select("partition", "offset").distinct().collect()
        merged = {self._taken[row["partition"], row["offset"]] for row in rows}
        done = merged | self.found.keys()
        rest = [each for each in self._taken.values() if each not in done]
        if self._keep_overtaken is None:
            self.overtaken = tuple(sorted(rest))
        else:
            self.found.update(dict.fromkeys(rest, self._keep_overtaken))
        self.merged = tuple(sorted(merged - self.found.keys()))
        self.quarantined = len(self._left) + self._requeue.foreigners

    def missing(self, plan: BatchPlan) -> Missing | None:
        """Returns the missing records, without those now merged or overtaken by newer changes."""
        return self._left

    @property
    def _left(self) -> Missing:
        return self._requeue.missing.without((*self.merged, *self.overtaken))


def _lacking(plan: BatchPlan, refused: Missing) -> Missing | None:
    """Returns the records missing from a table after a batch from the log with refused records.

    What is merged once more does no harm, so a replay of the log takes nothing away.
    """
    before = plan.missing
    if before is None:
        return None
    return before.with_(refused) if plan.replay else before.after(plan.ranges, refused)


@dataclass(frozen=True, slots=True)
class Refusing:
    """Passes a batch's records that cannot be merged to their handler.

    Attributes:
        refusals: the handler.
        steps: measures.
    """

    refusals: Refusals
    steps: Steps

    def rejected(self, this: Pass) -> Pass:
        """Refuses records rejected by decoding or by guards; returns the pass with their number.

        Raises:
            RejectedRecordError: if the table must stop.
        """
        figures = this.figures
        if figures.rejected:
            self.refusals.take(this.batch.changes.rejected(this.knowledge), self.steps)
        for refused in this.knowledge.refused:
            if not self._is_empty(refused):
                more = self.refusals.take(refused, self.steps)
                figures = replace(figures, rejected=figures.rejected + more)
        return replace(this, figures=figures)

    def incomplete(self, incomplete: DataFrame | None, plan: BatchPlan) -> int:
        """Refuses updates that cannot be completed; returns their number.

        Args:
            incomplete: these updates (``partition offset``); None if there are none.
            plan: of the batch.

        Raises:
            RejectedRecordError: if the table must stop.
        """
        if incomplete is None:
            return 0
        if plan.shadow is not None:
            incomplete = of_rows_that_stay(incomplete, plan.shadow)
            if self._is_empty(incomplete):
                return 0
        why = INCOMPLETE if plan.condition is None else f"{INCOMPLETE}, {_NOT_CHOSEN}"
        refused = incomplete.select("partition", "offset", F.lit(why).alias("reason"))
        return self.refusals.take(refused, self.steps)

    def _is_empty(self, refused: DataFrame) -> bool:
        with self.steps.step("look at rejections"):
            return refused.isEmpty()

    def settle(self, applied: Callable[[], DataFrame]) -> None:
        """Determines the outcome of each record from quarantine; these are few."""
        if isinstance(self.refusals, Reported):
            self.refusals.settle(applied(), self.steps)
