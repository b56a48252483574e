"""Makes the properties with which a batch's snapshot describes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from cdc_assets.changes.latency import LatencyHistogram
from cdc_assets.changes.missing import Missing
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.changes.slo import SloTarget, SloWindow
from cdc_assets.changes.valid_through import proven
from cdc_assets.lake import Published
from cdc_assets.lake.at_source import AtSource
from cdc_assets.lake.carried import Carried, SideMark
from cdc_assets.merge.apply.refusals import Refusals
from cdc_assets.merge.fold.summary import Folded
from cdc_assets.merge.intake.observe import BatchFigures
from cdc_assets.merge.plan.barriers import Barriers
from cdc_assets.merge.plan.plan import Apply, BatchPlan


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The outcome of a batch so far.

    Attributes:
        figures: of its records.
        apply: the way in which it was applied.
        stale: number of changes that the table had already, or had newer ones of.
        highest: highest position by partition, hexadecimal.
        highest_delete: highest position of a remembered delete, hexadecimal.
        side: mark of the side table's entries that count from here on; None for no change.
        quarantined: number of the table's records in quarantine now; None for no change.
        missing: records that the table then lacks, as `Carried.missing` says.
        latency: of its changes; empty before they are published.
        published: content of the snapshot's properties; None before the last write, and if
            nothing is published.
    """

    figures: BatchFigures
    apply: Apply = Apply.APPEND
    stale: int = 0
    highest: dict[int, str] = field(default_factory=dict)
    highest_delete: str = ""
    side: SideMark | None = None
    quarantined: int | None = None
    missing: Missing | None = None
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    published: Published | None = None

    @property
    def properties(self) -> dict[str, str]:
        """Properties of the snapshot; empty before the last write."""
        return self.published.to_properties() if self.published else {}

    def after(self, folded: Folded, apply: Apply, stale: int, incomplete: int) -> BatchOutcome:
        """Adds the changes that are applied."""
        rejected = self.figures.rejected + incomplete
        return replace(
            self,
            figures=replace(self.figures, rejected=rejected),
            apply=apply,
            stale=self.stale + stale,
            highest=_higher(self.highest, folded.highest),
            highest_delete=max(self.highest_delete, folded.highest_delete),
        )


@dataclass(frozen=True, slots=True)
class Recorder:
    """Records the outcome of one batch, right before its last write.

    Attributes:
        slo_target: target for latencies, which decides the figures that are kept.
        refusals: has taken the records that cannot be merged.
        clock: wall clock.
        seconds_to_publish: assumed time from the record until readers see the batch.
        carry: adds to the table's state what guards have to know of the batch.
    """

    slo_target: SloTarget
    refusals: Refusals
    clock: Callable[[], datetime]
    seconds_to_publish: float
    carry: Callable[[Carried], Carried]

    def has_nothing_new(self, plan: BatchPlan, *, is_empty: bool) -> bool:
        """Returns whether a batch need not be published: a replay that changes nothing.

        Args:
            plan: of the batch.
            is_empty: whether no row is written.
        """
        return plan.replay and is_empty and self.refusals.quarantined is None

    def recorded(self, plan: BatchPlan, outcome: BatchOutcome, barriers: Barriers) -> BatchOutcome:
        """Adds the content of the snapshot's properties.

        Args:
            plan: of the batch.
            outcome: once its changes are applied.
            barriers: of the batch.
        """
        truncated = max([plan.truncated, *(each.position for each in barriers.truncates)])
        now, figures = self.clock(), outcome.figures
        elapsed = (now - figures.asked_at).total_seconds() + self.seconds_to_publish
        latency = figures.ages.shifted(elapsed)
        left = self.refusals.missing(plan)
        quarantined = self.refusals.quarantined
        outcome = replace(outcome, quarantined=quarantined, missing=left, latency=latency)
        published = record_of(plan, outcome, truncated, now, self.slo_target)
        carried = self.carry(published.carried)
        return replace(outcome, published=replace(published, carried=carried))


def record_of(
    plan: BatchPlan, outcome: BatchOutcome, truncated: str, now: datetime, slo_target: SloTarget
) -> Published:
    """Returns the content of the snapshot's properties, without what guards carry.

    Args:
        plan: of the batch.
        outcome: after its last part.
        truncated: position of the newest truncate, hexadecimal.
        now: aware time.
        slo_target: target for latencies, which decides the figures that are kept.
    """
    before, figures = plan.published, outcome.figures
    carried = before.carried if before else _first(plan)
    slo = before.slo if before else SloWindow()
    if not plan.replay:
        slo = slo.add(now, outcome.latency)
    is_carried = AtSource.of(plan.state, plan.entry.shard_value).is_carried
    deletes = "" if plan.soft else outcome.highest_delete
    quarantined = outcome.quarantined
    if quarantined is None:
        quarantined = before.counts.get("quarantined", 0) if before else 0
    return Published(
        offsets=plan.end,
        start=plan.start,
        topic=plan.entry.topic,
        topic_id=plan.identity.topic_id,
        cluster_id=plan.identity.cluster_id,
        attempt=plan.attempt,
        run=plan.run_id,
        kind=PublishKind.REPLAY if plan.replay else PublishKind.TAIL,
        published_at=now,
        carried=replace(
            carried,
            applied=_higher(carried.applied, outcome.highest),
            max_tombstone=max(carried.max_tombstone, deletes),
            max_truncate=truncated,
            side=outcome.side or carried.side,
            filled=tuple(c.existing.id for c in plan.schema.columns if c.existing),
            missing=outcome.missing,
            last_merged={**carried.last_merged, **plan.last_records},
            at_source=carried.at_source if is_carried else {},
        ),
        counts={
            "records": figures.records,
            **figures.by_op,
            "rejected": figures.rejected,
            "quarantined": quarantined,
        },
        slo=slo.kept(now, slo_target),
        shard=plan.entry.shard_value,
        valid_through=_valid_through(plan, quarantined),
        others=plan.state.others if plan.state else {},
    )


def _first(plan: BatchPlan) -> Carried:
    """Returns a new table's state: what its topic holds before its beginning is not its own."""
    read_from = plan.start if plan.starts_late else None
    return Carried(partitions=plan.partitions, side=SideMark(), read_from=read_from)


def _valid_through(plan: BatchPlan, quarantined: int) -> datetime | None:
    """Returns the proven time; no later than before while records are in quarantine."""
    before = plan.published.valid_through if plan.published else None
    return before if quarantined else proven(plan.witnesses, plan.end, before)


def _higher(one: Mapping[int, str], other: Mapping[int, str]) -> dict[int, str]:
    """Returns the higher position of each partition."""
    return {each: max(one.get(each, ""), other.get(each, "")) for each in {**one, **other}}
