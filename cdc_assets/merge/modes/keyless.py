"""Tables without a key: equal rows are counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame

from cdc_assets.changes.position import without_offset
from cdc_assets.formats.order import order_of
from cdc_assets.merge.apply.multiset import CountedTable, events, highest_read, snapshot_start
from cdc_assets.merge.apply.snapshot_properties import BatchOutcome
from cdc_assets.merge.fold.context import Pass, PlannedBatch
from cdc_assets.merge.modes.application import Application
from cdc_assets.merge.modes.mode import TableMode
from cdc_assets.merge.plan.barriers import Truncate
from cdc_assets.merge.plan.plan import Apply
from cdc_assets.merge.statements.deadline import Steps
from cdc_assets.merge.tables.ledger import Ledger


class Keyless(TableMode):
    """A mirror of a table without a key."""

    def fold(
        self, changes: DataFrame, batch: PlannedBatch, aggregates: Mapping[str, Expression]
    ) -> DataFrame:
        """Returns all events, with columns that identify repeats; no guard needs aggregates."""
        return events(changes, batch.plan)

    def truncates(self, this: Pass, steps: Steps) -> tuple[Truncate, ...]:
        """Adds the beginning of a snapshot: rows missing from the snapshot no longer exist."""
        found = super().truncates(this, steps)
        if not this.figures.by_op["r"]:
            return found
        with steps.step("read barriers"):
            read = highest_read(this.folded.frame)
        return (*found, Truncate(snapshot_start(read), None)) if read else found

    def apply(self, it: Application, outcome: BatchOutcome) -> BatchOutcome:
        """Removes surplus rows and adds missing ones, with the record of the batch.

        Applies only events after the last truncate, as earlier ones cannot leave a trace.

        Args:
            it: the application.
            outcome: of the batch so far.

        Raises:
            RejectedRecordError: if a redelivered event cannot be distinguished from two events.
            MissingRowError: if a row to be deleted does not exist.
            ConflictError: if another writer has published since.
        """
        barriers, plan, means, folded = it.barriers, it.plan, it.means, it.last.folded
        ledger = Ledger(means.side, order_of(plan.layout.scheme))
        table = CountedTable(means.catalog, plan, means.steps, ledger)
        counted = table.counted(folded.frame, barriers.after, may_repeat=_may_repeat(it, outcome))
        with means.steps.step("count events"):
            stale = folded.keys - counted.count()
        if barriers.truncates and plan.published is not None:
            with means.steps.step("truncate"):
                it.branch.truncate(barriers.truncates, keep_deleted=False)
        it.refusing.settle(lambda: counted)
        outcome = replace(outcome, side=table.remember(counted))
        outcome = outcome.after(folded, Apply.COUNT, stale, 0)
        with table.changed(counted, it.branch) as changed:
            outcome = it.recorded(outcome)
            table.write(changed, it.branch, outcome.properties)
        return outcome


def _may_repeat(it: Application, outcome: BatchOutcome) -> bool:
    """Whether the table may have counted an event of the batch before."""
    before = it.plan.published
    highest = max(before.carried.applied.values(), default="") if before else ""
    lowest = min(it.last.folded.lowest.values(), default="")
    floats = outcome.figures.min_floating is not None  # at another position each time
    return floats or without_offset(lowest) <= without_offset(highest)
