"""Records the outcome of a batch for the properties of its snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from cdc_assets.changes.slo import SloTarget
from cdc_assets.merge.apply.record import Outcome, record_of
from cdc_assets.merge.apply.refusals import Refusals
from cdc_assets.merge.plan.parts import Part
from cdc_assets.merge.plan.plan import BatchPlan


@dataclass(frozen=True, slots=True)
class Recorder:
    """Records the outcome of one batch, right before its last write.

    Attributes:
        promise: target for latencies, which decides the figures that are kept.
        refusals: has taken the records that cannot be merged.
        clock: wall clock.
        seconds_to_publish: assumed time from the record until readers see the batch.
    """

    promise: SloTarget
    refusals: Refusals
    clock: Callable[[], datetime]
    seconds_to_publish: float

    def has_nothing_new(self, plan: BatchPlan, *, is_empty: bool) -> bool:
        """Returns whether a batch need not be published: a replay that changes nothing.

        Args:
            plan: of the batch.
            is_empty: whether no row is written.
        """
        return plan.replay and is_empty and self.refusals.quarantined is None

    def recorded(self, plan: BatchPlan, outcome: Outcome, parts: Sequence[Part]) -> Outcome:
        """Adds the content of the snapshot's properties.

        Args:
            plan: of the batch.
            outcome: after its last part.
            parts: of the batch.
        """
        truncates = [part.truncate.position for part in parts if part.truncate]
        truncated = max([plan.truncated, *truncates])
        now, figures = self.clock(), outcome.figures
        elapsed = (now - figures.asked_at).total_seconds() + self.seconds_to_publish
        latency = figures.ages.shifted(elapsed)
        left = self.refusals.missing(plan)
        quarantined = self.refusals.quarantined
        outcome = replace(outcome, quarantined=quarantined, missing=left, latency=latency)
        return replace(outcome, published=record_of(plan, outcome, truncated, now, self.promise))
