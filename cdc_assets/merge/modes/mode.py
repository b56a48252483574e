"""A mode: how a table takes the changes of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame

from cdc_assets.merge.apply.snapshot_properties import BatchOutcome
from cdc_assets.merge.fold.context import Pass, PlannedBatch
from cdc_assets.merge.modes.application import Application
from cdc_assets.merge.plan.barriers import Barriers, Truncate, barriers_of
from cdc_assets.merge.statements.deadline import Steps


class TableMode(ABC):
    """What a table's mode, or its lack of a key, decides about a batch."""

    keeps_deleted = False
    """Whether all tables of the mode keep what was deleted; some of the others do, marked."""

    @abstractmethod
    def fold(
        self, changes: DataFrame, batch: PlannedBatch, aggregates: Mapping[str, Expression]
    ) -> DataFrame:
        """Returns what is applied of a batch, from all of its changes.

        Args:
            changes: of rows, and truncates where they are a row.
            batch: under its plan.
            aggregates: of `cdc_assets.merge.guards.Guard.aggregates`; empty if no guard asks.
        """

    def barriers(self, this: Pass, steps: Steps) -> Barriers:
        """Returns the barriers of a batch: its truncates, and the plan's.

        Raises:
            TerminalError: if it is unknown which changes of other partitions a truncate precedes.
        """
        plan = this.plan
        keeps = plan.soft or self.keeps_deleted
        return barriers_of(self.truncates(this, steps), plan.begins_after, keep_deleted=keeps)

    def truncates(self, this: Pass, steps: Steps) -> tuple[Truncate, ...]:
        """Returns where rows end that are older, in any order."""
        plan, found = this.plan, tuple[Truncate, ...]()
        if plan.barrier and not plan.replay:
            found = (Truncate(plan.barrier, None),)
        if this.figures.by_op["t"]:
            with steps.step("read barriers"):
                found = (*found, *this.batch.changes.truncates(this.knowledge))
        return found

    def applied(self, it: Application, outcome: BatchOutcome) -> BatchOutcome:
        """Writes a batch to its branch; the last write carries the snapshot's properties.

        Args:
            it: the application.
            outcome: of the batch before anything is applied.

        Returns:
            The outcome; ``published`` is None if nothing has to be published.

        Raises:
            RejectedRecordError: if a change cannot be applied, and the table must stop.
            ConflictError: if another writer came between.
        """
        plan = it.plan
        if plan.unfilled and not plan.is_empty:
            with it.means.steps.step("fill added columns"):
                it.branch.fill(plan.unfilled)  # of all existing rows, which are older
        return self.apply(it, outcome)

    @abstractmethod
    def apply(self, it: Application, outcome: BatchOutcome) -> BatchOutcome:
        """Writes a batch, once added columns are filled; see `applied`."""
