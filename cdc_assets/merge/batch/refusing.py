"""Refuses the records of a batch that cannot be merged, and settles those out of the quarantine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.merge.apply.keyed import INCOMPLETE
from cdc_assets.merge.apply.refusals import Refusals, Reported
from cdc_assets.merge.batch.passes import Pass
from cdc_assets.merge.fold.read_rows import of_rows_that_stay
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements.steps import Steps


@dataclass(frozen=True, slots=True)
class Refusing:
    """Hands a batch's records to the handler of those that cannot be merged.

    Attributes:
        refusals: the handler.
        steps: measures.
    """

    refusals: Refusals
    steps: Steps

    def rejected(self, this: Pass) -> Pass:
        """Refuses rejected records and nameless ones; returns the pass with their number.

        Raises:
            RejectedRecordError: if the table must stop.
        """
        figures, nameless = this.figures, this.knowledge.nameless
        if figures.rejected:
            self.refusals.take(this.batch.changes.rejected(this.knowledge), self.steps)
        if nameless is not None and not self._is_empty(nameless):
            refused = self.refusals.take(nameless, self.steps)
            figures = replace(figures, rejected=figures.rejected + refused)
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
        if plan.beside is not None:
            incomplete = of_rows_that_stay(incomplete, plan.beside)
            if self._is_empty(incomplete):
                return 0
        reason = F.lit(INCOMPLETE).alias("reason")
        refused = incomplete.select("partition", "offset", reason)
        return self.refusals.take(refused, self.steps)

    def _is_empty(self, refused: DataFrame) -> bool:
        with self.steps.step("look at rejections"):
            return refused.isEmpty()

    def settle(self, applied: Callable[[], DataFrame]) -> None:
        """Finds out the outcome of each record out of the quarantine, as these are few."""
        if isinstance(self.refusals, Reported):
            self.refusals.settle(applied(), self.steps)
