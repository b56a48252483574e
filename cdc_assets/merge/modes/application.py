"""Holds what applying a batch to a branch needs, in whichever way that is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.apply.refusals import Refusing
from cdc_assets.merge.apply.snapshot_properties import BatchOutcome, Recorder
from cdc_assets.merge.fold.context import BatchContext, Pass
from cdc_assets.merge.plan.barriers import Barriers
from cdc_assets.merge.plan.plan import BatchPlan


@dataclass(frozen=True, slots=True)
class Application:
    """The application of one batch.

    Attributes:
        last: the last pass over the batch.
        barriers: of the batch.
        branch: that it is written to.
        means: of its execution.
        changes: reads the changes that are applied again.
        refusing: takes updates that cannot be completed.
        recorder: makes the content of the snapshot's properties.
    """

    last: Pass
    barriers: Barriers
    branch: Branch
    means: BatchContext
    changes: Callable[[], DataFrame]
    refusing: Refusing
    recorder: Recorder

    @property
    def plan(self) -> BatchPlan:
        """The plan of the batch."""
        return self.last.plan

    @property
    def omittable(self) -> tuple[str, ...]:
        """Columns that a change may leave alone."""
        return self.last.batch.changes.omittable

    def recorded(self, outcome: BatchOutcome) -> BatchOutcome:
        """Adds the content of the snapshot's properties, right before the last write."""
        return self.recorder.recorded(self.plan, outcome, self.barriers)
