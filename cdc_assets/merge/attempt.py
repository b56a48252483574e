"""Makes one try of one batch: plans it, completes the plan from its records, executes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import assert_never

from pyspark.sql import DataFrame, SparkSession

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.offsets import Coordinate, OffsetRange, OffsetVector, total_length
from cdc_assets.changes.slo import SloWindow
from cdc_assets.config import ReplicationConfig, SourceConfig
from cdc_assets.errors import ConflictError, CutShortError, TerminalError
from cdc_assets.formats.format import Format
from cdc_assets.formats.histories import Histories, after_statements, statements_on
from cdc_assets.lake import Lake, Published, TableState
from cdc_assets.lake.at_source import AtSource
from cdc_assets.log.deliveries import Deliveries
from cdc_assets.log.hours import HourWindow, hour_of
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.merge.apply.multiset import MissingRowError
from cdc_assets.merge.apply.recount import publish_count
from cdc_assets.merge.apply.refusals import KeptApart, Refusals, Reported, Stopping
from cdc_assets.merge.batch import BatchExecution, Executed
from cdc_assets.merge.fold.lost import look_through
from cdc_assets.merge.intake.asked import Asked
from cdc_assets.merge.intake.decoding import BatchDecoder
from cdc_assets.merge.intake.describe import TypeSource
from cdc_assets.merge.intake.planning import Pending, Planner, spans
from cdc_assets.merge.intake.preparation import Preparation
from cdc_assets.merge.intake.read import WITH_HEADERS, read_ranges
from cdc_assets.merge.intake.shared_reading import Share, SharedReadings
from cdc_assets.merge.intake.told import read_statements, statements_among
from cdc_assets.merge.intake.witnesses import Witnesses
from cdc_assets.merge.intake.written import Schemas, WrittenSchemas
from cdc_assets.merge.plan.outcome import (
    Conflict,
    Longer,
    Merged,
    Nothing,
    Outcome,
    Requeued,
    Told,
    Unlike,
)
from cdc_assets.merge.plan.plan import BatchPlan, limited
from cdc_assets.merge.plan.request import Again, Quarantined, Request, Tail
from cdc_assets.merge.plan.requeue import Requeue
from cdc_assets.merge.plan.result import BatchResult, QuarantineReplay, Waiting
from cdc_assets.merge.plan.table_steps import DescribeColumns
from cdc_assets.merge.plan.waiting import UnfinishedError
from cdc_assets.merge.statements.deadline import Limits, Watch
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.statements.steps import Steps
from cdc_assets.merge.tables.quarantine import Quarantine
from cdc_assets.merge.upkeep import Upkeep
from cdc_assets.registry import TableEntry
from cdc_assets.schema.ddl import Ddl
from cdc_assets.schema.history import History

_OVERTAKEN = "overtaken by newer changes of its row, which may have left columns of it unchanged"


@dataclass(frozen=True, slots=True)
class Work:
    """A complete plan, with all that its execution needs."""

    pending: Pending
    plan: BatchPlan
    decoder: BatchDecoder
    refusals: Refusals
    watch: Watch


@dataclass(frozen=True, slots=True)
class Held:
    """The findings of a batch's first try, kept for the tries that follow from what it found.

    A source that is altered all the time would otherwise show each try something new.

    Attributes:
        batch: identifies the batch.
        end: of the batch.
        asked: answers about the source's table.
        before: the table's history before the statements; None without any.
        statements: on the table, among the batch's records.
    """

    batch: tuple[TableName, int, int]
    end: OffsetVector
    asked: Asked
    before: History | None = None
    statements: tuple[Ddl, ...] = ()


@dataclass(frozen=True, slots=True)
class Connections:
    """Connections to the log and the lake, with what was read from them.

    Attributes:
        log: Kafka.
        lake: the catalog, and tables' metadata.
        histories: read from topics of statements.
        witnesses: for what batches may prove; None to prove nothing.
    """

    log: KafkaLog
    lake: Lake
    histories: Histories
    witnesses: Witnesses | None = None

    @classmethod
    def of(cls, config: ReplicationConfig) -> Connections:
        """Returns new ones, opened when they are first used."""
        log = KafkaLog(config.kafka.librdkafka(), largest=config.max_record_bytes)
        return cls(log, Lake(config), Histories(log), Witnesses(Deliveries(config)))


class Attempts:
    """A maker of tries for the tables of one configuration, with one Spark session.

    Args:
        config: the configuration.
        connections: read for plans.
        spark: returns the session; called when the first statement is sent.
        clock: wall clock.
        shared: the run's readings of topics of many tables; None if each table reads alone.

    Attributes:
        shared: these readings; may be replaced for each turn.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        connections: Connections,
        spark: Callable[[], SparkSession],
        clock: Callable[[], datetime],
        shared: SharedReadings | None = None,
    ) -> None:
        self._config = config
        self._lake, self._log = connections.lake, connections.log
        self._session = spark
        self._clock = clock
        self.shared = shared
        self._held: Held | None = None
        self._left: TableState | None = None
        self._seconds_to_publish: dict[LakeName, float] = {}
        self._prepared: SparkSession | None = None
        self._current: SparkSession | None = None
        self._schemas = WrittenSchemas()
        self._histories = connections.histories
        self.planner = Planner(config, self._lake, self._log, clock, connections.witnesses)

    def watch(self, entry: TableEntry) -> Watch:
        """Returns the deadlines of a table's turn, which begins now."""
        batch = self._source(entry).batch
        return Watch(lambda: self._current, Limits(batch.statement_seconds, batch.table_seconds))

    def table_seconds(self, entry: TableEntry) -> float:
        """Returns the time limit of a table's turn, in seconds."""
        return self._source(entry).batch.table_seconds

    def of(self, request: Request, watch: Watch) -> Outcome:
        """Tries a request, and returns its outcome.

        Args:
            request: for the records to be merged.
            watch: ends a statement that hangs, and the turn when it takes too long.

        Raises:
            CdcError: for a failure that needs a person, or time; nothing was published.
        """
        pending = None
        if not request.has_learned:
            self._held = None
        try:
            entry = request.entry
            with self._kept_from_failures(entry), watch.turn(f"table={entry.table}"):
                match request.work:
                    case Quarantined() as work:
                        return self._from_quarantine(request, work, watch)
                    case Tail() | Again():
                        pending = self._pending(request, request.work)
                        return self._from_log(request, request.work, pending, watch)
                    case unexpected:
                        assert_never(unexpected)
        except ConflictError as conflict:
            return Conflict(conflict)
        except UnfinishedError as unfinished:
            may_grow = unfinished.is_cut and isinstance(pending, Pending) and pending.may_grow
            return Longer(unfinished, may_grow) if may_grow else unfinished.waiting
        except (MissingRowError, CutShortError) as cut:
            return Longer(cut, may_grow=isinstance(pending, Pending) and pending.may_grow)

    @contextmanager
    def _kept_from_failures(self, entry: TableEntry) -> Iterator[None]:
        """Forgets the topic's shared reading after a failure, as that may be its cause."""
        try:
            yield
        except BaseException:
            if self.shared is not None:
                self.shared.forget(entry)
            raise

    def plan(self, request: Request) -> BatchPlan | None:
        """Returns the plan alone; None if there is nothing to merge. Changes nothing.

        Raises:
            CdcError: if the table would stop before anything is written.
        """
        self._held = None
        pending = self.planner.tail(request.entry, None, request.run_id)
        request = request.with_all_schemas()
        if not isinstance(pending, Pending):
            return None
        records = self._read(pending.plan, pending.plan.ranges)
        plan, decoder = self._completed(request, pending, records)
        with translated("look for values that would be lost", plan.where):
            look_through(self.session(), self._config.lake.catalog.name, decoder)
        return plan

    def told(
        self, entry: TableEntry, ranges: tuple[OffsetRange, ...], run_id: str
    ) -> tuple[DataFrame, tuple[str, ...]]:
        """Returns the decoded changes in ranges that were merged before. Changes nothing.

        Args:
            entry: the table.
            ranges: of its topic; none empty, and at least one.
            run_id: of the plan, not recorded anywhere.

        Returns:
            The changes, and the columns that updates may have left out.

        Raises:
            CdcError: if the log has lost some of it, or a part does not answer.
        """
        self._held = None
        request = Request(entry, run_id, Again(ranges)).with_all_schemas()
        pending = self.planner.again(entry, ranges, run_id)
        records = self._read(pending.plan, ranges)
        _, decoder = self._completed(request, pending, records)
        return decoder.decode({}), decoder.unset_able

    # ── out of the log ───────────────────────────────────────────────────────────────────

    def _pending(self, request: Request, work: Tail | Again) -> Pending | Waiting | None:
        entry, run_id = request.entry, request.run_id
        left, self._left = self._left, None
        if isinstance(work, Tail):
            goes_on = work.last is not None and left is not None and left.name == entry.target
            self.planner.goes_on_from(left if goes_on else None)
            limits, shared, held = request.limits, self.shared, self._held_for(request)
            until = held.end if held else None
            return self.planner.tail(
                entry, work.window, run_id, limits=limits, shared=shared, until=until
            )
        now = limited(work.ranges, self._source(entry).batch.max_records)
        return self.planner.again(entry, now, run_id)

    def _from_log(
        self,
        request: Request,
        work: Tail | Again,
        pending: Pending | Waiting | None,
        watch: Watch,
    ) -> Outcome:
        if pending is None:
            return Nothing()
        if isinstance(pending, Waiting):
            return pending
        started = time.monotonic()
        steps = Steps(pending.plan.where, watch)
        share = self._share(pending.plan, steps) if isinstance(work, Tail) else None
        records = share.records if share else self._read(pending.plan, pending.plan.ranges)
        try:
            plan, decoder = self._completed(request, pending, records)
        except TerminalError:  # a statement among the records may explain what they are like
            told = self._told(request, pending.plan, records)
            if told:
                return Told(told)
            raise
        # Records as they are in Kafka, unlike those of a share.
        refusals = self._refusals(plan, self._read(plan, plan.ranges))
        execution = self._execution(Work(pending, plan, decoder, refusals, watch))
        done = execution.run()
        if not isinstance(done, Executed):
            return done
        if self.shared and plan.needs_keys_apart and self._looks_at_unread(plan):
            self.shared.found_keys_apart(plan)
        if share is not None:
            done = replace(done, figures=done.figures.with_others(share.others))
        spent = {**steps.seconds, **execution.steps.seconds}
        if done.published is not None:
            finish = spent.get("append rows", 0.0) + spent.get("publish", 0.0)
            self._seconds_to_publish[plan.entry.target] = finish
        seconds = (time.monotonic() - started, spent)
        return Merged(self._result(pending, done, work.window, seconds))

    def _share(self, plan: BatchPlan, steps: Steps) -> Share | None:
        """Returns the batch's records, if they are read once for several tables."""
        fmt = self.planner.format(plan.entry)
        if self.shared is None or not self.shared.is_for(plan.entry, fmt):
            return None
        with steps.step("read the topic"):
            read = partial(self._read, plan, plan.ranges)
            return self.shared.share(plan, fmt, self.session(), read)

    # ── out of the quarantine ────────────────────────────────────────────────────────────

    def _from_quarantine(self, request: Request, work: Quarantined, watch: Watch) -> Outcome:
        entry = request.entry
        quarantine = Quarantine(self.session(), self._config.lake.catalog.name, entry.table.source)
        with translated("read quarantine", f"table={entry.table}"):
            kept = quarantine.kept(entry.table)
        if not kept:
            return Nothing()
        pending = self.planner.again(entry, (), request.run_id)
        requeue = Requeue.of(kept, work.coordinates, pending.plan)
        if not requeue.is_any:
            return Nothing()
        replayed = self._replayed(request, work, pending, requeue, watch)
        if not isinstance(replayed, QuarantineReplay):
            return replayed
        work.before_removal()
        with translated("remove from quarantine", f"table={entry.table}"):
            gone = [*replayed.merged, *replayed.overtaken]
            quarantine.remove(entry.table, replayed.topic_id, gone)
        return Requeued(replayed)

    def _replayed(
        self,
        request: Request,
        work: Quarantined,
        pending: Pending,
        requeue: Requeue,
        watch: Watch,
    ) -> QuarantineReplay | Unlike:
        """Publishes what can be merged, and how many records are left."""
        plan, entry = pending.plan, request.entry
        outcome = QuarantineReplay(
            entry.table,
            plan.identity.topic_id,
            merged=requeue.merged,
            unread=requeue.unread,
            foreign=requeue.foreign,
        )
        if not requeue.taken:
            catalog = self._config.lake.catalog.name
            publish_count(self.session, catalog, self._lake, plan, requeue, self._clock())
            return outcome
        pending = replace(pending, plan=replace(plan, ranges=spans(requeue.taken)))
        quarantine = Quarantine(self.session(), self._config.lake.catalog.name, entry.table.source)
        with translated("read quarantine", pending.plan.where):
            mine = quarantine.records(entry.table, outcome.topic_id, requeue.taken)
        plan, decoder = self._completed(request, pending, mine)
        # A delete that keeps its row leaves columns unchanged, as an update may.
        partial_images = bool(decoder.unset_able) or plan.soft
        stays = partial_images and not work.accept_overtaken and plan.mode is not Mode.HISTORY
        refusals = Reported(requeue, _OVERTAKEN if stays else None)
        done = self._execution(Work(pending, plan, decoder, refusals, watch)).run()
        if not isinstance(done, Executed):
            return done
        return replace(
            outcome,
            merged=(*outcome.merged, *refusals.merged),
            overtaken=refusals.overtaken,
            rejected=tuple(sorted(refusals.found.items())),
        )

    # ── parts ────────────────────────────────────────────────────────────────────────────

    def _completed(
        self, request: Request, pending: Pending, records: DataFrame
    ) -> tuple[BatchPlan, BatchDecoder]:
        entry, plan = request.entry, pending.plan
        fmt, tables = self.planner.format(entry), self.planner.tables(entry)
        held = self._known_to(request)
        if held is None:
            history, before, statements = self._history(plan, fmt), None, ()
            if request.told and history is not None:
                read = read_statements(self._log, fmt, plan.layout.scheme, request.told)
                statements = statements_on(entry, read)
            if statements and history is not None:
                before = history.with_numbers(plan.schema)
                history = after_statements(before, entry, statements, is_empty=plan.is_empty)
            asked = Asked(self._source(entry), history)
            held = self._held = Held(_batch(request), plan.end, asked, before, statements)
        plan = _taught(plan, held.before)
        types = TypeSource(self._source(entry), self._log, fmt, held.asked)
        catalog = self._config.lake.catalog.name
        all_of_them = request.all_schemas or isinstance(request.work, Quarantined)
        written = partial(self._written, all_of_them=all_of_them)
        preparation = Preparation(self.session, catalog, types, tables, fmt, written)
        is_told = request.told is not None or not isinstance(request.work, Tail)
        plan = replace(plan, is_told=is_told or not fmt.tells_statements)
        return preparation.of(plan, records, request.columns, request.lacking)

    def _told(
        self, request: Request, plan: BatchPlan, records: DataFrame
    ) -> tuple[Coordinate, ...]:
        """Returns the coordinates of statements that were not read yet."""
        fmt = self.planner.format(plan.entry)
        if not fmt.tells_statements or request.told or not isinstance(request.work, Tail):
            return ()
        return statements_among(BatchDecoder(records, plan, fmt), plan.snapshot_starts)

    def _held_for(self, request: Request) -> Held | None:
        held = self._held
        is_same = held is not None and held.batch == _batch(request)
        return held if request.has_learned and is_same else None

    def _known_to(self, request: Request) -> Held | None:
        """Returns `_held_for`, unless statements of the request are yet to be read."""
        held = self._held_for(request)
        return None if held and request.told and not held.statements else held

    def _history(self, plan: BatchPlan, fmt: Format) -> History | None:
        """Returns the table's history according to statements.

        They are read after the log's end was: statements on anything in the batch are there by
        then, unless their topic lags behind. The next batch finds those that come late.
        """
        stored = AtSource.of(plan.state, plan.entry.shard_value).history
        if fmt.tells_statements:
            topic = plan.identity.topic_id
            return stored if stored and stored.topic == topic else History(topic=topic)
        return self._histories.of(plan.entry, fmt, plan.layout.scheme, stored)

    def _written(self, plan: BatchPlan, raw: DataFrame, *, all_of_them: bool) -> Schemas:
        """Returns the schemas of the records; of a few of them as long as that may suffice."""
        fmt = self.planner.format(plan.entry)
        first = None if all_of_them else self._schemas.of_first(plan, fmt, self._log)
        return self._schemas.of_all(plan, fmt, raw) if first is None else first

    def _execution(self, work: Work) -> BatchExecution:
        plan = work.plan
        return BatchExecution(
            spark=self.session(),
            catalog=self._config.lake.catalog.name,
            lake=self._lake,
            promise=self._source(plan.entry).slo.target,
            refusals=work.refusals,
            decoder=work.decoder,
            context=self._read(plan, plan.context) if plan.context else None,
            unread=self._read(plan, plan.unread) if self._looks_at_unread(plan) else None,
            clock=self._clock,
            require_whole=work.pending.require_whole,
            require_same_topic=self.planner.require_same_topic,
            deadlines=work.watch,
            seconds_to_publish=self._seconds_to_publish.get(plan.entry.target, 0.0),
        )

    def _looks_at_unread(self, plan: BatchPlan) -> bool:
        is_first = bool(plan.unread) and plan.published is None
        return is_first and not (self.shared and self.shared.has_keys_apart(plan))

    def _refusals(self, plan: BatchPlan, raw: DataFrame) -> Refusals:
        source = self._source(plan.entry)
        withheld = self._withholds(plan.entry)
        if source.bad_records == "fail" or withheld:
            return Stopping(plan, may_set_aside=not withheld)
        catalog, name = self._config.lake.catalog.name, plan.entry.table.source
        quarantine = Quarantine(self.session(), catalog, name)
        return KeptApart(quarantine, plan, raw, source.quarantine, self._clock)

    def _withholds(self, entry: TableEntry) -> bool:
        """Returns whether quarantine, which keeps whole records, may show what must not be seen.

        In a topic of many tables the table of a broken record is unknown.
        """
        source = self._source(entry)
        if self.planner.format(entry).has_many_tables:
            return source.withholds
        return source.overrides(entry.table).withholds

    def _read(self, plan: BatchPlan, ranges: tuple[OffsetRange, ...]) -> DataFrame:
        options = self._config.kafka.spark_options()
        if self.planner.format(plan.entry).reads_headers(plan.layout):
            options = {**options, **WITH_HEADERS}
        return read_ranges(self.session(), plan.entry.topic, ranges, options)

    def _result(
        self,
        pending: Pending,
        done: Executed,
        window: HourWindow | None,
        timing: tuple[float, dict[str, float]],
    ) -> BatchResult:
        plan = done.plan
        target, shard = plan.entry.target, plan.entry.shard_value
        self._left = self._lake.after_publish(target, shard)
        after = self._left or self._lake.state(target, shard)
        figures, published = done.figures, done.published
        before = plan.published.slo if plan.published else SloWindow()
        return BatchResult(
            table=plan.entry.table,
            target=plan.entry.target,
            topic=plan.entry.topic,
            ranges=plan.ranges,
            start=plan.start,
            end=plan.end,
            hour=window or hour_of(self._clock()),
            snapshot_id=after.snapshot_id if after else None,
            attempt_id=plan.attempt,
            records=figures.records,
            inserted=figures.by_op["c"] + figures.by_op["r"],
            updated=figures.by_op["u"],
            deleted=figures.by_op["d"],
            tombstones_skipped=figures.tombstones,
            rejected=figures.rejected,
            stale=done.stale,
            latency=done.latency,
            slo=published.slo if published else before,
            lag_records=pending.unread - (0 if plan.replay else total_length(plan.ranges)),
            row_count=after.total_records if after and not plan.entry.shard else None,
            file_count=after.files if after else None,
            schema=plan.schema,
            plan_text=plan.describe(done.apply, done.parts),
            replay=plan.replay,
            duration_seconds=timing[0],
            published_at=published.published_at if published else self._clock(),
            steps=timing[1],
            valid_through=_valid_through(published or plan.published),
            passed_over=figures.controls,
            of_others=figures.others,
            other_tables=figures.other_tables,
            statements=self._held.statements if self._held else (),
        )

    def upkeep(self, entry: TableEntry) -> Upkeep:
        """Returns the upkeep of the lake table that a table is merged into."""
        return Upkeep(self._config, [entry], self._lake, self.session, self._clock)

    def session(self) -> SparkSession:
        """Returns the session, with the settings that decoding relies on."""
        session = self._current = self._session()
        if session is not self._prepared:
            session.conf.set("spark.sql.session.timeZone", "UTC")
            session.conf.set("spark.sql.ansi.enabled", "true")
            session.conf.set("spark.sql.caseSensitive", "true")
            # The constraints that Spark infers grow with the square of the columns: with 500 that
            # may be left out it ran out of memory. Nothing here gains by them.
            session.conf.set("spark.sql.constraintPropagation.enabled", "false")
            # Java never compiles a larger method, and interpreted, decoding takes several times as
            # long. Spark splits what it does not fuse into small methods.
            session.conf.set("spark.sql.codegen.hugeMethodLimit", "8000")
            self._prepared = session
        return session

    def _source(self, entry: TableEntry) -> SourceConfig:
        return self._config.source(entry.table.source)


def _valid_through(published: Published | None) -> datetime | None:
    return published.valid_through if published else None


def _batch(request: Request) -> tuple[TableName, int, int]:
    return request.entry.table, request.limits, request.tries


def _taught(plan: BatchPlan, before: History | None) -> BatchPlan:
    """Adds the numbers that the lake's columns have before the statements of the batch.

    After these a name may be another column's.
    """
    if before is None or plan.entry.shard is not None:
        return plan
    schema = before.taught(plan.schema)
    told = tuple(c for c, was in zip(schema.columns, plan.schema.columns, strict=True) if c != was)
    steps = (DescribeColumns(told),) if told else ()
    return replace(plan, schema=schema, steps=(*plan.steps, *steps))
