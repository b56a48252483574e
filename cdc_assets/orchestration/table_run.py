"""Merges one table in a run: the work of materializing its asset.

Delivery: each batch is published to the lake before its materialization is logged. A run
that dies in between leaves the lake correct and Dagster without that one event; the next run
continues from the lake. The numbers of all materializations of a table add up to what was
merged: an event that merged nothing says 0.

The way a run was started decides what it merges:

- *tail* (a sensor, a command): from the committed offsets to the end of the log, hour by
  hour, until caught up or out of time. In a run with other tables, only up to the log's end at
  the start of the turn, so that no busy table keeps the others waiting; with other tables of its
  topic, only as far as these have read, see `cdc_assets.merge.intake.shared_reading`. A run of
  a sensor stays: a table has turn after turn in it, see `cdc_assets.orchestration.turns`.
- *replay* (a backfill, or a range of partitions): the chosen hours once more, then those of
  their records that were not merged yet.
- *by hand* (one partition): like a tail; if that hour is over and held nothing new, replays it.

Nothing is merged into a table that people have paused or dropped: a tail leaves it, before its
next batch at the latest; the others fail, and say how to resume it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from cdc_assets.changes.offsets import OffsetVector, total_length
from cdc_assets.config import ReplicationConfig, SourceConfig
from cdc_assets.desired import NOTHING, Desired
from cdc_assets.effects import effect
from cdc_assets.errors import HeldError, StalledError, TerminalError, TransientError
from cdc_assets.log.hours import HourWindow
from cdc_assets.operate.ddl import among_rows
from cdc_assets.operate.discovery import add_seen, replicated
from cdc_assets.operate.failures import FailureKind, Hold, kind_of
from cdc_assets.operate.hours import hours_to_read
from cdc_assets.operate.services import Services
from cdc_assets.operate.states import held_words
from cdc_assets.operate.survey import TableSurvey, survey
from cdc_assets.orchestration.checks import unjudged, verdicts_of
from cdc_assets.orchestration.failing import (
    MAX_RETRIES,
    failure_observation,
    failure_of,
    message_of,
    recovery_observation,
)
from cdc_assets.orchestration.keys import REPLAY, TAG_MODE, TAIL, table_key
from cdc_assets.orchestration.metadata import (
    Lag,
    batch_metadata,
    materialization,
    quiet_metadata,
)
from cdc_assets.orchestration.places import Place
from cdc_assets.orchestration.replayed import ReplayedHours
from cdc_assets.orchestration.sensors.ddl import observation
from cdc_assets.orchestration.staying import turns_of
from cdc_assets.orchestration.turns import Ends, RunIsOverError, Turn, Turns
from cdc_assets.orchestration.waiting import hold_of, stalled, waiting_words
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge import BatchResult, Waiting
    from cdc_assets.merge.intake.shared_reading import SharedReadings
    from cdc_assets.orchestration.resources import ReplicationSpark

BACKFILL_TAG = "dagster/backfill"
RANGE_TAG = "dagster/asset_partition_range_start"

LOOK_SECONDS: Final = 2.0
"""How often a long turn checks whether people want it to end."""
YIELD_SECONDS: Final = 0.5
"""How often a turn that waits for another process's publish checks whether it has come."""

OnBatch = Callable[["BatchResult"], None]
Event = dg.AssetMaterialization | dg.MaterializeResult | dg.AssetObservation | dg.AssetCheckResult


class Intention(Enum):
    """The reason why a run was started."""

    TAIL = auto()
    REPLAY = auto()
    BY_HAND = auto()


def intention_of(run: dg.DagsterRun) -> Intention:
    """Reads the intention from a run's tags; an explicit tag wins."""
    mode = run.tags.get(TAG_MODE)
    if mode == TAIL:
        return Intention.TAIL
    if mode == REPLAY or BACKFILL_TAG in run.tags or RANGE_TAG in run.tags:
        return Intention.REPLAY
    return Intention.BY_HAND


@dataclass(frozen=True, slots=True)
class Known:
    """A table's state after its last turn."""

    committed: OffsetVector
    snapshot: int | None


@dataclass
class TableRun:
    """The work of one step. Use it once.

    Attributes:
        context: the step's context.
        config: the configuration.
        entry: the table's present entry in the registry.
        spark: the resource with the run's sessions.
        on_batch: receives each batch; a run that has it does not stay.
    """

    context: dg.AssetExecutionContext
    config: ReplicationConfig
    entry: TableEntry
    spark: ReplicationSpark
    on_batch: OnBatch | None = None
    _replaying: bool = False
    _waiting: Waiting | None = None
    _known: Known | None = None
    _has_checks: bool = False
    _turn: Turn | None = None
    _deadline: float = 0.0
    _looked: float = float("-inf")
    _wishes: Desired = NOTHING
    _idle: Services = field(init=False)

    def __post_init__(self) -> None:
        self._idle = Services(self.config)

    def events(self) -> Iterator[Event]:
        """Does the work; yields each batch's materialization as soon as the next one is done.

        Raises:
            dagster.Failure: for every error. It is recorded for `status` and the sensors, unless
                hours were being replayed: that does not prevent the table from continuing.
        """
        try:
            for event in self._work():
                with effect("dagster: event"):
                    yield event
            self._turns.leave(self._step, self.entry)
            return
        except RunIsOverError:
            what = f"{self.entry.table}: the run was stopped before the table had its turn"
            raise dg.Failure(what, allow_retries=False) from None
        except Exception as error:
            failed = error
        # Out of the handler: an error of what follows must not quote this one in its context.
        failure = failure_of(self.entry, failed)
        if not failure.allow_retries or self.context.retry_number >= MAX_RETRIES:
            try:
                yield from self._given_up(failed, failure)
            finally:
                self._turns.leave(self._step, self.entry)
        raise failure

    def _given_up(self, error: Exception, failure: dg.Failure) -> Iterator[Event]:
        """Records the failure of the last try, and yields what shows it."""
        if not self._replaying and not isinstance(error, HeldError):
            self._remember(error)
        yield failure_observation(self.config, self.entry, failure)
        yield from self._checks_despite(failure)

    @contextmanager
    def _my_turn(self) -> Iterator[Turn]:
        """Waits for a turn, and yields it: a place to work, and limited time.

        Raises:
            RunIsOverError: if the run is told to stop before.
        """
        with self._turns.turn(self._step, self.entry) as turn:
            self._turn, self._deadline = turn, time.monotonic() + self._source.batch.drain_seconds
            try:
                yield turn
            except Exception:
                turn.place.forget()  # the session may be what failed; the next turn opens another
                raise
            finally:
                self._turn = None

    @property
    def services(self) -> Services:
        """The place's services; without a turn, a spare set for brief use."""
        return self._turn.place.services if self._turn else self._idle

    def _settle(self) -> Iterator[dg.AssetObservation]:
        """Clears the table's failure after a success. Call it before the checks, which read it."""
        if self._waiting is not None:
            return
        if self.entry.table in self.services.failures.load():
            yield recovery_observation(self.config, self.entry)
        self.services.failures.clear(self.entry.table)

    def _wait(self, waiting: Waiting) -> None:
        """Records the table's wait.

        Raises:
            StalledError: if it has waited for too long, unless the run replays hours.
        """
        self._waiting, config = waiting, self.services.config
        is_over = self.services.clock() >= waiting.stops_at
        if is_over and intention_of(self.context.run) is not Intention.REPLAY:
            raise stalled(config, self.entry, waiting)
        words = waiting_words(config, self.entry, waiting)
        self.context.log.warning(f"{self.entry.table}: waiting: {words}")
        self._remember_as(FailureKind.WAITING, words, hold_of(waiting))

    def _work(self) -> Iterator[Event]:
        if not self._turns.stays:
            self._make_way()
            with self._my_turn():
                if not (yield from self._is_let_go()):
                    yield from self._once()
            return
        ends: Ends | None = {}
        while ends is not None:
            self._make_way()
            with self._my_turn():
                if (yield from self._is_let_go()) or (yield from self._catch_up(ends)):
                    return
            ends = self._rest()
        yield self._known_result()

    def _make_way(self) -> None:
        """Waits as long as another writer has it wait for a publish of its own.

        That is before a turn, not in it: other tables may have the place. The wish for it expires
        within a minute, unless it is made again.
        """
        while self._wanted().yields is not None and not self._turns.is_over:
            time.sleep(YIELD_SECONDS)

    def _is_let_go(self) -> Generator[Event, None, bool]:
        """Returns whether people want nothing to be merged; then the step ends here.

        Raises:
            HeldError: if a person has asked for this very run.
        """
        said = held_words(self.entry.table, self._wanted(LOOK_SECONDS))
        if not said:
            return False
        if intention_of(self.context.run) is not Intention.TAIL:
            what, _, remedy = said.partition(" → ")
            raise HeldError(what, where=f"table={self.entry.table}", remedy=remedy)
        self.context.log.info(f"{self.entry.table}: {said}")
        self._turns.let_go(lambda: self._idle.desired.of(self.entry.table).held is None)
        yield self._known_result() if self._has_checks else self._quiet_result()
        return True

    def _wanted(self, within: float = 0.0) -> Desired:
        """Returns what people and other writers wish, as of so many seconds ago at most."""
        if time.monotonic() - self._looked >= within:
            self._wishes = self._idle.desired.of(self.entry.table)
            self._looked = time.monotonic()
        return self._wishes

    @property
    def _is_held(self) -> bool:
        """Whether no further batch is wanted; checked rarely enough between them to be cheap."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return False
        wanted = self._wanted()
        return wanted.held is not None or wanted.yields is not None

    def _catch_up(self, ends: Ends) -> Generator[Event, None, bool]:
        """Does one turn of a run that stays.

        Args:
            ends: the ends of the table's topics; empty the first time.

        Returns:
            Whether the table's work in this run is finished.
        """
        was_waiting, self._waiting = self._waiting is not None, None
        self.entry = self.services.registry.load().get(self.entry.table) or self.entry
        until = ends.get(self.entry.topic)
        if self._known is None or until is None:
            before = yield from self._begun()
            if before is None:
                self._turns.end()  # the tables are no longer those that were loaded
                return True
            self._known = Known(before.position, before.state.snapshot_id if before.state else None)
            until = before.marks.end if before.marks else None
        for batch in self._drain(self._windows[-1], until and self._shared.end(self.entry, until)):
            event = self._event(batch)
            self._known = Known(batch.end, batch.snapshot_id)
            yield event
        if was_waiting or not self._has_checks:
            yield from self._settle()
        if not self._has_checks:
            self._has_checks = True
            yield from self._checks()
        return False

    def _rest(self) -> Ends | None:
        """Waits until the table is due, and returns the topics' ends; None if the run is over.

        A table whose topic is gone is due: its turn reports that.
        """
        topic, known, runs = self.entry.topic, self._known, self.config.runs
        hold = hold_of(self._waiting) if self._waiting else None
        committed = known.committed if known else OffsetVector()

        def is_due(ends: Ends, rested: float) -> bool:
            if hold is not None:
                has_moved = hold.has_moved(ends) or self.services.clock() >= hold.stops_at
                return has_moved and runs.is_worth_a_turn(1, rested)
            is_gone = topic not in ends
            changes = 1 if is_gone else total_length(committed.ranges_to(ends[topic]))
            return runs.is_worth_a_turn(changes, rested)

        return self._turns.rest(self._step, {topic, *(hold.log_end if hold else ())}, is_due)

    def _known_result(self) -> dg.MaterializeResult[Any]:
        """Returns a result from known facts: a run that is over must not delay the next one."""
        known = self._known or Known(OffsetVector(), None)
        return dg.MaterializeResult(
            metadata=quiet_metadata(known.committed, Lag(0, 0.0)),
            data_version=dg.DataVersion(str(known.snapshot)) if known.snapshot else None,
        )

    def _once(self) -> Iterator[Event]:
        intention = intention_of(self.context.run)
        before = yield from self._begun()
        if before is None:
            return
        if intention is Intention.REPLAY:
            yield from self._replay(before)
            return
        batches = _HeldBack(self._tail(before))
        yield from (self._event(batch) for batch in batches)
        by_hand = intention is Intention.BY_HAND and batches.last is None
        if by_hand and before.published is not None and self._is_over(self._windows[-1]):
            yield from self._replay(before)
            return
        yield from self._settle()
        yield from self._finish(batches.last)

    def _begun(self) -> Generator[Event, None, TableSurvey | None]:
        """Surveys the table, and does what comes before its first batch, whoever asks for that.

        Returns:
            The table; None if it continues the rows of another one, which is done then.

        Raises:
            TerminalError: if the rows of a first batch would be wrong unnoticed.
        """
        before = self._as_called_now(self._survey())
        if before.state is None and (yield from self._follow()):
            return None
        self._require_assessed(before)
        return before

    def _as_called_now(self, before: TableSurvey) -> TableSurvey:
        """Updates the entry from the lake: a run that followed a rename may have died after it."""
        from cdc_assets.lake.at_source import AtSource

        if before.published is None:
            return before
        said = AtSource.of(before.state, self.entry.shard_value)
        renamed = said.renamed_to(before.published.topic)
        if renamed is None or renamed == self.entry.renamed:
            return before
        self.services.registry.rename(self.entry.table, renamed)
        self.entry = replace(self.entry, topic=renamed.topic, renamed=renamed)
        return self._survey()

    def _require_assessed(self, before: TableSurvey) -> None:
        """Refuses a first batch whose rows would be wrong unnoticed."""
        if before.published is None and before.lag_changes:
            from cdc_assets.operate.assess.gate import require_assessed

            for unsearched in require_assessed(self.services, self.entry):
                self.context.log.warning(
                    f"{self.entry.table}: {unsearched}, for which its connector sends NULL: set "
                    "event.converting.failure.handling.mode=fail"
                )

    def _follow(self) -> Generator[Event, None, bool]:
        """Continues the rows of a table that was renamed to this one's name, if there is one.

        Returns:
            Whether there is one: then this table is that one.

        Raises:
            TerminalError: if people want nothing to be merged into that one.
            TransientError: if another writer has those wait that merge into it.
        """
        from cdc_assets.merge import BatchResult, Waiting
        from cdc_assets.merge.renamed import Renames

        config, clock = self.services.config, self.services.clock
        place = self._place
        renames = Renames(config, place.session, clock=clock, connections=place.connections)
        known = replicated(config, self.services.registry.load())
        if any(each.renamed and each.topic == self.entry.topic for each in known):
            yield self._quiet_result()  # another step of the run has found it already
            return True
        former = renames.former(self.entry, known)
        if former is None:
            return False
        old = former.entry
        self._require_free(old)
        for done in renames.follow(former, self.entry, self.context.run.run_id):
            match done:
                case BatchResult():
                    self._tell(done)
                    yield self._event(done, old)
                    self._require_free(old)
                case Waiting():
                    self._wait(done)
                case _:
                    self.services.registry.rename(old.table, done)
                    self.services.failures.clear(old.table)
                    self.services.failures.clear(self.entry.table)
                    self.context.log.info(
                        f"{old.table} is called {self.entry.table.qualified} at its source now: "
                        f"its asset goes on with {done.topic}"
                    )
        yield self._quiet_result()
        return True

    def _require_free(self, former: TableEntry) -> None:
        """Requires what is required of a table's own step before it merges."""
        wanted, where = self.services.desired.of(former.table), f"table={self.entry.table}"
        whose = f"its rows go on in {former.table}, as it was called before"
        if said := held_words(former.table, wanted):
            held, _, remedy = said.partition(" → ")
            what = f"{whose}, and that is held: {held}"
            raise TerminalError(what, where=where, remedy=remedy)
        if wanted.yields is not None:
            what = f"{whose}, where another writer is about to publish"
            raise TransientError(what, where=where, remedy="the next try goes on with it")

    def _finish(self, last: BatchResult | None) -> Iterator[Event]:
        """Makes the last batch the step's own materialization, if it belongs to its partition."""
        if last is None or last.hour != self._windows[-1]:
            if last is not None:
                yield self._event(last)
            yield self._quiet_result()
            return
        event = self._event(last)
        yield dg.MaterializeResult(
            metadata=event.metadata,
            data_version=dg.DataVersion(str(last.snapshot_id)) if last.snapshot_id else None,
            check_results=list(self._checks()),
        )

    def _quiet_result(self) -> dg.MaterializeResult[Any]:
        after = self._survey()
        snapshot = after.state.snapshot_id if after.state else None
        return dg.MaterializeResult(
            metadata=quiet_metadata(after.committed, self._lag(after.committed)),
            data_version=dg.DataVersion(str(snapshot)) if snapshot else None,
            check_results=[] if self._has_checks else list(self._checks()),
        )

    def _replay(self, before: TableSurvey) -> Iterator[Event]:
        """Merges the hours again, then their unmerged records; one event per hour, exact sums."""
        hours = ReplayedHours(self._windows)
        for batch in self._again() if before.published else ():
            self._tell(batch)
            hours.add(batch)
        for batch in self._drain(self._windows[-1], until=None):
            yield self._event(batch)
        yield from self._settle()
        lag = self._lag(self._survey().committed)
        for window, metadata in hours.metadata(self.services.config, self.entry, lag):
            self.context.add_asset_metadata(metadata, partition_key=window.key)
        yield dg.MaterializeResult(check_results=list(self._checks()))

    def _again(self) -> Iterator[BatchResult]:
        self._replaying = True
        run_id, replicator = self.context.run.run_id, self._place.replicator
        yield from replicator.replay(self.entry, self._windows, run_id=run_id)
        self._replaying = False

    def _tail(self, before: TableSurvey) -> Iterator[BatchResult]:
        # A command goes on to its next run, so this one stops at its limit.
        alone = self._turns.is_alone(self._step) and self.on_batch is None
        until = None
        if not alone and before.marks is not None:
            until = self._shared.end(self.entry, before.marks.end)
        yield from self._drain(self._windows[-1], until)

    def _drain(self, first: HourWindow, until: OffsetVector | None) -> Iterator[BatchResult]:
        from cdc_assets.merge import Waiting

        replaying = intention_of(self.context.run) is Intention.REPLAY
        for batch in self._place.replicator.sharing(self._shared).drain(
            self.entry,
            window=first,
            run_id=self.context.run.run_id,
            budget_seconds=self._seconds_left,
            next_hour=None if replaying else self._next_hour,
        ):
            if isinstance(batch, Waiting):
                self._wait(batch)
                return
            self._tell(batch)
            yield batch
            if self._is_held:
                return
            if until is not None and self._is_enough(batch.end, until):
                return

    def _is_enough(self, committed: OffsetVector, until: OffsetVector) -> bool:
        if not committed.ranges_to(until):
            return True
        most = self._source.batch.max_records
        return self._shared.is_enough(self.entry, committed, most)

    def _next_hour(self, done: HourWindow, last: BatchResult | None) -> HourWindow | None:
        """Returns a backlog's next hour; None if all is read, time is up or nothing advanced."""
        if self._seconds_left <= 0 or not self._is_over(done):
            return None
        position = last.end if last else self._survey().position
        ahead = hours_to_read(
            self.services.log, {self.entry.topic: position}, self.services.clock()
        )[self.entry.topic]
        return ahead if ahead.start > done.start else None

    def _event(self, batch: BatchResult, of: TableEntry | None = None) -> dg.AssetMaterialization:
        entry = of or self.entry
        lag = self._lag(batch.end, entry.topic)
        metadata = batch_metadata(self.services.config, entry, batch, lag)
        key = table_key(self.config, entry)
        return materialization(key, batch.hour.key, metadata, batch.snapshot_id)

    def _lag(self, committed: OffsetVector, topic: str = "") -> Lag:
        topic = topic or self.entry.topic
        marks = self.services.log.watermarks([topic]).get(topic)
        if marks is None:
            return Lag(0, 0.0)
        changes = total_length(committed.merged_max(marks.begin).ranges_to(marks.end))
        oldest = self.services.log.first_unread({topic: committed})[topic] if changes else None
        seconds = (self.services.clock() - oldest).total_seconds() if oldest else 0.0
        return Lag(changes, max(0.0, seconds))

    def _checks(self) -> Iterator[dg.AssetCheckResult]:
        seen = self._survey(ages=True)
        yield from (each.result() for each in verdicts_of(self.services, seen))

    def _checks_despite(self, failure: dg.Failure) -> Iterator[dg.AssetCheckResult]:
        """Yields the checks of a run that fails; otherwise Dagster would only say that they failed.

        A step has one result per check: later ones are reported without the run.
        """
        try:
            found = verdicts_of(self.services, self._survey(ages=True))
        except Exception as error:  # most often for the same reason as the failure
            said = f"{self.entry.table}: its checks cannot be judged: {message_of(error)}"
            self.context.log.warning(said)
            found = unjudged(self.config, self.entry, failure.description or "")
        if not self._has_checks:
            yield from (each.result() for each in found)
            return
        for each in found:
            self.context.instance.report_runless_asset_event(each.evaluation())

    def _tell(self, batch: BatchResult) -> None:
        self.context.log.info(
            f"{self.entry.table}: merged {batch.records} records "
            f"{' '.join(map(str, batch.ranges))} into {batch.target} "
            f"snapshot={batch.snapshot_id} in {batch.duration_seconds:.1f} s"
        )
        self._tell_of_others(batch)
        for each in among_rows(self.services, self.entry, batch.statements):
            self.context.log_event(observation(self.config, each))
        if self.on_batch:
            self.on_batch(batch)

    def _tell_of_others(self, batch: BatchResult) -> None:
        """Adds tables that share the topic, and that discovery has not seen at the topic's ends."""
        if not batch.other_tables:
            return
        found = add_seen(self.services, self.entry, batch.other_tables)
        for other in found.added:
            self.context.log.info(f"{other.table} was found in topic {other.topic}")
        for refused in found.refused:
            self.context.log.error(f"a table in topic {batch.topic} cannot be added: {refused}")

    def _remember(self, error: Exception) -> None:
        waiting = self._waiting if isinstance(error, StalledError) else None
        hold = hold_of(waiting) if waiting else None
        self._remember_as(kind_of(error), message_of(error), hold)

    def _remember_as(self, kind: FailureKind, message: str, hold: Hold | None) -> None:
        table, now = self.entry.table, self.services.clock()
        try:
            self.services.failures.record(
                table, kind, message, now, hold, give_up_after=self.config.runs.give_up_after
            )
        except TransientError as problem:
            self.context.log.warning(f"{table}: its failure could not be remembered: {problem}")

    def _survey(self, *, ages: bool = False) -> TableSurvey:
        return survey(self.services, [self.entry], ages=ages).complete().tables[0]

    def _is_over(self, window: HourWindow) -> bool:
        return window.is_closed(self.services.clock())

    @cached_property
    def _windows(self) -> tuple[HourWindow, ...]:
        return tuple(HourWindow.from_key(key) for key in self.context.partition_keys)

    @property
    def _source(self) -> SourceConfig:
        return self.services.config.source(self.entry.table.source)

    @property
    def _seconds_left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    @cached_property
    def _turns(self) -> Turns:
        return turns_of(self.context, self.config, self.spark, may_stay=self.on_batch is None)

    @property
    def _step(self) -> str:
        """The table's name among the turns; the step's name, as the table's own may change."""
        return self.context.op_execution_context.op.name

    @property
    def _place(self) -> Place:
        return self._now.place

    @property
    def _shared(self) -> SharedReadings:
        return self._now.readings

    @property
    def _now(self) -> Turn:
        if self._turn is None:
            msg = "a table works in its turn only"
            raise RuntimeError(msg)
        return self._turn


class _HeldBack:
    """An iterator over batches that withholds the last one, and keeps it in ``last``.

    If the next batch fails, the one before it is passed on first: it was published.
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
