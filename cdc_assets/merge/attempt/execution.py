"""Prepares the execution of complete plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_assets.changes.names import LakeName
from cdc_assets.merge.apply.refusals import Refusals
from cdc_assets.merge.attempt.context import AttemptContext
from cdc_assets.merge.attempt.records import Records
from cdc_assets.merge.batch import BatchExecution
from cdc_assets.merge.intake.decoding import BatchDecoder
from cdc_assets.merge.intake.planning import Pending
from cdc_assets.merge.intake.shared_reading import SharedReadings
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.plan.table_steps import RememberSource, execute_steps
from cdc_assets.merge.statements.deadline import Watch


@dataclass(frozen=True, slots=True)
class AttemptWork:
    """A complete plan, with all that its execution needs.

    Attributes:
        pending: the batch as it was planned from the lake and the log.
        plan: the complete plan.
        decoder: of its records.
        refusals: takes those that cannot be merged.
        watch: deadlines of the turn.
        others: by table, how many changes of other tables the records were read without.
    """

    pending: Pending
    plan: BatchPlan
    decoder: BatchDecoder
    refusals: Refusals
    watch: Watch
    others: Mapping[str, int]


class Executions:
    """The executions of batches. Remembers how long each table's last publish took.

    Args:
        means: of the tries.
        records: of the batches.
    """

    def __init__(self, means: AttemptContext, records: Records) -> None:
        self._means = means
        self._records = records
        self._seconds_to_publish: dict[LakeName, float] = {}

    def of(self, work: AttemptWork, shared: SharedReadings | None = None) -> BatchExecution:
        """Returns the execution of a batch, yet to be run.

        Args:
            work: the batch.
            shared: the run's readings, which know what was checked for other tables; None if
                each table reads alone.
        """
        means, plan, read = self._means, work.plan, self._records.read
        return BatchExecution(
            spark=means.session(),
            catalog=means.catalog,
            lake=means.connections.lake,
            slo_target=means.source(plan.entry).slo.target,
            refusals=work.refusals,
            decoder=work.decoder,
            context=read(plan, plan.context) if plan.context else None,
            unread=read(plan, plan.unread) if looks_at_unread(plan, shared) else None,
            clock=means.clock,
            require_whole=work.pending.require_whole,
            require_same_topic=means.planner.require_same_topic,
            register=means.connections.register,
            others=work.others,
            deadlines=work.watch,
            seconds_to_publish=self._seconds_to_publish.get(plan.entry.target, 0.0),
        )

    def remember(self, plan: BatchPlan, learned: Mapping[str, str]) -> None:
        """Stores properties with the lake table of a batch that stops; none if it is not there."""
        if not learned or plan.state is None:
            return
        step, means = RememberSource(learned), self._means
        execute_steps(means.session(), means.catalog, plan.entry, [step])

    def published(self, target: LakeName, seconds: float) -> None:
        """Notes how long the last append to a table and its publish took."""
        self._seconds_to_publish[target] = seconds


def looks_at_unread(plan: BatchPlan, shared: SharedReadings | None) -> bool:
    """Returns whether a batch looks at all that its log holds, as a table's first one does.

    Args:
        plan: of the batch.
        shared: the run's readings, which know whether another table's batch has looked.
    """
    is_first = bool(plan.unread) and plan.published is None
    return is_first and not (shared and shared.has_keys_apart(plan))
