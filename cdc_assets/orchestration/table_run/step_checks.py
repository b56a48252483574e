"""Evaluates a table's checks for its step, also for one that fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import dagster as dg

from cdc_assets.orchestration.checks import unjudged, verdicts_of
from cdc_assets.orchestration.failing import message_of
from cdc_assets.orchestration.table_run.step import TableStep


@dataclass
class StepChecks:
    """The checks of a table's step, which has one result per check.

    Attributes:
        step: the step.
        are_yielded: whether the results were yielded as events of their own, before the step's end.
    """

    step: TableStep
    are_yielded: bool = False

    def once(self) -> Iterator[dg.AssetCheckResult]:
        """Yields the results if no turn has yielded them.

        Raises:
            CdcError: if the table's facts cannot be read.
        """
        if not self.are_yielded:
            self.are_yielded = True
            yield from self.results()

    def results(self) -> Iterator[dg.AssetCheckResult]:
        """Yields the results.

        Raises:
            CdcError: if the table's facts cannot be read.
        """
        seen = self.step.survey(ages=True)
        yield from (each.result() for each in verdicts_of(self.step.services, seen))

    def despite(self, failure: dg.Failure) -> Iterator[dg.AssetCheckResult]:
        """Yields the checks of a run that fails; otherwise Dagster would only say that they failed.

        A step has one result per check: later ones are reported without the run.
        """
        step = self.step
        try:
            found = verdicts_of(step.services, step.survey(ages=True))
        except Exception as error:  # most often for the same reason as the failure
            said = f"{step.entry.table}: its checks cannot be judged: {message_of(error)}"
            step.context.log.warning(said)
            found = unjudged(step.config, step.entry, failure.description or "")
        if not self.are_yielded:
            yield from (each.result() for each in found)
            return
        for each in found:
            step.context.instance.report_runless_asset_event(each.evaluation())
