"""Changelogs: each change is a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame

from cdc_assets.merge.apply.changelog import ChangeLogTable
from cdc_assets.merge.apply.identify import recordable
from cdc_assets.merge.apply.snapshot_properties import BatchOutcome
from cdc_assets.merge.fold.context import Pass, PlannedBatch
from cdc_assets.merge.modes.application import Application
from cdc_assets.merge.modes.mode import TableMode
from cdc_assets.merge.plan.barriers import Barriers
from cdc_assets.merge.plan.plan import Apply
from cdc_assets.merge.statements.deadline import Steps


class Changelog(TableMode):
    """A table of one row for each change."""

    def fold(
        self, changes: DataFrame, batch: PlannedBatch, aggregates: Mapping[str, Expression]
    ) -> DataFrame:
        """Returns all changes, with columns that identify repeats; no guard needs aggregates."""
        return recordable(changes, batch.plan)

    def barriers(self, this: Pass, steps: Steps) -> Barriers:
        """Returns none: a truncate is a row, and older rows stay."""
        return Barriers()

    def applied(self, it: Application, outcome: BatchOutcome) -> BatchOutcome:
        """Writes a batch. Added columns stay empty: a recorded change does not change."""
        return self.apply(it, outcome)

    def apply(self, it: Application, outcome: BatchOutcome) -> BatchOutcome:
        """Appends the changes missing from the table, with the record of the batch.

        Args:
            it: the application.
            outcome: of the batch so far.

        Returns:
            The outcome; not published if a replay changes nothing.

        Raises:
            RejectedRecordError: if a redelivered change cannot be distinguished from two changes.
        """
        means, folded = it.means, it.last.folded
        table = ChangeLogTable(means.spark, means.catalog, it.plan, means.steps, it.omittable)
        new = table.new(folded.frame, outcome.figures, folded.keys)
        with means.steps.step("look for changes that are there"):
            count = new.count()
        it.refusing.settle(lambda: new)
        none_remembered = replace(folded, highest_delete="")
        outcome = outcome.after(none_remembered, Apply.RECORD, folded.keys - count, 0)
        if it.recorder.has_nothing_new(it.plan, is_empty=not count):
            return outcome
        outcome = it.recorded(outcome)
        table.write(new, it.branch, outcome.properties)
        return outcome
