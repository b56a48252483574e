"""Keeping one table equal to its source: plan a batch, execute it, until nothing is left."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from pyspark.sql import SparkSession

from cdc_assets.changes.offsets import OffsetRange, OffsetVector, total_length
from cdc_assets.changes.slo import SloWindow
from cdc_assets.config import ReplicationConfig, SourceConfig
from cdc_assets.errors import ConflictError, LostRangeError, TerminalError
from cdc_assets.lake import Lake, TableState
from cdc_assets.log.hours import HourWindow, hour_of
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.values import TopicIdentity, Watermarks
from cdc_assets.merge.batch import BatchExecution, Executed, UnknownColumnError
from cdc_assets.merge.decoding import BatchDecoder, distinct_schemas
from cdc_assets.merge.describe import TypeSource
from cdc_assets.merge.failures import translated
from cdc_assets.merge.plan import BatchPlan, limited, require_kept, require_same_log, require_whole
from cdc_assets.merge.read import read_ranges
from cdc_assets.merge.result import BatchResult
from cdc_assets.merge.tables import LakeTables
from cdc_assets.registry import TableEntry
from cdc_assets.schema.types import TableSchema

_CONFLICT_TRIES = 5
Done = TypeVar("Done")


def utc_now() -> datetime:
    """The wall clock, aware."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Pending:
    """A planned batch and what the log held beside it."""

    plan: BatchPlan
    unread: int


class Replicator:
    """Merges tables of one configuration with one Spark session.

    Args:
        config: the configuration.
        spark: gives the session; called when the first statement is sent.
        clock: wall clock, for latencies and attempt times.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        spark: Callable[[], SparkSession],
        *,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._config = config
        self._session = spark
        self._clock = clock
        self._prepared: SparkSession | None = None
        self._lake = Lake(config)
        self._log = KafkaLog(config.kafka.librdkafka())

    def drain(
        self, entry: TableEntry, *, window: HourWindow | None, run_id: str, budget_seconds: float
    ) -> Iterator[BatchResult]:
        """Merge batch after batch from the committed offsets on.

        Ends when the table has caught up, the hour's last offset is merged, or the budget is
        spent (a batch that was begun is finished). Another writer's publish makes a batch
        start over at the new head.

        Args:
            entry: the table.
            window: the hour to stay within; None for no limit.
            run_id: recorded with each publish.
            budget_seconds: time for taking new batches.

        Raises:
            CdcError: see `cdc_assets.errors`; what was yielded before stays published.
        """
        deadline = time.monotonic() + budget_seconds
        while time.monotonic() < deadline:
            result = self._retried(lambda: self._tail_batch(entry, window, run_id))
            if result is None:
                return
            yield result

    def replay(
        self, entry: TableEntry, windows: Sequence[HourWindow], *, run_id: str
    ) -> Iterator[BatchResult]:
        """Merge hours again that were merged before; committed offsets stay as they are.

        What is newer in the table, or was deleted since, stays.

        Raises:
            LostRangeError: if the log no longer holds the beginning of an hour.
            TerminalError: if the table does not exist yet.
        """
        for window in sorted(windows):
            rest = self._replay_ranges(entry, window)
            while rest:
                now = limited(rest, self._source(entry).batch.max_records)
                batch = partial(self._replay_batch, entry, window, now, run_id)
                yield self._retried(batch)
                done = {each.partition: each.end for each in now}
                left = (replace(r, start=done.get(r.partition, r.start)) for r in rest)
                rest = tuple(each for each in left if each.length)

    # ── tail ─────────────────────────────────────────────────────────────────────────────

    def _tail_batch(
        self, entry: TableEntry, window: HourWindow | None, run_id: str
    ) -> BatchResult | None:
        started = time.monotonic()
        pending = self._plan_tail(entry, window, run_id)
        return self._execute(entry, pending, window, started) if pending else None

    def _plan_tail(
        self, entry: TableEntry, window: HourWindow | None, run_id: str
    ) -> Pending | None:
        """Steps 1 and 2 of a batch: look at the table and the log, choose the end."""
        state = self._lake.state(entry.target)
        marks = self._marks(entry)
        published = state.published if state else None
        if state and state.snapshot_id is not None and published is None:
            what = "the lake table exists but was not made by cdc_assets, or lost its history"
            remedy = "drop it, or give this table another target in the configuration"
            raise TerminalError(
                what, where=f"table={entry.table} lake={entry.target}", remedy=remedy
            )
        start = published.offsets if published else marks.begin
        if published:
            require_same_log(entry, published, self._identity(entry))
        elif self._source(entry).lost_start == "fail":
            require_whole(entry, marks)
        require_kept(entry, start, marks)
        unread = start.ranges_to(marks.end)
        ranges = limited(self._within(entry, unread, window), self._source(entry).batch.max_records)
        if not ranges:
            return None
        end = start.merged_max(OffsetVector.of({each.partition: each.end for each in ranges}))
        plan = self._plan(entry, state, ranges, run_id, (start, end), marks)
        return Pending(plan, total_length(unread))

    def _within(
        self, entry: TableEntry, unread: tuple[OffsetRange, ...], window: HourWindow | None
    ) -> tuple[OffsetRange, ...]:
        if window is None or not unread or not window.is_closed(self._clock()):
            return unread
        stop = self._log.offsets_at([entry.topic], [window.end])[entry.topic, window.end]
        cut = (replace(r, end=max(r.start, min(r.end, stop.get(r.partition)))) for r in unread)
        return tuple(each for each in cut if each.length)

    # ── replay ───────────────────────────────────────────────────────────────────────────

    def _replay_ranges(self, entry: TableEntry, window: HourWindow) -> tuple[OffsetRange, ...]:
        """The hour's offsets, as far as they were merged."""
        state = self._lake.state(entry.target)
        if state is None or state.published is None:
            what = "there is nothing to replay: the table was not replicated yet"
            raise TerminalError(what, where=f"table={entry.table}", remedy="materialize it first")
        offsets = self._log.window_offsets([entry.topic], [window])[entry.topic, window]
        begin = self._marks(entry).begin.as_dict()
        lost = [f"{p}:[0,{at})" for p, at in begin.items() if at and offsets.start.get(p) <= at]
        if lost:
            what = (
                f"the log may no longer hold the start of hour {window}: {' '.join(lost)} is gone"
            )
            where = f"table={entry.table} topic={entry.topic}"
            raise LostRangeError(what, where=where, remedy="replay later hours, or re-snapshot")
        committed = state.published.offsets
        merged = (
            replace(r, end=max(r.start, min(r.end, committed.get(r.partition))))
            for r in offsets.ranges
        )
        return tuple(each for each in merged if each.length)

    def _replay_batch(
        self, entry: TableEntry, window: HourWindow, ranges: tuple[OffsetRange, ...], run_id: str
    ) -> BatchResult:
        started = time.monotonic()
        state, marks = self._lake.state(entry.target), self._marks(entry)
        if state is None or state.published is None:
            what = "the table vanished while it was replayed"
            raise ConflictError(what, where=f"table={entry.table}", remedy="look who dropped it")
        require_same_log(entry, state.published, self._identity(entry))
        committed = state.published.offsets
        plan = self._plan(entry, state, ranges, run_id, (committed, committed), marks)
        plan = replace(plan, replay=True)
        unread = total_length(committed.ranges_to(marks.end))
        return self._execute(entry, Pending(plan, unread), window, started)

    # ── both ─────────────────────────────────────────────────────────────────────────────

    def _plan(
        self,
        entry: TableEntry,
        state: TableState | None,
        ranges: tuple[OffsetRange, ...],
        run_id: str,
        offsets: tuple[OffsetVector, OffsetVector],
        marks: Watermarks,
    ) -> BatchPlan:
        tables = self._tables(entry)
        first = tables.stored(state) if state else tables.create()
        return BatchPlan(
            entry=entry,
            head=state.snapshot_id if state else None,
            published=state.published if state else None,
            identity=self._identity(entry),
            start=offsets[0],
            ranges=ranges,
            end=offsets[1],
            partitions=len(marks.end.offsets),
            schema=first.schema,
            inline=first.inline,
            keyed=first.keyed,
            replay=False,
            run_id=run_id,
            attempt=str(uuid.uuid4()),
        )

    def _execute(
        self, entry: TableEntry, pending: Pending, window: HourWindow | None, started: float
    ) -> BatchResult:
        plan, source = pending.plan, self._source(entry)
        options = self._config.kafka.spark_options()
        raw = read_ranges(self._spark(), entry.topic, plan.ranges, options)
        decoder = BatchDecoder(raw, plan, source.connector.unavailable_value_placeholder)
        if plan.inline:
            plan, decoder = self._evolved(entry, plan, decoder)
        execution = BatchExecution(
            spark=self._spark(),
            catalog=self._config.lake.catalog.name,
            lake=self._lake,
            source=source,
            plan=plan,
            decoder=decoder,
            clock=self._clock,
        )
        try:
            done = execution.run()
        except UnknownColumnError as unknown:
            plan = replace(plan, schema=self._with_column(entry, plan.schema, unknown))
            return self._execute(entry, replace(pending, plan=plan), window, started)
        seconds = time.monotonic() - started
        return self._result(pending, plan, done, window, (seconds, execution.steps))

    def _with_column(
        self, entry: TableEntry, schema: TableSchema, unknown: UnknownColumnError
    ) -> TableSchema:
        """The schema with a column that only the records have shown."""
        column = TypeSource(self._source(entry), self._log).column(entry, unknown.column)
        if column is None:
            raise unknown
        wider = replace(schema, columns=(*schema.columns, column))
        return self._tables(entry).evolve(schema, [wider])

    def _evolved(
        self, entry: TableEntry, plan: BatchPlan, decoder: BatchDecoder
    ) -> tuple[BatchPlan, BatchDecoder]:
        types = TypeSource(self._source(entry), self._log)
        with translated("read schemas", plan.where):
            schemas = distinct_schemas(
                decoder.raw, plan, lambda value: types.of_record(entry, value, plan.schema.key)
            )
        schema = self._tables(entry).evolve(plan.schema, [each.schema for each in schemas])
        plan = replace(plan, schema=schema)
        return plan, replace(decoder, plan=plan, schemas=schemas)

    def _result(
        self,
        pending: Pending,
        plan: BatchPlan,
        done: Executed,
        window: HourWindow | None,
        timing: tuple[float, dict[str, float]],
    ) -> BatchResult:
        after = self._lake.state(plan.entry.target)
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
            row_count=after.total_records if after else None,
            schema=done.schema,
            plan_text=plan.describe(done.apply),
            replay=plan.replay,
            duration_seconds=timing[0],
            published_at=published.published_at if published else self._clock(),
            steps=timing[1],
        )

    def _retried(self, batch: Callable[[], Done]) -> Done:
        """Start over at the new head when another writer came first."""
        for _ in range(_CONFLICT_TRIES - 1):
            try:
                return batch()
            except ConflictError:
                continue
        return batch()

    def _spark(self) -> SparkSession:
        """The session, with the settings that decoding counts on."""
        session = self._session()
        if session is not self._prepared:
            session.conf.set("spark.sql.session.timeZone", "UTC")
            session.conf.set("spark.sql.ansi.enabled", "true")
            session.conf.set("spark.sql.caseSensitive", "true")
            self._prepared = session
        return session

    def _source(self, entry: TableEntry) -> SourceConfig:
        return self._config.source(entry.table.source)

    def _tables(self, entry: TableEntry) -> LakeTables:
        return LakeTables(
            self._config, self._spark(), TypeSource(self._source(entry), self._log), entry
        )

    def _identity(self, entry: TableEntry) -> TopicIdentity:
        return self._log.identity([entry.topic])[entry.topic]

    def _marks(self, entry: TableEntry) -> Watermarks:
        marks = self._log.watermarks([entry.topic])
        if entry.topic not in marks:
            what = "the topic does not exist any more"
            remedy = "if it was removed for good, take the table out of the registry"
            raise LostRangeError(
                what, where=f"table={entry.table} topic={entry.topic}", remedy=remedy
            )
        return marks[entry.topic]
