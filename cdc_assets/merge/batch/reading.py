"""Reads, decodes and folds a batch, counts its records in the same pass, and keeps the fold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Final

from pyspark.sql import DataFrame

from cdc_assets.merge.apply.keyed import within
from cdc_assets.merge.fold.changeset import Knowledge
from cdc_assets.merge.fold.means import Means
from cdc_assets.merge.fold.passes import Pass, PlannedBatch
from cdc_assets.merge.fold.summary import Summary, read_through, require_told
from cdc_assets.merge.guards import Guards
from cdc_assets.merge.intake.observe import BatchObserver
from cdc_assets.merge.intake.read import is_one_task
from cdc_assets.merge.modes import TableMode
from cdc_assets.merge.plan.parts import Part
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements.pinning import interpreted, kept

INTERPRETED: Final = 1_000
"""Of up to this many records Spark evaluates the fold without writing code for it."""
PINNED_VALUES: Final = 100_000
"""Up to this many values (records times columns) are kept by a checkpoint: some five megabytes.
A session's last few are not collected at once, as Spark Connect remembers the last 16 plans."""


class Reader:
    """Reads a batch as often as needed.

    Args:
        means: of the batch's execution.
        guards: tell what they want to know of its records.
        mode: of the table, which folds its changes.
    """

    def __init__(self, means: Means, guards: Guards, mode: TableMode) -> None:
        self._means = means
        self._guards = guards
        self._mode = mode

    @contextmanager
    def folded(self, batch: PlannedBatch, knowledge: Knowledge) -> Iterator[Pass]:
        """Yields the folded changes, kept during the block, and the figures of the records.

        Args:
            batch: under its plan.
            knowledge: facts that its fold needs.
        """
        observer, ranges, steps = self._observer(batch), batch.plan.ranges, self._means.steps
        small, summary = _is_small(batch.plan), Summary()
        with steps.step("read, decode, fold"):
            changes = batch.changes.mergeable(knowledge, observer)
            folding = self._mode.fold(changes, batch, self._guards.aggregates(batch))
            if small:  # of many rows, a query of what is kept counts for less
                folding = summary.attach(folding)
        with ExitStack() as during:
            few = small and sum(each.length for each in ranges) <= INTERPRETED
            by_itself = interpreted(folding.sparkSession) if few else nullcontext()
            with steps.step("read, decode, fold"), by_itself:
                frame = during.enter_context(kept(folding, "folded", is_small=small))
                read = folding if small else read_through(summary.attach(frame))
            folded, figures = summary.told(frame, read), observer.figures(read)
            if small and (folded is None or figures is None):
                with steps.step("read once more, for its figures"):
                    read = read_through(folding)
                folded, figures = summary.told(frame, read), observer.figures(read)
            where = batch.plan.where
            yield Pass(batch, knowledge, require_told(folded, where), require_told(figures, where))

    def changes_of(self, this: Pass, part: Part) -> DataFrame:
        """Returns the changes of a part: read again, as no two plans may hold one observation."""
        batch = this.batch
        again = batch.changes.mergeable(this.knowledge, self._observer(batch))
        return within(again, part, batch.plan.numbers)

    def _observer(self, batch: PlannedBatch) -> BatchObserver:
        return BatchObserver(
            batch.plan.ranges,
            self._means.clock(),
            self._guards.watched(batch),
            pardoned=[each.sent_as for each in batch.decoder.doubtful],
        )


def _is_small(plan: BatchPlan) -> bool:
    """Returns whether a batch's fold is kept by a checkpoint, according to its largest size."""
    values = sum(each.length for each in plan.ranges) * len(plan.schema.columns)
    return is_one_task(plan.ranges) and values <= PINNED_VALUES
