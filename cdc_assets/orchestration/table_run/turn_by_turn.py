"""Does the work of a run that stays: a table has turn after turn in it, with rests between."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from cdc_assets.changes.offsets import OffsetVector, total_length
from cdc_assets.changes.slo import SloWindow
from cdc_assets.operate.slo import pace_after
from cdc_assets.operate.survey import TableSurvey
from cdc_assets.orchestration.metadata import NO_LAG, quiet_metadata
from cdc_assets.orchestration.table_run.beginning import begin
from cdc_assets.orchestration.table_run.draining import Drain
from cdc_assets.orchestration.table_run.events import Event, batch_event, quiet_result
from cdc_assets.orchestration.table_run.failure_record import FailureRecord
from cdc_assets.orchestration.table_run.lag import lag_of
from cdc_assets.orchestration.table_run.renamed import Followed
from cdc_assets.orchestration.table_run.step import TableStep
from cdc_assets.orchestration.table_run.step_checks import StepChecks
from cdc_assets.orchestration.turns import Ends


@dataclass(frozen=True, slots=True)
class Known:
    """A table's state after its last turn."""

    committed: OffsetVector
    snapshot: int | None
    slo: SloWindow = field(default_factory=SloWindow)


@dataclass
class TurnByTurn:
    """A table's turns and rests in a run that stays.

    Attributes:
        step: the step.
        drain: merges the table's next batches.
        record: the table's failure or wait.
        checks: the table's checks, which its first turn yields.
        known: the table after its last turn; None before the first.
        unread: changes that were unread when its topic was looked at last; None before it was
            looked at after the last turn.
    """

    step: TableStep
    drain: Drain
    record: FailureRecord
    checks: StepChecks
    known: Known | None = None
    unread: int | None = None

    def catch_up(self, ends: Ends) -> Generator[Event, None, bool]:
        """Does one turn.

        Args:
            ends: the ends of the table's topics; empty the first time.

        Returns:
            Whether the table's work in this run is finished.

        Raises:
            CdcError: see `cdc_assets.errors`; batches yielded before stay published.
        """
        step, record = self.step, self.record
        was_waiting, record.waiting = record.waiting is not None, None
        self.unread = None
        step.entry = step.services.registry.load().get(step.entry.table) or step.entry
        until = ends.get(step.entry.topic)
        if self.known is None or until is None:
            before = yield from begin(step, record)
            match before:
                case Followed.DONE:
                    step.turns.end()  # the tables are no longer those that were loaded
                    yield quiet_result(step, self.checks)
                    return True
                case Followed.WAITS:  # what it waits for concerns this table alone
                    yield from self.checks.once()
                    return False
                case TableSurvey(state=state, marks=marks, position=position, published=published):
                    slo = published.slo if published else SloWindow()
                    self.known = Known(position, state.snapshot_id if state else None, slo)
                    until = marks.end if marks else None
        for batch in self.drain.batches(until and step.readings.end(step.entry, until)):
            event = batch_event(step, batch)
            self.known = Known(batch.end, batch.snapshot_id, batch.slo)
            yield event
        if was_waiting or not self.checks.are_yielded:
            yield from record.settle()
        yield from self.checks.once()
        return False

    def rest(self) -> Ends | None:
        """Waits until the table is due, and returns the topics' ends; None if the run is over.

        A table whose topic is gone is due: its turn reports that.
        """
        step, hold = self.step, self.record.hold
        topic, runs, known = step.entry.topic, step.config.runs, self.known
        committed, window = (known.committed, known.slo) if known else (OffsetVector(), SloWindow())
        pace = pace_after(step.config, step.entry.table, window, step.services.clock())

        def due_in(ends: Ends, rested: float) -> float | None:
            is_gone = topic not in ends
            self.unread = 1 if is_gone else total_length(committed.ranges_to(ends[topic]))
            if hold is not None:
                has_moved = hold.has_moved(ends) or step.services.clock() >= hold.stops_at
                return runs.wait(1 if has_moved else 0, rested, pace)
            return runs.wait(runs.many_changes if is_gone else self.unread, rested, pace)

        return step.turns.rest(step.name, {topic, *(hold.log_end if hold else ())}, due_in)

    def result(self) -> dg.MaterializeResult[Any]:
        """Returns a result from known facts: a run that is over must not delay the next one.

        Kafka is only asked for the lag of a table that may have one.
        """
        step, known = self.step, self.known or Known(OffsetVector(), None)
        is_behind = self.unread != 0
        lag = lag_of(step, step.entry.topic, known.committed) if is_behind else NO_LAG
        return dg.MaterializeResult(
            metadata=quiet_metadata(known.committed, lag),
            data_version=dg.DataVersion(str(known.snapshot)) if known.snapshot else None,
        )
