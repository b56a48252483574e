"""Keeping one table equal to its source: plan a batch, execute it, until nothing is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.offsets import Coordinate, OffsetRange, total_length
from cdc_assets.changes.position import Scheme
from cdc_assets.changes.slo import SloWindow
from cdc_assets.config import ReplicationConfig, SourceConfig
from cdc_assets.errors import ConflictError, CutShortError
from cdc_assets.lake import Lake
from cdc_assets.log.hours import HourWindow, hour_of
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.merge.batch import BatchExecution, Executed, UnknownColumnError
from cdc_assets.merge.binlog import epochs_of, numberings, scanned, to_text
from cdc_assets.merge.decoding import BatchDecoder, distinct_schemas
from cdc_assets.merge.describe import TypeSource
from cdc_assets.merge.failures import translated
from cdc_assets.merge.multiset import MissingRowError
from cdc_assets.merge.plan import BatchPlan, limited
from cdc_assets.merge.planning import Pending, Planner, rest_of, spans
from cdc_assets.merge.quarantine import Quarantine
from cdc_assets.merge.read import read_ranges
from cdc_assets.merge.refusals import KeptApart, Refusals, Reported, Stopping
from cdc_assets.merge.result import BatchResult, QuarantineReplay
from cdc_assets.registry import TableEntry
from cdc_assets.schema.types import TableSchema

_CONFLICT_TRIES = 5
_GROWTH = 8
_OVERTAKEN = "overtaken by newer changes of its row, which may have left columns of it unchanged"
Done = TypeVar("Done")


def utc_now() -> datetime:
    """The wall clock, aware."""
    return datetime.now(UTC)


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
        self._planner = Planner(config, self._lake, self._log, self._spark, clock)

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
            rest = self._planner.replay_ranges(entry, window)
            yield from self._replayed(entry, rest, window, run_id)

    def replay_offsets(
        self, entry: TableEntry, ranges: tuple[OffsetRange, ...], *, run_id: str
    ) -> Iterator[BatchResult]:
        """The same for offsets, of which none may lie at or above the committed ones.

        Raises:
            TerminalError: if one does, the table does not exist yet, or it has no key.
        """
        self._planner.require_replayable(entry, ranges)
        yield from self._replayed(entry, ranges, None, run_id)

    def _replayed(
        self,
        entry: TableEntry,
        ranges: tuple[OffsetRange, ...],
        window: HourWindow | None,
        run_id: str,
    ) -> Iterator[BatchResult]:
        rest = tuple(each for each in ranges if each.length)
        while rest:
            now = limited(rest, self._source(entry).batch.max_records)
            yield self._retried(partial(self._replay_batch, entry, window, now, run_id))
            rest = rest_of(rest, now)

    def replay_quarantined(
        self,
        entry: TableEntry,
        coordinates: Sequence[Coordinate] | None,
        *,
        run_id: str,
        accept_overtaken: bool = False,
    ) -> QuarantineReplay | None:
        """Merge records out of quarantine, from the bytes that are kept there.

        A record that was overtaken by newer changes of its row has nothing to add if each
        change holds the whole row. Otherwise those may have left columns unchanged that only
        it has set: then it stays, unless that is accepted.

        Args:
            entry: the table.
            coordinates: only these; None for all.
            run_id: recorded with the publish.
            accept_overtaken: they leave the quarantine in any case.

        Returns:
            None if none of them lies in quarantine.

        Raises:
            CdcError: see `cdc_assets.errors`; what was merged stays in quarantine until it is
                published, and merging it twice does no harm.
        """
        return self._retried(
            lambda: self._merge_again(entry, coordinates, run_id, accept_overtaken)
        )

    def _merge_again(
        self,
        entry: TableEntry,
        coordinates: Sequence[Coordinate] | None,
        run_id: str,
        accept_overtaken: bool,
    ) -> QuarantineReplay | None:
        quarantine = Quarantine(self._spark(), self._config.lake.catalog.name, entry.table.source)
        with translated("read quarantine", f"table={entry.table}"):
            raw = quarantine.records(entry.table, coordinates)
            rows = raw.select("topic", "partition", "offset").collect()
            total = quarantine.count(entry.table)
        taken = [Coordinate(*row) for row in rows if row["topic"] == entry.topic]
        if not taken:
            return None
        pending = self._planner.again(entry, spans(taken), run_id)
        plan = replace(pending.plan, context=())
        plan, decoder = self._decoder(entry, plan, raw.where(F.col("topic") == entry.topic))
        partial_images = bool(decoder.unset_able) and not accept_overtaken
        refusals = Reported(taken, total, _OVERTAKEN if partial_images else None)
        self._execution(pending, plan, decoder, refusals).run()
        with translated("remove from quarantine", f"table={entry.table}"):
            quarantine.remove(entry.topic, [*refusals.merged, *refusals.overtaken])
        rejected = tuple(sorted(refusals.found.items()))
        return QuarantineReplay(entry.table, refusals.merged, refusals.overtaken, rejected)

    def _tail_batch(
        self, entry: TableEntry, window: HourWindow | None, run_id: str
    ) -> BatchResult | None:
        """One batch; a longer one if the rest of what it has begun lies beyond its end."""
        limits = 1
        while True:
            started = time.monotonic()
            pending = self._planner.tail(entry, window, run_id, limits=limits)
            if pending is None:
                return None
            try:
                return self._execute(entry, pending, window, started)
            except (MissingRowError, CutShortError):
                if not pending.may_grow:
                    raise
                limits *= _GROWTH

    def _replay_batch(
        self,
        entry: TableEntry,
        window: HourWindow | None,
        ranges: tuple[OffsetRange, ...],
        run_id: str,
    ) -> BatchResult:
        started = time.monotonic()
        pending = self._planner.again(entry, ranges, run_id)
        return self._execute(entry, pending, window, started)

    def _execute(
        self, entry: TableEntry, pending: Pending, window: HourWindow | None, started: float
    ) -> BatchResult:
        plan, decoder = self._decoder(entry, pending.plan, self._read(entry, pending.plan.ranges))
        execution = self._execution(pending, plan, decoder, self._refusals(plan, decoder.raw))
        try:
            done = execution.run()
        except UnknownColumnError as unknown:
            plan = replace(plan, schema=self._with_column(entry, plan.schema, unknown))
            return self._execute(entry, replace(pending, plan=plan), window, started)
        seconds = time.monotonic() - started
        return self._result(pending, plan, done, window, (seconds, execution.steps.seconds))

    def _decoder(
        self, entry: TableEntry, plan: BatchPlan, raw: DataFrame
    ) -> tuple[BatchPlan, BatchDecoder]:
        """The decoder of these records; the plan with the columns that they have."""
        if plan.layout.scheme is Scheme.BINLOG:
            plan = self._with_epochs(plan, raw)
        placeholder = self._source(entry).connector.unavailable_value_placeholder
        decoder = BatchDecoder(raw, plan, placeholder)
        return self._evolved(entry, plan, decoder) if plan.layout.inline else (plan, decoder)

    def _with_epochs(self, plan: BatchPlan, raw: DataFrame) -> BatchPlan:
        """What was merged before is not looked at again: its epochs are known."""
        known = numberings(plan.numbering)
        if not plan.replay:
            with translated("read binlog positions", plan.where):
                known = scanned(raw, known, inline=plan.layout.inline)
        return replace(plan, numbering=to_text(known), epochs=epochs_of(known))

    def _execution(
        self, pending: Pending, plan: BatchPlan, decoder: BatchDecoder, refusals: Refusals
    ) -> BatchExecution:
        return BatchExecution(
            spark=self._spark(),
            catalog=self._config.lake.catalog.name,
            lake=self._lake,
            slo_hours=self._source(plan.entry).slo.over_hours,
            refusals=refusals,
            plan=plan,
            decoder=decoder,
            context=self._read(plan.entry, plan.context) if plan.context else None,
            clock=self._clock,
            require_whole=pending.require_whole,
        )

    def _refusals(self, plan: BatchPlan, raw: DataFrame) -> Refusals:
        source = self._source(plan.entry)
        if source.bad_records == "fail":
            return Stopping(plan)
        catalog, name = self._config.lake.catalog.name, plan.entry.table.source
        quarantine = Quarantine(self._spark(), catalog, name)
        return KeptApart(quarantine, plan, raw, source.quarantine.max_records, self._clock)

    def _read(self, entry: TableEntry, ranges: tuple[OffsetRange, ...]) -> DataFrame:
        options = self._config.kafka.spark_options()
        return read_ranges(self._spark(), entry.topic, ranges, options)

    def _with_column(
        self, entry: TableEntry, schema: TableSchema, unknown: UnknownColumnError
    ) -> TableSchema:
        """The schema with a column that only the records have shown."""
        column = TypeSource(self._source(entry), self._log).column(
            entry, unknown.column, schema.key
        )
        if column is None:
            raise unknown
        wider = replace(schema, columns=(*schema.columns, column))
        return self._planner.tables(entry).evolve(schema, [wider])

    def _evolved(
        self, entry: TableEntry, plan: BatchPlan, decoder: BatchDecoder
    ) -> tuple[BatchPlan, BatchDecoder]:
        types = TypeSource(self._source(entry), self._log)
        with translated("read schemas", plan.where):
            schemas = distinct_schemas(
                decoder.raw, plan, lambda value: types.of_record(entry, value, plan.schema.key)
            )
        schema = self._planner.tables(entry).evolve(plan.schema, [each.schema for each in schemas])
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
            plan_text=plan.describe(done.apply, done.parts),
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
