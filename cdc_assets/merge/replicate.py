"""Keeps a table equal to its source, batch by batch.

One loop (`Replicator._until_done`) requests a batch, has it planned and executed, and decides by
its outcome: request the next batch, a longer or a wider one, plan the same batch again, or end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from datetime import UTC, datetime
from typing import assert_never

from pyspark.sql import SparkSession

from cdc_assets.changes.offsets import Coordinate, OffsetVector
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TerminalError
from cdc_assets.lake import TableState
from cdc_assets.log.hours import HourWindow
from cdc_assets.merge.attempt import Attempts, Connections
from cdc_assets.merge.intake.planning import rest_of
from cdc_assets.merge.intake.shared_reading import SharedReadings
from cdc_assets.merge.plan.outcome import (
    Conflict,
    Merged,
    MissesColumns,
    NeedsAllSchemas,
    NeedsColumns,
    NeedsDdl,
    NeedsLongerBatch,
    NeedsSchemas,
    NothingNew,
    Replan,
    Requeued,
)
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.plan.request import Quarantined, ReplayRequest, Request, TailRequest
from cdc_assets.merge.plan.result import BatchResult, QuarantineReplay, Waiting
from cdc_assets.registry import TableEntry

_CONFLICT_TRIES = 5

NextHour = Callable[[HourWindow, BatchResult | None], HourWindow | None]
"""Returns the hour after a merged one, given the merged hour and its last batch; None to end."""


def utc_now() -> datetime:
    """Returns the time of the wall clock, aware."""
    return datetime.now(UTC)


class Replicator:
    """A merger of one configuration's tables, with one Spark session.

    Args:
        config: the configuration.
        spark: returns the session; called when the first statement is sent.
        clock: wall clock, for latencies and attempt times.
        connections: None to open new ones.
        require_existing: asked before each batch with the table's state; raises if the table is not
            the one to merge into. None to make tables that do not exist.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        spark: Callable[[], SparkSession],
        *,
        clock: Callable[[], datetime] = utc_now,
        connections: Connections | None = None,
        require_existing: Callable[[TableState], None] | None = None,
    ) -> None:
        connections = connections or Connections.of(config)
        self._attempts = Attempts(config, connections, spark, clock, require_existing)
        self._shared: SharedReadings | None = None

    def sharing(self, shared: SharedReadings) -> Replicator:
        """Returns a replicator over the same connections and session that shares readings.

        Args:
            shared: the readings of topics of many tables, for one round of these tables.
        """
        found = copy(self)
        found._shared = shared  # noqa: SLF001 (one of this class)
        return found

    def drain(
        self,
        entry: TableEntry,
        *,
        window: HourWindow | None,
        run_id: str,
        budget_seconds: float,
        next_hour: NextHour | None = None,
        until: OffsetVector | None = None,
    ) -> Iterator[BatchResult | Waiting]:
        """Merges batch after batch from the committed offsets on.

        Ends when the table has caught up, the hour's last offset is merged, or the budget is
        spent (a batch that was begun is finished). A busy table may never catch up: see ``until``.
        If another writer publishes, the batch starts over at the new head. If the rest cannot be
        merged yet, the last item says why.

        Args:
            entry: the table.
            window: the hour to stay within; None for no limit.
            run_id: recorded with each publish.
            budget_seconds: time for taking new batches.
            next_hour: returns the next hour; None to end with the first hour.
            until: next-to-read offsets to end at; None for wherever the log ends by then.

        Raises:
            CdcError: see `cdc_assets.errors`; batches yielded before stay published.
        """
        if budget_seconds > 0:
            request = Request(entry, run_id, TailRequest(window))
            longest = min(budget_seconds, self._attempts.table_seconds(entry))
            deadline = time.monotonic() + longest
            for done in self._until_done(request, deadline, next_hour):
                if isinstance(done, BatchResult):
                    self._attempts.upkeep(entry).after_batch(done.file_count)
                    yield done
                    if until is not None and not done.end.ranges_to(until):
                        return
                elif isinstance(done, Waiting):
                    yield done

    def replay(
        self, entry: TableEntry, windows: Sequence[HourWindow], *, run_id: str
    ) -> Iterator[BatchResult]:
        """Merges already merged hours again; committed offsets stay as they are.

        Newer rows in the table stay, and so do later deletes. What the topic holds from before the
        table's own beginning is left out.

        Raises:
            LostRangeError: if the log no longer holds the beginning of an hour.
            TerminalError: if the table does not exist yet.
        """
        for window in sorted(windows):
            ranges = self._attempts.planner.replay_ranges(entry, window)
            yield from self._again(entry, run_id, ReplayRequest(ranges, window))

    def replay_quarantined(
        self,
        entry: TableEntry,
        coordinates: Sequence[Coordinate] | None,
        *,
        run_id: str,
        accept_overtaken: bool = False,
        before_removal: Callable[[], None] = lambda: None,
    ) -> QuarantineReplay | None:
        """Merges quarantined records, from the bytes in the quarantine.

        A record that was overtaken by newer changes of its row adds nothing if each change holds
        the whole row. Otherwise those may have left columns unchanged that only this record has
        set: then it stays, unless that is accepted. A record that the table's offsets have not
        passed is left to the next batch, as changes before it may not be merged yet.

        Args:
            entry: the table.
            coordinates: only these; None for all.
            run_id: recorded with the publish.
            accept_overtaken: whether overtaken records leave the quarantine in any case.
            before_removal: called once they are published, before they leave it; raises if they
                must stay.

        Returns:
            None if none of them is in quarantine.

        Raises:
            CdcError: see `cdc_assets.errors`; merged records stay in quarantine until they are
                published. Those that stay longer, as this process ends between, are not merged
                again: the publish tells what the table lacks.
        """
        work = Quarantined(coordinates, accept_overtaken, before_removal)
        for done in self._until_done(Request(entry, run_id, work), float("inf"), None):
            if isinstance(done, QuarantineReplay):
                return done
        return None

    def plan(self, entry: TableEntry) -> BatchPlan | None:
        """Returns the plan of the next batch; None if there is nothing to merge. Changes nothing.

        Raises:
            CdcError: if the table would stop before it reads its records.
        """
        return self._attempts.plan(Request(entry, "plan", TailRequest()))

    def _again(self, entry: TableEntry, run_id: str, work: ReplayRequest) -> Iterator[BatchResult]:
        if work.ranges:
            for done in self._until_done(Request(entry, run_id, work), float("inf"), None):
                if isinstance(done, BatchResult):
                    yield done

    def _until_done(
        self, request: Request | None, deadline: float, next_hour: NextHour | None
    ) -> Iterator[BatchResult | QuarantineReplay | Waiting]:
        """Tries requests one after the other, each chosen by the previous outcome."""
        watch = self._attempts.watch(request.entry) if request else None
        while request is not None and watch is not None:
            match self._attempts.of(request, watch, self._shared):
                case Merged(result):
                    yield result
                    request = _after(request, result) if time.monotonic() < deadline else None
                    if request and not isinstance(request.work, TailRequest):
                        watch = self._attempts.watch(request.entry)  # a batch is a turn
                case Requeued(replay):
                    yield replay
                    request = None
                case Waiting() as waiting:
                    yield waiting
                    request = None
                case NothingNew():
                    request = _in_next_hour(request, next_hour)
                case NeedsLongerBatch() | Conflict() as again:
                    request = _next_request(request, again)
                case (
                    NeedsColumns()
                    | MissesColumns()
                    | NeedsDdl()
                    | NeedsSchemas()
                    | NeedsAllSchemas() as again
                ):
                    request = _next_request(request, again).with_case(again.case)
                case unexpected:
                    assert_never(unexpected)


def _next_request(request: Request, why: NeedsLongerBatch | Replan | Conflict) -> Request:
    """Returns the request for the same batch, with the facts that the outcome has shown.

    Raises:
        CdcError: if another try cannot help.
    """
    match why:
        case NeedsLongerBatch(error, may_grow):
            if not may_grow:
                raise error
            return request.with_larger_limit()
        case NeedsColumns(found):
            return request.with_columns(found)
        case MissesColumns(columns):
            return request.without(columns)
        case NeedsDdl(where):
            return request.with_statements(where)
        case NeedsSchemas():
            if request.all_schemas:
                what = "records have another schema each time that they are asked for it"
                where = f"table={request.entry.table} topic={request.entry.topic}"
                raise TerminalError(what, where=where, remedy="mend the format's `writer`")
            return request.with_all_schemas()
        case NeedsAllSchemas():
            return request.with_shared_topic()
        case Conflict(error):
            if request.tries == _CONFLICT_TRIES:
                raise error
            return request.next_try()


def _after(request: Request, done: BatchResult) -> Request | None:
    """Returns the request after a batch; None if everything requested again has been merged."""
    match request.work:
        case TailRequest(window):
            return request.for_work(TailRequest(window, done))
        case ReplayRequest(ranges, window):
            rest = rest_of(ranges, done.ranges)
            return request.for_work(ReplayRequest(rest, window)) if rest else None
        case Quarantined():
            return None


def _in_next_hour(request: Request, next_hour: NextHour | None) -> Request | None:
    match request.work:
        case TailRequest(HourWindow() as window, last) if next_hour is not None:
            hour = next_hour(window, last)
            return request.for_work(TailRequest(hour)) if hour else None
        case _:
            return None
