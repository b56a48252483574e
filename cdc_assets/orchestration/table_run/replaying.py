"""Merges chosen hours once more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg

from cdc_assets.operate.survey import TableSurvey
from cdc_assets.orchestration.replayed import ReplayedHours
from cdc_assets.orchestration.table_run.batch_report import report_batch
from cdc_assets.orchestration.table_run.draining import Drain
from cdc_assets.orchestration.table_run.events import Event, batch_event
from cdc_assets.orchestration.table_run.failure_record import FailureRecord
from cdc_assets.orchestration.table_run.lag import lag_of
from cdc_assets.orchestration.table_run.step import TableStep
from cdc_assets.orchestration.table_run.step_checks import StepChecks

if TYPE_CHECKING:
    from cdc_assets.merge import BatchResult


@dataclass
class Replay:
    """The replay of a run's hours.

    Attributes:
        step: the step.
        drain: merges the records of these hours that were not merged yet.
        record: the table's failure, which a success clears.
        checks: the table's checks.
        is_merging_again: whether hours are being merged again; stays true after an error in that.
    """

    step: TableStep
    drain: Drain
    record: FailureRecord
    checks: StepChecks
    is_merging_again: bool = False

    def events(self, before: TableSurvey) -> Iterator[Event]:
        """Merges the hours again, then their unmerged records; one event per hour, exact sums.

        Args:
            before: the table before the replay.

        Raises:
            CdcError: see `cdc_assets.errors`; batches that were published stay so.
        """
        step = self.step
        hours = ReplayedHours(step.windows)
        for batch in self._again() if before.published else ():
            report_batch(step, batch)
            hours.add(batch)
        for batch in self.drain.batches(until=None):
            yield batch_event(step, batch)
        yield from self.record.settle()
        lag = lag_of(step, step.entry.topic, step.survey().committed)
        for window, metadata in hours.metadata(step.services.config, step.entry, lag):
            step.context.add_asset_metadata(metadata, partition_key=window.key)
        yield dg.MaterializeResult(check_results=list(self.checks.results()))

    def _again(self) -> Iterator[BatchResult]:
        self.is_merging_again = True
        step = self.step
        run_id, replicator = step.context.run.run_id, step.place.replicator
        yield from replicator.replay(step.entry, step.windows, run_id=run_id)
        self.is_merging_again = False
