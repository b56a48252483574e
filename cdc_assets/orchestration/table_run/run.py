"""Runs one table's step: its turns, and the report of a turn that fails.

Delivery: each batch is published to the lake before its materialization is logged. A run
that dies in between leaves the lake correct and Dagster without that one event; the next run
continues from the lake.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dagster as dg

from cdc_assets.changes.offsets import OffsetVector, total_length
from cdc_assets.changes.slo import SloWindow
from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import effect
from cdc_assets.errors import HeldError, message_of
from cdc_assets.operate.slo import pace_after
from cdc_assets.operate.survey import TableSurvey
from cdc_assets.orchestration.failing import (
    MAX_RETRIES,
    failure_observation,
    failure_of,
)
from cdc_assets.orchestration.metadata import NO_LAG, quiet_metadata
from cdc_assets.orchestration.scheduler import Ends, RunIsOverError
from cdc_assets.orchestration.table_run.batches import Drain, RenameOutcome, Replay, begin
from cdc_assets.orchestration.table_run.report import (
    Event,
    FailureRecord,
    StepChecks,
    batch_event,
    lag_of,
    last_events,
    quiet_result,
)
from cdc_assets.orchestration.table_run.step import Intention, OnBatch, TableStep
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge import BatchResult
    from cdc_assets.orchestration.resources import ReplicationSpark


class TableRun:
    """The work of one step. Use it once.

    Args:
        context: the step's context.
        config: the configuration.
        entry: the table's entry in the registry.
        spark: the resource with the run's sessions.
        on_batch: receives each batch; a run that has it does not stay.
    """

    def __init__(
        self,
        context: dg.AssetExecutionContext,
        config: ReplicationConfig,
        entry: TableEntry,
        spark: ReplicationSpark,
        on_batch: OnBatch | None = None,
    ) -> None:
        self._step = step = TableStep(context, config, entry, spark, on_batch)
        self._record = record = FailureRecord(step)
        self._checks = checks = StepChecks(step)
        drain = Drain(step, record)
        self._replay = Replay(step, drain, record, checks)
        self._one_turn = OneTurn(step, drain, self._replay, record, checks)
        self._turn_by_turn = TurnByTurn(step, drain, record, checks)

    def events(self) -> Iterator[Event]:
        """Does the work; yields each batch's materialization as soon as the next one is done.

        Raises:
            dagster.Failure: for every error. It is recorded for `status` and the sensors, unless
                hours were being replayed: that does not prevent the table from continuing.
        """
        step = self._step
        try:
            for event in self._work():
                with effect("dagster: event"):
                    yield event
            step.leave()
            return
        except RunIsOverError:
            what = f"{step.entry.table}: the run was stopped before the table had its turn"
            raise dg.Failure(what, allow_retries=False) from None
        except Exception as error:
            failed = error
        # Out of the handler: an error of what follows must not quote this one in its context.
        failure = failure_of(step.entry, failed)
        if not failure.allow_retries or step.context.retry_number >= MAX_RETRIES:
            try:
                yield from self._given_up(failed, failure)
            except Exception as error:  # the first error is what a person has to see
                said = f"{step.entry.table}: its failure could not be shown: {message_of(error)}"
                step.context.log.warning(said)
            finally:
                step.leave()
        raise failure

    def _given_up(self, error: Exception, failure: dg.Failure) -> Iterator[Event]:
        """Records the failure of the last try, and yields what shows it."""
        if not self._replay.is_merging_again and not isinstance(error, HeldError):
            self._record.fail(error)
        yield failure_observation(self._step.config, self._step.entry, failure)
        yield from self._checks.despite(failure)

    def _work(self) -> Iterator[Event]:
        step, scheduler = self._step, self._step.scheduler
        if not scheduler.stays:
            step.directives.wait_for_publish(scheduler)
            with step.turn():
                if not (yield from self._is_held()):
                    yield from self._one_turn.events()
            return
        ends: Ends | None = {}
        while ends is not None:
            step.directives.wait_for_publish(scheduler)
            with step.turn():
                if (yield from self._is_held()) or (yield from self._turn_by_turn.catch_up(ends)):
                    return
            ends = self._turn_by_turn.wait_idle()
        yield self._turn_by_turn.result()

    def _is_held(self) -> Generator[Event, None, bool]:
        """Returns whether people hold the table; then the step ends here.

        Raises:
            HeldError: if a person has asked for this very run.
        """
        step, checks = self._step, self._checks
        said = step.directives.hold(step.intention)
        if not said:
            return False
        step.context.log.info(f"{step.entry.table}: {said}")
        step.scheduler.on_released(step.directives.is_released)
        yield quiet_result(step, checks)
        return True


# ── a run that does not stay ─────────────────────────────────────────────────────────────


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
        if isinstance(before, RenameOutcome) or before.reading is not None:
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
        alone = step.scheduler.is_alone(step.name) and step.on_batch is None
        until = None
        if not alone and before.marks is not None:
            until = step.readings.end(step.entry, before.marks.end)
        yield from self.drain.batches(until)


class WithheldLast:
    """An iterator over batches that withholds the last one, and keeps it in ``last``.

    The last batch of a turn becomes the result of the table's step. If the next batch fails, the
    one before it is passed on first: it was published.
    """

    def __init__(self, batches: Iterator[BatchResult]) -> None:
        self._batches = batches
        self.last: BatchResult | None = None

    def __iter__(self) -> Iterator[BatchResult]:
        try:
            for batch in self._batches:
                if self.last is not None:
                    yield self.last
                self.last = batch
        except Exception:
            if self.last is not None:
                yield self.last
            raise


# ── a run that stays ─────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class TableProgress:
    """A table's state after its last turn.

    ``has_topic``: whether its topic is there; not before the first change of a table that was read
    from its source.
    """

    committed: OffsetVector
    snapshot: int | None
    slo: SloWindow = field(default_factory=SloWindow)
    has_topic: bool = True


@dataclass
class TurnByTurn:
    """A table's turns in a run that stays, with idle time between them.

    Attributes:
        step: the step.
        drain: merges the table's next batches.
        record: the table's failure or wait.
        checks: the table's checks, which its first turn yields.
        progress: the table after its last turn; None before the first.
        unread: changes that were unread when its topic was looked at last; None before it was
            looked at after the last turn.
        is_read: whether its first rows are there; if not, reading them continues with the next
            turn.
    """

    step: TableStep
    drain: Drain
    record: FailureRecord
    checks: StepChecks
    progress: TableProgress | None = None
    unread: int | None = None
    is_read: bool = True

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
        if self.progress is None or until is None:
            before = yield from begin(step, record)
            match before:
                case RenameOutcome.DONE:
                    step.scheduler.end()  # the tables are no longer those that were loaded
                    yield quiet_result(step, self.checks)
                    return True
                case RenameOutcome.WAITS:  # what it waits for concerns this table alone
                    yield from self.checks.once()
                    return False
                case TableSurvey(reading=reading) if reading is not None:
                    self.is_read = False
                    yield from record.settle()
                    yield from self.checks.once()
                    return False
                case TableSurvey(state=state, marks=marks, position=position, published=published):
                    self.is_read = True
                    slo = published.slo if published else SloWindow()
                    snapshot = state.snapshot_id if state else None
                    has_topic = published is None or bool(published.topic_id)
                    self.progress = TableProgress(position, snapshot, slo, has_topic)
                    until = marks.end if marks else None
        for batch in self.drain.batches(until and step.readings.end(step.entry, until)):
            event = batch_event(step, batch)
            self.progress = TableProgress(batch.end, batch.snapshot_id, batch.slo)
            yield event
        if was_waiting or not self.checks.are_yielded:
            yield from record.settle()
        yield from self.checks.once()
        return False

    def wait_idle(self) -> Ends | None:
        """Waits until the table is due, and returns the topics' ends; None if the run is over.

        A table whose topic is gone is due: its turn reports that.
        """
        step, hold = self.step, self.record.hold
        topic, runs, progress = step.entry.topic, step.config.runs, self.progress
        progress = progress or TableProgress(OffsetVector(), None)
        pace = pace_after(step.config, step.entry.table, progress.slo, step.services.clock())

        def due_in(ends: Ends, idle_seconds: float) -> float | None:
            if not self.is_read:
                return 0.0
            is_gone = topic not in ends and progress.has_topic
            behind = progress.committed.ranges_to(ends.get(topic, OffsetVector()))
            self.unread = 1 if is_gone else total_length(behind)
            if hold is not None:
                has_moved = hold.has_moved(ends) or step.services.clock() >= hold.stops_at
                return runs.wait(1 if has_moved else 0, idle_seconds, pace)
            if behind and step.scheduler.is_awaited(step.entry, progress.committed):
                return 0.0
            return runs.wait(runs.many_changes if is_gone else self.unread, idle_seconds, pace)

        topics = {topic, *(hold.log_end if hold else ())}
        return step.scheduler.wait_idle(step.name, topics, due_in)

    def result(self) -> dg.MaterializeResult[Any]:
        """Returns a result from known facts: a run that is over must not delay the next one.

        Kafka is only asked for the lag of a table that may have one.
        """
        step, progress = self.step, self.progress or TableProgress(OffsetVector(), None)
        is_behind = self.unread != 0
        lag = lag_of(step, step.entry.topic, progress.committed) if is_behind else NO_LAG
        return dg.MaterializeResult(
            metadata=quiet_metadata(progress.committed, lag),
            data_version=dg.DataVersion(str(progress.snapshot)) if progress.snapshot else None,
        )
