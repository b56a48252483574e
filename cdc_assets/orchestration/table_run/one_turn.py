"""Does the work of a run in which a table has one turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdc_assets.operate.survey import TableSurvey
from cdc_assets.orchestration.table_run.beginning import begin
from cdc_assets.orchestration.table_run.draining import Drain
from cdc_assets.orchestration.table_run.events import Event, batch_event, last_events, quiet_result
from cdc_assets.orchestration.table_run.failure_record import FailureRecord
from cdc_assets.orchestration.table_run.intention import Intention
from cdc_assets.orchestration.table_run.renamed import Followed
from cdc_assets.orchestration.table_run.replaying import Replay
from cdc_assets.orchestration.table_run.step import TableStep
from cdc_assets.orchestration.table_run.step_checks import StepChecks
from cdc_assets.orchestration.table_run.withheld import WithheldLast

if TYPE_CHECKING:
    from cdc_assets.merge import BatchResult


@dataclass(frozen=True)
class OneTurn:
    """The only turn of a table in a run that does not stay.

    Attributes:
        step: the step.
        drain: merges the table's next batches.
        replay: merges the run's hours again.
        record: the table's failure, which a success clears.
        checks: the table's checks.
    """

    step: TableStep
    drain: Drain
    replay: Replay
    record: FailureRecord
    checks: StepChecks

    def events(self) -> Iterator[Event]:
        """Merges as the run's intention says; yields all events of the step.

        Raises:
            CdcError: see `cdc_assets.errors`; batches yielded before stay published.
        """
        intention = self.step.intention
        before = yield from begin(self.step, self.record)
        if isinstance(before, Followed):
            yield quiet_result(self.step, self.checks)
            return
        if intention is Intention.REPLAY:
            yield from self.replay.events(before)
            return
        batches = WithheldLast(self._tail(before))
        yield from (batch_event(self.step, batch) for batch in batches)
        by_hand = intention is Intention.BY_HAND and batches.last is None
        is_over = self.step.is_over
        if by_hand and before.published is not None and is_over(self.step.windows[-1]):
            yield from self.replay.events(before)
            return
        yield from self.record.settle()
        yield from last_events(self.step, self.checks, batches.last)

    def _tail(self, before: TableSurvey) -> Iterator[BatchResult]:
        step = self.step
        # A command goes on to its next run, so this one stops at its limit.
        alone = step.turns.is_alone(step.name) and step.on_batch is None
        until = None
        if not alone and before.marks is not None:
            until = step.readings.end(step.entry, before.marks.end)
        yield from self.drain.batches(until)
