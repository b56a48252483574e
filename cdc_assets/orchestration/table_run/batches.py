"""Merges a table's batches in its turn: the next ones, those of hours once more, a renamed table's.

A table that was renamed at its source is followed in the run that meets its new name first. The
lake is changed first and the registry last (`cdc_assets.merge.renamed`): a run that dies in between
leaves an old entry, which the table's next run updates.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import dagster as dg

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TerminalError, TransientError
from cdc_assets.log.hours import HourWindow, hour_of
from cdc_assets.operate.hours import hours_to_read
from cdc_assets.operate.known_tables import replicated
from cdc_assets.operate.services import Services
from cdc_assets.operate.states import held_words, reading_words
from cdc_assets.operate.survey import TableSurvey
from cdc_assets.orchestration.cuts import cut_event
from cdc_assets.orchestration.keys import table_key
from cdc_assets.orchestration.metadata import (
    Lag,
    Metadata,
    batch_metadata,
    lag_metadata,
    materialization,
    quiet_metadata,
    reading_metadata,
)
from cdc_assets.orchestration.table_run.report import (
    Event,
    FailureRecord,
    StepChecks,
    batch_event,
    lag_of,
    report_batch,
)
from cdc_assets.orchestration.table_run.step import Intention, TableStep
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.lake.shadow_progress import ShadowProgress
    from cdc_assets.merge import BatchResult
    from cdc_assets.operations.session import TableSession


# ── before the first batch ───────────────────────────────────────────────────────────────


class RenameOutcome(Enum):
    """The outcome of following a table by its new name."""

    WAITS = auto()
    """The records under the former name cannot be merged yet."""
    DONE = auto()
    """This table is the one of the former name, whose asset has taken over the new name."""


def begin(
    step: TableStep, record: FailureRecord
) -> Generator[Event, None, TableSurvey | RenameOutcome]:
    """Surveys the table, follows a rename, checks the table before its first batch, and reads it.

    Returns:
        The table; if it continues the rows of another one, how far that has come. A table that is
        to be read from its source, and is not read to its end in this turn, is not merged.

    Raises:
        TerminalError: if the rows of a first batch would be wrong unnoticed.
        CdcError: if the table cannot be read, or the one whose rows it continues not be followed.
    """
    before = _with_name_at_source(step, step.survey())
    if before.state is None:
        outcome = yield from follow_rename(step, record)
        if outcome is not None:
            return outcome
    _require_assessed(step, before)
    if before.reading is None:
        return before
    yield from read_first(step)
    return step.survey()


def _require_assessed(step: TableStep, before: TableSurvey) -> None:
    """Refuses a first batch whose rows would be wrong unnoticed."""
    if before.published is None and (before.lag_changes or before.reading is not None):
        from cdc_assets.operate.assess.gate import require_assessed

        for unsearched in require_assessed(step.services, step.entry):
            step.context.log.warning(
                f"{step.entry.table}: {unsearched}, for which its connector sends NULL: set "
                "event.converting.failure.handling.mode=fail"
            )


def _with_name_at_source(step: TableStep, before: TableSurvey) -> TableSurvey:
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


def follow_rename(
    step: TableStep, record: FailureRecord
) -> Generator[Event, None, RenameOutcome | None]:
    """Continues the rows of a table that was renamed to this one's name, if there is one.

    Returns:
        How far that has come; None if there is none.

    Raises:
        TerminalError: if people hold that table.
        TransientError: if another writer leases that table for a publish.
        CdcError: if that table cannot be followed.
    """
    from cdc_assets.merge import BatchResult, Waiting
    from cdc_assets.merge.renamed import Renames

    config, clock = step.services.config, step.services.clock
    slot = step.slot
    renames = Renames(config, slot.session, clock=clock, connections=slot.connections)
    known = replicated(config, step.services.registry.load())
    if any(each.renamed and each.topic == step.entry.topic for each in known):
        return RenameOutcome.DONE  # another step of the run has found it already
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
                return RenameOutcome.WAITS
            case _:
                step.services.registry.rename(old.table, done)
                step.services.failures.clear(old.table)
                step.services.failures.clear(step.entry.table)
                step.context.log.info(
                    f"{old.table} is called {step.entry.table.qualified} at its source now: "
                    f"its asset continues with {done.topic}"
                )
    return RenameOutcome.DONE


def _require_free(services: Services, former: TableName, table: TableName) -> None:
    """Requires that directives allow a batch of the former table, as its own step would."""
    wanted, where = services.desired.of(former), f"table={table}"
    whose = f"its rows continue in {former}, its former name"
    if said := held_words(former, wanted):
        held, _, remedy = said.partition(" → ")
        what = f"{whose}, and that is held: {held}"
        raise TerminalError(what, where=where, remedy=remedy)
    if wanted.yields is not None:
        what = f"{whose}, where another writer is about to publish"
        raise TransientError(what, where=where, remedy="the next try continues")


# ── the first rows ───────────────────────────────────────────────────────────────────────


SHOWN_SECONDS: Final = 30.0
"""The least time between two events about the progress of a read."""


def read_first(step: TableStep) -> Iterator[Event]:
    """Reads a new table's rows from its source, as far as the turn's time allows.

    Events show how far the read has come; a materialization shows the whole table.

    Raises:
        CdcError: if the table cannot be read; rows that were read before stay.
    """
    from cdc_assets.operations.rebuild.first_read import FirstRead

    session = _session(step)
    shown = float("-inf")
    with session, closing(FirstRead(session).steps()) as steps:
        for progress in steps:
            if time.monotonic() - shown >= SHOWN_SECONDS:
                shown = time.monotonic()
                yield _reading_event(step, progress)
            is_over = step.scheduler.stays and step.seconds_left <= 0
            if is_over or step.scheduler.is_stopped or step.directives.ends_turn:
                yield _reading_event(step, progress)
                return
    after = step.survey()
    if after.state is not None:
        yield _whole_event(step, after)


def _session(step: TableStep) -> TableSession:
    from cdc_assets.operations.session import Host, TableSession

    host = Host(step.context.run.run_id, step.slot.session)
    log = step.context.log

    def say(words: str) -> None:
        log.info(f"{step.entry.table}: {words}")

    return TableSession(step.services, [step.entry], host, say)


def _reading_event(step: TableStep, progress: ShadowProgress) -> dg.AssetObservation:
    return dg.AssetObservation(
        table_key(step.config, step.entry),
        description=reading_words(progress),
        metadata=reading_metadata(progress),
    )


def _whole_event(step: TableStep, after: TableSurvey) -> dg.AssetMaterialization:
    """Returns the materialization of a table that was read from its source."""
    snapshot = after.state.snapshot_id if after.state else None
    rows = after.state.total_records if after.state else None
    metadata = {
        **quiet_metadata(after.committed, lag_of(step, step.entry.topic, after.committed)),
        **({"dagster/row_count": rows} if rows is not None else {}),
    }
    hour = hour_of(step.services.clock(), step.entry.hours_from)
    return materialization(table_key(step.config, step.entry), hour.key, metadata, snapshot)


# ── the next batches ─────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Drain:
    """The batches of a table's turn, from the committed offsets on.

    Attributes:
        step: the step.
        record: records a wait.
    """

    step: TableStep
    record: FailureRecord

    def batches(self, until: OffsetVector | None) -> Iterator[BatchResult]:
        """Merges batch after batch; yields each once it is published and reported.

        Begins with the run's last hour. Ends when the table has caught up or waits, when its time
        is spent, or when people or another writer want the turn to end.

        Args:
            until: next-to-read offsets to end at; None for wherever the log ends by then.

        Raises:
            StalledError: if the table has waited for too long, unless the run replays hours.
            CdcError: see `cdc_assets.errors`; batches yielded before stay published.
        """
        from cdc_assets.merge import Waiting

        step = self.step
        replaying = step.intention is Intention.REPLAY
        for batch in step.slot.replicator.sharing(step.readings).drain(
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
            self._advance_cuts()
            yield batch
            if step.scheduler.is_stopped or step.directives.ends_turn:
                return
            if until is not None and self._is_enough(batch.end, until):
                return

    def _advance_cuts(self) -> None:
        """Adds or begins a cut of the table's source, if that is due after this batch."""
        step, cuts = self.step, self.step.slot.cuts
        for cut in cuts.advance(step.entry) if cuts else ():
            event = cut_event(step.config, step.entry.table.source, cut)
            step.context.instance.report_runless_asset_event(event)

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
        topic, now, log = step.entry.topic, step.services.clock(), step.services.log
        ahead = hours_to_read(log, {topic: position}, now, step.entry.hours_from)[topic]
        return ahead if ahead.start > done.start else None


# ── hours once more ──────────────────────────────────────────────────────────────────────


_SUMMED: Final = (
    "records",
    "rows_inserted",
    "rows_updated",
    "rows_deleted",
    "records_rejected",
    "records_stale",
    "duration_seconds",
)


class ReplayedHours:
    """Sums up the batches of a replay: an hour is one event, however many batches it took."""

    def __init__(self, windows: Sequence[HourWindow]) -> None:
        self._batches: dict[HourWindow, list[BatchResult]] = {window: [] for window in windows}

    def add(self, batch: BatchResult) -> None:
        """Adds a batch to its hour."""
        self._batches[batch.hour].append(batch)

    def metadata(
        self, config: ReplicationConfig, entry: TableEntry, lag: Lag | None
    ) -> Iterator[tuple[HourWindow, Metadata]]:
        """Yields for each hour the last batch's metadata with the sums of all; zeros if none."""
        for window, batches in self._batches.items():
            each = [batch_metadata(config, entry, batch, lag) for batch in batches]
            sums = {name: sum(one[name] for one in each) for name in _SUMMED}
            yield window, {**(each[-1] if each else lag_metadata(lag)), **sums, "replay": True}


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
        run_id, replicator = step.context.run.run_id, step.slot.replicator
        yield from replicator.replay(step.entry, step.windows, run_id=run_id)
        self.is_merging_again = False
