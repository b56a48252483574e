"""Histories: each version of each row is a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame

from cdc_assets.merge.apply.history import HistoryTable
from cdc_assets.merge.apply.identify import recordable
from cdc_assets.merge.apply.snapshot_properties import BatchOutcome
from cdc_assets.merge.fold.context import PlannedBatch
from cdc_assets.merge.fold.split_key_change import everywhere
from cdc_assets.merge.modes.application import Application
from cdc_assets.merge.modes.mode import TableMode
from cdc_assets.merge.plan.plan import Apply
from cdc_assets.merge.tables.ends import Ends


class History(TableMode):
    """A table of one row for each version of a row."""

    keeps_deleted = True

    def fold(
        self, changes: DataFrame, batch: PlannedBatch, aggregates: Mapping[str, Expression]
    ) -> DataFrame:
        """Returns all changes, with columns that identify repeats; no guard needs aggregates."""
        return recordable(changes, batch.plan, batch.changes.omittable)

    def apply(self, it: Application, outcome: BatchOutcome) -> BatchOutcome:
        """Writes new and changed versions, with the record of the batch.

        Args:
            it: the application.
            outcome: of the batch so far.

        Returns:
            The outcome; not published if a replay changes nothing.

        Raises:
            RejectedRecordError: if a redelivered change cannot be distinguished from two changes,
                or an update cannot be completed, and the table must stop.
            ConflictError: if another writer has published since.
        """
        plan, means, branch, folded = it.plan, it.means, it.branch, it.last.folded
        rekeyed, ends = it.last.knowledge.rekeyed, Ends(means.side, plan.schema)
        table = HistoryTable(means.spark, means.catalog, plan, means.steps, it.omittable, ends)
        resolved = table.resolve(folded, outcome.figures, branch, rekeyed=rekeyed)
        incomplete = it.refusing.incomplete(resolved.incomplete, plan)
        it.refusing.settle(lambda: resolved.applied)
        highest = everywhere(folded.highest, plan.partitions) if rekeyed else folded.highest
        part = replace(folded, highest=highest, highest_delete=resolved.highest_lone)
        stale = folded.keys - resolved.changes - incomplete
        outcome = outcome.after(part, Apply.VERSIONS, stale, incomplete)
        if it.recorder.has_nothing_new(plan, is_empty=resolved.is_empty):
            return outcome
        outcome = replace(outcome, side=table.remember(resolved))
        outcome = it.recorded(outcome)
        table.write(resolved, branch, outcome.properties)
        return outcome
