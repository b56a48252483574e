"""Does what comes before a table's first batch in a run."""

from __future__ import annotations

from collections.abc import Generator

from cdc_assets.operate.survey import TableSurvey
from cdc_assets.orchestration.table_run.events import Event
from cdc_assets.orchestration.table_run.failure_record import FailureRecord
from cdc_assets.orchestration.table_run.renamed import Followed, as_called_now, follow
from cdc_assets.orchestration.table_run.step import TableStep


def begin(step: TableStep, record: FailureRecord) -> Generator[Event, None, TableSurvey | Followed]:
    """Surveys the table, and does what comes before its first batch, whoever asks for that.

    Returns:
        The table; if it continues the rows of another one, how far that has come.

    Raises:
        TerminalError: if the rows of a first batch would be wrong unnoticed.
        CdcError: if the table cannot be read, or the one whose rows it continues not be followed.
    """
    before = as_called_now(step, step.survey())
    if before.state is None:
        followed = yield from follow(step, record)
        if followed is not None:
            return followed
    _require_assessed(step, before)
    return before


def _require_assessed(step: TableStep, before: TableSurvey) -> None:
    """Refuses a first batch whose rows would be wrong unnoticed."""
    if before.published is None and before.lag_changes:
        from cdc_assets.operate.assess.gate import require_assessed

        for unsearched in require_assessed(step.services, step.entry):
            step.context.log.warning(
                f"{step.entry.table}: {unsearched}, for which its connector sends NULL: set "
                "event.converting.failure.handling.mode=fail"
            )
