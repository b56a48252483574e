"""Values: a batch under the plan that it has by now, and the result of one pass over it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cdc_assets.merge.fold.changeset import ChangeSet, Knowledge
from cdc_assets.merge.fold.summary import Folded
from cdc_assets.merge.intake.decoding import BatchDecoder
from cdc_assets.merge.intake.figures import BatchFigures
from cdc_assets.merge.plan.plan import BatchPlan


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A batch under its plan; another plan makes another one.

    Attributes:
        decoder: of its records.
        changes: of the decoder; keeps where snapshots begin, once that was read.
    """

    decoder: BatchDecoder
    changes: ChangeSet

    @classmethod
    def of(cls, decoder: BatchDecoder) -> PlannedBatch:
        """Returns the batch of a decoder, of whose changes nothing was read yet."""
        return cls(decoder, ChangeSet(decoder, decoder.plan))

    @property
    def plan(self) -> BatchPlan:
        """The plan."""
        return self.decoder.plan

    def replanned(self, plan: BatchPlan) -> PlannedBatch:
        """Returns the same batch under another plan."""
        return PlannedBatch.of(replace(self.decoder, plan=plan))


@dataclass(frozen=True, slots=True)
class Pass:
    """The result of one pass over a batch, which reads and folds it once.

    Attributes:
        batch: under its plan; replaced if the pass shows that the plan must change.
        knowledge: facts that the fold was made with.
        folded: the newest change of each key, cached.
        figures: of the records.
    """

    batch: PlannedBatch
    knowledge: Knowledge
    folded: Folded
    figures: BatchFigures

    @property
    def plan(self) -> BatchPlan:
        """The plan of the batch."""
        return self.batch.plan

    @property
    def may_rise(self) -> bool:
        """Whether a snapshot in the batch may give changes other positions, once it is learned."""
        return self.figures.min_floating is not None
