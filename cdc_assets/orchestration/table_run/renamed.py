"""Follows a table that was renamed at its source, in the run that meets its new name first.

The lake is changed first and the registry last (`cdc_assets.merge.renamed`): a run that dies in
between leaves an old entry, which the table's next run updates.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from enum import Enum, auto

from cdc_assets.changes.names import TableName
from cdc_assets.errors import TerminalError, TransientError
from cdc_assets.operate.discovery import replicated
from cdc_assets.operate.services import Services
from cdc_assets.operate.states import held_words
from cdc_assets.operate.survey import TableSurvey
from cdc_assets.orchestration.table_run.batch_report import report_batch
from cdc_assets.orchestration.table_run.events import Event, batch_event
from cdc_assets.orchestration.table_run.failure_record import FailureRecord
from cdc_assets.orchestration.table_run.step import TableStep


class Followed(Enum):
    """The outcome of following a table by its new name."""

    WAITS = auto()
    """What came under the former name cannot be merged yet."""
    DONE = auto()
    """This table is the one of the former name, whose asset goes on with it."""


def as_called_now(step: TableStep, before: TableSurvey) -> TableSurvey:
    """Updates the entry from the lake: a run that followed a rename may have died after it.

    Returns:
        The table; surveyed again if its entry has changed.

    Raises:
        CdcError: if the registry does not answer, or the table cannot be read.
    """
    from cdc_assets.lake.at_source import AtSource

    if before.published is None:
        return before
    said = AtSource.of(before.state, step.entry.shard_value)
    renamed = said.renamed_to(before.published.topic)
    if renamed is None or renamed == step.entry.renamed:
        return before
    step.services.registry.rename(step.entry.table, renamed)
    step.entry = replace(step.entry, topic=renamed.topic, renamed=renamed)
    return step.survey()


def follow(step: TableStep, record: FailureRecord) -> Generator[Event, None, Followed | None]:
    """Continues the rows of a table that was renamed to this one's name, if there is one.

    Returns:
        How far that has come; None if there is none.

    Raises:
        TerminalError: if people want nothing to be merged into that one.
        TransientError: if another writer has those wait that merge into it.
        CdcError: if that one cannot be followed.
    """
    from cdc_assets.merge import BatchResult, Waiting
    from cdc_assets.merge.renamed import Renames

    config, clock = step.services.config, step.services.clock
    place = step.place
    renames = Renames(config, place.session, clock=clock, connections=place.connections)
    known = replicated(config, step.services.registry.load())
    if any(each.renamed and each.topic == step.entry.topic for each in known):
        return Followed.DONE  # another step of the run has found it already
    former = renames.former(step.entry, known)
    if former is None:
        return None
    old = former.entry
    _require_free(step.services, old.table, step.entry.table)
    for done in renames.follow(former, step.entry, step.context.run.run_id):
        match done:
            case BatchResult():
                report_batch(step, done, old)
                yield batch_event(step, done, old)
                _require_free(step.services, old.table, step.entry.table)
            case Waiting():
                record.wait(done)
                return Followed.WAITS
            case _:
                step.services.registry.rename(old.table, done)
                step.services.failures.clear(old.table)
                step.services.failures.clear(step.entry.table)
                step.context.log.info(
                    f"{old.table} is called {step.entry.table.qualified} at its source now: "
                    f"its asset goes on with {done.topic}"
                )
    return Followed.DONE


def _require_free(services: Services, former: TableName, table: TableName) -> None:
    """Requires what is required of a table's own step before it merges."""
    wanted, where = services.desired.of(former), f"table={table}"
    whose = f"its rows go on in {former}, as it was called before"
    if said := held_words(former, wanted):
        held, _, remedy = said.partition(" → ")
        what = f"{whose}, and that is held: {held}"
        raise TerminalError(what, where=where, remedy=remedy)
    if wanted.yields is not None:
        what = f"{whose}, where another writer is about to publish"
        raise TransientError(what, where=where, remedy="the next try goes on with it")
