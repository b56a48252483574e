"""Tries batches of records in the log: new batches, and replays of merged ones.

Decides what becomes of a batch's records that cannot be merged.

Reports a merged batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from pyspark.sql import DataFrame

from cdc_assets.changes.offsets import Coordinate, limited, total_length
from cdc_assets.changes.slo import SloWindow
from cdc_assets.errors import SilentChangeError, TerminalError
from cdc_assets.lake import Published, TableState
from cdc_assets.log.hours import HourWindow, hour_of
from cdc_assets.merge.apply.refusals import KeptApart, Refusals, Stopping
from cdc_assets.merge.attempt.batch_facts import Findings
from cdc_assets.merge.attempt.completion import Completion
from cdc_assets.merge.attempt.context import AttemptContext
from cdc_assets.merge.attempt.execution import AttemptWork, Executions, looks_at_unread
from cdc_assets.merge.attempt.records import Records
from cdc_assets.merge.batch import ExecutionResult
from cdc_assets.merge.intake.ddl_records import statements_among
from cdc_assets.merge.intake.decoding import BatchDecoder
from cdc_assets.merge.intake.planning import Extent, Pending
from cdc_assets.merge.intake.shared_reading import SharedReadings
from cdc_assets.merge.plan.outcome import Merged, NeedsAllSchemas, NeedsDdl, Outcome
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.plan.request import ReplayRequest, Request, TailRequest
from cdc_assets.merge.plan.result import BatchResult, Waiting
from cdc_assets.merge.statements.deadline import Steps, Watch
from cdc_assets.merge.tables.quarantine import Quarantine
from cdc_assets.registry import TableEntry
from cdc_assets.schema.ddl import Ddl


class FromLog:
    """A maker of tries of batches from the log. A table's next batch starts at the last one's end.

    Args:
        means: of the tries.
        findings: of the batch's first try.
        records: of the batches.
        completion: of their plans.
        executions: of their plans.
    """

    def __init__(
        self,
        means: AttemptContext,
        findings: Findings,
        records: Records,
        completion: Completion,
        executions: Executions,
    ) -> None:
        self._means = means
        self._findings = findings
        self._records = records
        self._completion = completion
        self._executions = executions
        self._left: TableState | None = None

    def pending(
        self, request: Request, work: TailRequest | ReplayRequest, shared: SharedReadings | None
    ) -> Pending | Waiting | None:
        """Plans the batch of a request; None if there is nothing to merge.

        Args:
            request: of this try.
            work: the request's.
            shared: the run's readings, to which a batch is cut; None if each table reads alone.

        Raises:
            CdcError: see `Planner.tail` and `Planner.replay`.
        """
        entry, run_id, planner = request.entry, request.run_id, self._means.planner
        left, self._left = self._left, None
        most = self._records.most.get(entry.topic)
        if isinstance(work, TailRequest):
            goes_on = work.last is not None and left is not None and left.name == entry.target
            planner.goes_on_from(left if goes_on else None)
            held = self._findings.of(request)
            until = held.end if held else None
            extent = Extent(work.window, request.limits, shared, until, most)
            return planner.tail(entry, extent, run_id)
        usual = self._means.source(entry).batch.max_records
        now = limited(work.ranges, min(usual, most or usual))
        return planner.replay(entry, now, run_id)

    def tried(
        self,
        request: Request,
        work: TailRequest | ReplayRequest,
        pending: Pending,
        watch: Watch,
        shared: SharedReadings | None,
    ) -> Outcome:
        """Merges a planned batch, and returns the outcome.

        Args:
            request: of this try.
            work: the request's.
            pending: the batch.
            watch: deadlines of the turn.
            shared: the run's readings; None if each table reads alone.

        Raises:
            CdcError: see `BatchExecution.run`; nothing was published.
        """
        started, steps = time.monotonic(), Steps(pending.plan.where, watch)
        records, is_tail = self._records, isinstance(work, TailRequest)
        share = records.share(pending.plan, shared if is_tail else None, steps)
        with steps.step("read the topic"):  # sending few records along asks the server
            raw = share.records if share else records.own_records(pending.plan, pending.plan.ranges)
        try:
            plan, decoder = self._completion.of(request, pending.plan, raw)
        except SilentChangeError as found:
            self._executions.remember(pending.plan, found.learned)
            raise
        except TerminalError:  # a statement, or others' records, may explain what they are like
            statements = self.unread_statements(request, pending.plan, raw)
            if statements:
                return NeedsDdl(statements)
            if records.has_others(pending.plan):
                return NeedsAllSchemas()
            raise
        # Records as they are in Kafka, unlike those of a share.
        refusals = refusals_of(self._means, plan, partial(records.read, plan, plan.ranges))
        execution = self._executions.of(
            AttemptWork(pending, plan, decoder, refusals, watch, share.others if share else {}),
            shared,
        )
        done = execution.run()
        if not isinstance(done, ExecutionResult):
            return done
        if shared and plan.needs_keys_apart and looks_at_unread(plan, shared):
            shared.found_keys_apart(plan)
        records.merged(plan.entry.topic)
        spent = {**steps.seconds, **execution.steps.seconds}
        if done.published is not None:
            finish = spent.get("write rows", 0.0) + spent.get("publish", 0.0)
            self._executions.published(plan.entry.target, finish)
        seconds = time.monotonic() - started
        merged = MergedBatch(
            done=done,
            unread=pending.unread,
            after=self._after(done.plan),
            statements=self._findings.statements,
            seconds=seconds,
            steps=spent,
            read_again=(*request.cases, *execution.steps.cases),
        )
        return Merged(merged.result(work.window, self._means.clock))

    def _after(self, plan: BatchPlan) -> TableState | None:
        """Returns the table's state after a batch, and keeps a published one for the next batch."""
        lake, of = self._means.connections.lake, (plan.entry.target, plan.entry.shard_value)
        self._left = lake.after_publish(*of)
        return self._left or lake.state(*of)

    def unread_statements(
        self, request: Request, plan: BatchPlan, records: DataFrame
    ) -> tuple[Coordinate, ...]:
        """Returns the coordinates of statements that have not been read yet.

        Args:
            request: of this try.
            plan: of the batch, from the lake and the log.
            records: of the batch, raw.

        Raises:
            TerminalError: if there are too many.
        """
        fmt = self._means.planner.format(plan.entry)
        is_tail = isinstance(request.work, TailRequest)
        if request.statements or not (fmt.tells_statements and is_tail):
            return ()
        return statements_among(BatchDecoder(records, plan, fmt), plan.snapshot_starts)


def refusals_of(means: AttemptContext, plan: BatchPlan, raw: Callable[[], DataFrame]) -> Refusals:
    """Returns the handler of rejected records: it stops the table, or quarantines the records.

    Args:
        means: of the tries.
        plan: of the batch.
        raw: reads its records as they are in Kafka.
    """
    source, withheld = means.source(plan.entry), _withholds(means, plan.entry)
    if source.bad_records == "fail" or withheld:
        return Stopping(plan, may_set_aside=not withheld)
    quarantine = Quarantine(means.session(), means.catalog, plan.entry.table.source)
    return KeptApart(quarantine, plan, raw, source.quarantine, means.clock)


def _withholds(means: AttemptContext, entry: TableEntry) -> bool:
    """Whether quarantine, which keeps whole records, could expose values that must stay hidden.

    In a topic of many tables the table of a broken record is unknown.
    """
    source = means.source(entry)
    if means.planner.format(entry).has_many_tables:
        return source.withholds
    return source.overrides(entry.table).withholds


@dataclass(frozen=True, slots=True)
class MergedBatch:
    """A batch that was merged.

    Attributes:
        done: the result of the execution.
        unread: number of offsets that were not merged when it was planned.
        after: the lake's table after it; None if it is not there.
        statements: on the table, among its records.
        seconds: duration of the try.
        steps: seconds per step.
        read_again: corner cases for which its records were read more than once, in words.
    """

    done: ExecutionResult
    unread: int
    after: TableState | None
    statements: tuple[Ddl, ...]
    seconds: float
    steps: Mapping[str, float]
    read_again: tuple[str, ...]

    def result(self, window: HourWindow | None, clock: Callable[[], datetime]) -> BatchResult:
        """Returns the report.

        Args:
            window: the hour that the batch belongs to; None for the present one.
            clock: wall clock, aware.
        """
        plan, done, after = self.done.plan, self.done, self.after
        figures, published = done.figures, done.published
        before = plan.published.slo if plan.published else SloWindow()
        return BatchResult(
            table=plan.entry.table,
            target=plan.entry.target,
            topic=plan.entry.topic,
            ranges=plan.ranges,
            start=plan.start,
            end=plan.end,
            hour=window or hour_of(clock(), plan.entry.hours_from),
            snapshot_id=after.snapshot_id if after else None,
            attempt_id=plan.attempt,
            records=figures.records,
            inserted=figures.by_op["c"] + figures.by_op["r"],
            updated=figures.by_op["u"],
            deleted=figures.by_op["d"],
            rejected=figures.rejected,
            stale=done.stale,
            latency=done.latency,
            slo=published.slo if published else before,
            lag_records=self.unread - (0 if plan.replay else total_length(plan.ranges)),
            row_count=after.total_records if after and not plan.entry.shard else None,
            file_count=after.files if after else None,
            schema=plan.schema,
            plan_text=plan.describe(done.apply, done.barriers),
            replay=plan.replay,
            duration_seconds=self.seconds,
            steps=self.steps,
            valid_through=_valid_through(published or plan.published),
            passed_over=figures.controls,
            of_others=figures.others,
            other_tables=figures.other_tables,
            statements=self.statements,
            read_again=self.read_again,
        )


def _valid_through(published: Published | None) -> datetime | None:
    return published.valid_through if published else None
