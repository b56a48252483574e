"""Tries quarantined records again, from the bytes in the quarantine.

If no rows are published, publishes the table's number of records in quarantine alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from pyspark.sql import SparkSession

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.lake import Lake
from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.apply.publish import Publisher
from cdc_assets.merge.apply.refusals import Reported
from cdc_assets.merge.attempt.completion import Completion
from cdc_assets.merge.attempt.context import AttemptContext
from cdc_assets.merge.attempt.execution import AttemptWork, Executions
from cdc_assets.merge.batch import ExecutionResult
from cdc_assets.merge.intake.planning import Pending, spans
from cdc_assets.merge.plan.outcome import NothingNew, Outcome, Replan, Requeued
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.plan.quarantine_replay import Requeue
from cdc_assets.merge.plan.request import Quarantined, Request
from cdc_assets.merge.plan.result import QuarantineReplay
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.deadline import Watch
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.tables.quarantine import Quarantine
from cdc_assets.registry import TableEntry

_OVERTAKEN: Final = (
    "overtaken by newer changes of its row, which may have left columns of it unchanged"
)


@dataclass(frozen=True, slots=True)
class FromQuarantine:
    """A maker of tries of records in quarantine.

    Attributes:
        means: of the tries.
        completion: of plans.
        executions: of plans.
    """

    means: AttemptContext
    completion: Completion
    executions: Executions

    def tried(self, request: Request, work: Quarantined, watch: Watch) -> Outcome:
        """Merges quarantined records, removes those that need not stay, and returns the outcomes.

        Args:
            request: of this try.
            work: the request's.
            watch: deadlines of the turn.

        Raises:
            CdcError: for a failure that needs a person, or time. Records that were published
                before it are still in quarantine.
        """
        entry = request.entry
        pending = self.means.planner.replay(entry, (), request.run_id)
        # Not before the plan: a publish between would tell of records that were not seen here.
        quarantine = self._quarantine(entry)
        with translated("read quarantine", f"table={entry.table}"):
            kept = quarantine.kept(entry.table)
        requeue = Requeue.of(kept, work.coordinates, pending.plan)
        if not requeue.taken:
            self._recounted(pending.plan, requeue)
        if not requeue.is_any:
            return NothingNew()
        replayed = self._replayed(request, work, pending, requeue, watch)
        if not isinstance(replayed, QuarantineReplay):
            return replayed
        work.before_removal()
        with translated("remove from quarantine", f"table={entry.table}"):
            gone = [*replayed.merged, *replayed.overtaken, *replayed.before]
            quarantine.remove(entry.table, replayed.topic_id, gone)
        return Requeued(replayed)

    def _replayed(
        self,
        request: Request,
        work: Quarantined,
        pending: Pending,
        requeue: Requeue,
        watch: Watch,
    ) -> QuarantineReplay | Replan:
        """Publishes the mergeable records' rows, with the number of records that remain."""
        plan, entry = pending.plan, request.entry
        outcome = QuarantineReplay(
            entry.table,
            plan.identity.topic_id,
            merged=requeue.merged,
            unread=requeue.unread,
            foreign=requeue.foreign,
            before=requeue.before,
        )
        if not requeue.taken:
            return outcome
        pending = replace(pending, plan=replace(plan, ranges=spans(requeue.taken)))
        quarantine = self._quarantine(entry)
        with translated("read quarantine", pending.plan.where):
            mine = quarantine.records(entry.table, outcome.topic_id, requeue.taken)
        plan, decoder = self.completion.of(request, pending.plan, mine)
        # A delete that keeps its row leaves columns unchanged, as an update may.
        partial_images = bool(decoder.omittable) or plan.soft
        stays = partial_images and not work.accept_overtaken and plan.mode is not Mode.HISTORY
        refusals = Reported(requeue, _OVERTAKEN if stays else None)
        done = self.executions.of(AttemptWork(pending, plan, decoder, refusals, watch, {})).run()
        if not isinstance(done, ExecutionResult):
            return done
        return replace(
            outcome,
            merged=(*outcome.merged, *refusals.merged),
            overtaken=refusals.overtaken,
            rejected=tuple(sorted(refusals.found.items())),
        )

    def _recounted(self, plan: BatchPlan, requeue: Requeue) -> None:
        """Publishes the number of records alone, which changes when records are deleted."""
        means = self.means
        lake, now = means.connections.lake, means.clock()
        publish_count(means.session, means.catalog, lake, plan, requeue, now)

    def _quarantine(self, entry: TableEntry) -> Quarantine:
        return Quarantine(self.means.session(), self.means.catalog, entry.table.source)


def publish_count(
    spark: Callable[[], SparkSession],
    catalog: str,
    lake: Lake,
    plan: BatchPlan,
    requeue: Requeue,
    now: datetime,
) -> None:
    """Publishes the number, without rows, unless the newest publish has it.

    Args:
        spark: gives the session.
        catalog: of the table.
        lake: of the table.
        plan: of a replay that merges nothing.
        requeue: the table's records in quarantine.
        now: aware time.

    Raises:
        ConflictError, OutcomeUnknownError: see `Publisher.publish`.
    """
    before, entry = plan.published, plan.entry
    if before is None or before.counts.get("quarantined", 0) == requeue.kept_count:
        return
    published = replace(
        before,
        start=before.offsets,
        attempt=plan.attempt,
        run=plan.run_id,
        kind=PublishKind.REPLAY,
        published_at=now,
        carried=replace(before.carried, missing=requeue.missing),
        counts={"records": 0, "quarantined": requeue.kept_count},
        others=plan.state.others if plan.state else {},
    )
    publisher = Publisher(spark(), catalog, lake, plan)
    branch = Branch(publisher)
    with branch.dropped_on_failure(), translated("publish the count", plan.where):
        nothing = spark().table(sql.table(catalog, entry.target)).limit(0)
        branch.write(nothing, published.to_properties())
    branch.publish()
