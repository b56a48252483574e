"""Records a table's failure or wait, and clears it after a success."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg

from cdc_assets.errors import StalledError, TransientError
from cdc_assets.operate.failures import FailureKind, Hold, kind_of
from cdc_assets.orchestration.failing import message_of, recovery_observation
from cdc_assets.orchestration.table_run.intention import Intention
from cdc_assets.orchestration.table_run.step import TableStep
from cdc_assets.orchestration.waiting import hold_of, stalled, waiting_words

if TYPE_CHECKING:
    from cdc_assets.merge import Waiting


@dataclass
class FailureRecord:
    """The recorded failure or wait of a step's table.

    Attributes:
        step: the step.
        waiting: the wait that its present turn has met, or its last one; None if it met none.
    """

    step: TableStep
    waiting: Waiting | None = None

    @property
    def hold(self) -> Hold | None:
        """The wait as it is recorded; None if the table does not wait."""
        return hold_of(self.waiting) if self.waiting else None

    def wait(self, waiting: Waiting) -> None:
        """Records the table's wait.

        Raises:
            StalledError: if it has waited for too long, unless the run replays hours.
        """
        step = self.step
        self.waiting, config = waiting, step.services.config
        is_over = step.services.clock() >= waiting.stops_at
        if is_over and step.intention is not Intention.REPLAY:
            raise stalled(config, step.entry, waiting)
        words = waiting_words(config, step.entry, waiting)
        step.context.log.warning(f"{step.entry.table}: waiting: {words}")
        self._record(FailureKind.WAITING, words, hold_of(waiting))

    def fail(self, error: Exception) -> None:
        """Records the table's failure; only logs a warning if that is impossible for now."""
        hold = self.hold if isinstance(error, StalledError) else None
        self._record(kind_of(error), message_of(error), hold)

    def settle(self) -> Iterator[dg.AssetObservation]:
        """Clears the table's failure after a success. Call it before the checks, which read it.

        Raises:
            UnreachableError: if the failures cannot be read or written.
        """
        if self.waiting is not None:
            return
        step = self.step
        if step.entry.table in step.services.failures.load():
            yield recovery_observation(step.config, step.entry)
        step.services.failures.clear(step.entry.table)

    def _record(self, kind: FailureKind, message: str, hold: Hold | None) -> None:
        step = self.step
        table, now = step.entry.table, step.services.clock()
        try:
            step.services.failures.record(
                table, kind, message, now, hold, give_up_after=step.config.runs.give_up_after
            )
        except TransientError as problem:
            step.context.log.warning(f"{table}: its failure could not be remembered: {problem}")
