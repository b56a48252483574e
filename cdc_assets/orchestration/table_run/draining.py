"""Merges a table's next batches in its turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.log.hours import HourWindow
from cdc_assets.operate.hours import hours_to_read
from cdc_assets.orchestration.table_run.batch_report import report_batch
from cdc_assets.orchestration.table_run.failure_record import FailureRecord
from cdc_assets.orchestration.table_run.intention import Intention
from cdc_assets.orchestration.table_run.step import TableStep
from cdc_assets.orchestration.table_run.wishes import Wishes

if TYPE_CHECKING:
    from cdc_assets.merge import BatchResult


@dataclass(frozen=True)
class Drain:
    """The batches of a table's turn, from the committed offsets on.

    Attributes:
        step: the step.
        wishes: the wishes that may end the turn.
        record: records a wait.
    """

    step: TableStep
    wishes: Wishes
    record: FailureRecord

    def batches(self, until: OffsetVector | None) -> Iterator[BatchResult]:
        """Merges batch after batch; yields each once it is published and reported.

        Begins with the run's last hour. Ends when the table has caught up or waits, when its time
        is spent, or when people or another writer want it to end.

        Args:
            until: next-to-read offsets to end at; None for wherever the log ends by then.

        Raises:
            StalledError: if it has waited for too long, unless the run replays hours.
            CdcError: see `cdc_assets.errors`; batches yielded before stay published.
        """
        from cdc_assets.merge import Waiting

        step = self.step
        replaying = step.intention is Intention.REPLAY
        for batch in step.place.replicator.sharing(step.readings).drain(
            step.entry,
            window=step.windows[-1],
            run_id=step.context.run.run_id,
            budget_seconds=step.seconds_left,
            next_hour=None if replaying else self._next_hour,
        ):
            if isinstance(batch, Waiting):
                self.record.wait(batch)
                return
            report_batch(step, batch)
            yield batch
            if step.turns.is_stopped or self.wishes.ends_turn:
                return
            if until is not None and self._is_enough(batch.end, until):
                return

    def _is_enough(self, committed: OffsetVector, until: OffsetVector) -> bool:
        if not committed.ranges_to(until):
            return True
        most = self.step.source.batch.max_records
        return self.step.readings.is_enough(self.step.entry, committed, most)

    def _next_hour(self, done: HourWindow, last: BatchResult | None) -> HourWindow | None:
        """Returns a backlog's next hour; None if all is read, time is up or nothing advanced."""
        step = self.step
        if step.seconds_left <= 0 or not step.is_over(done):
            return None
        position = last.end if last else step.survey().position
        ahead = hours_to_read(
            step.services.log, {step.entry.topic: position}, step.services.clock()
        )[step.entry.topic]
        return ahead if ahead.start > done.start else None
