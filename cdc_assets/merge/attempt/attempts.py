"""Makes tries of requests, and turns their errors into outcomes where another try may help.

Prepares Spark sessions with the settings that decoding relies on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from typing import Final, assert_never

from pyspark.sql import DataFrame, SparkSession

from cdc_assets import decode
from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import (
    ConflictError,
    CutShortError,
    LoginRefusedError,
    TerminalError,
    TransientError,
)
from cdc_assets.lake import TableState
from cdc_assets.merge.apply.multiset import MissingRowError
from cdc_assets.merge.attempt.batch_facts import Findings
from cdc_assets.merge.attempt.completion import Completion
from cdc_assets.merge.attempt.context import AttemptContext, Connections
from cdc_assets.merge.attempt.execution import Executions
from cdc_assets.merge.attempt.from_log import FromLog
from cdc_assets.merge.attempt.from_quarantine import FromQuarantine
from cdc_assets.merge.attempt.records import Records
from cdc_assets.merge.fold.changeset import Knowledge
from cdc_assets.merge.guards.lost_values import look_through
from cdc_assets.merge.intake.decoding import BatchDecoder
from cdc_assets.merge.intake.planning import Extent, Pending, Planner
from cdc_assets.merge.intake.read import is_one_task
from cdc_assets.merge.intake.shared_reading import SharedReadings
from cdc_assets.merge.plan.outcome import Conflict, NeedsLongerBatch, NothingNew, Outcome
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.plan.request import Quarantined, ReplayRequest, Request, TailRequest
from cdc_assets.merge.plan.result import Waiting
from cdc_assets.merge.plan.waiting import UnfinishedError
from cdc_assets.merge.statements.deadline import Limits, Watch
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.upkeep import Upkeep
from cdc_assets.registry import TableEntry


class Attempts:
    """A maker of tries for the tables of one configuration, with one Spark session.

    Args:
        config: the configuration.
        connections: read for plans.
        spark: returns the session; called when the first statement is sent.
        clock: wall clock.
        require_existing: see `Replicator`.

    Attributes:
        means: of tries.
        planner: of batches.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        connections: Connections,
        spark: Callable[[], SparkSession],
        clock: Callable[[], datetime],
        require_existing: Callable[[TableState], None] | None = None,
    ) -> None:
        self.planner = Planner(config, connections, clock, require_existing)
        self._session = PreparedSession(spark)
        self._findings = Findings()
        self.means = means = AttemptContext(config, connections, self.planner, self._session, clock)
        self._records = records = Records(means)
        self._completion = completion = Completion(means, self._findings)
        executions = Executions(means, records)
        self._from_log = FromLog(means, self._findings, records, completion, executions)
        self._from_quarantine = FromQuarantine(means, completion, executions)

    def watch(self, entry: TableEntry) -> Watch:
        """Returns the deadlines of a table's turn, which begins now."""
        batch, session = self.means.source(entry).batch, self._session
        return Watch(lambda: session.current, Limits(batch.statement_seconds, batch.table_seconds))

    def table_seconds(self, entry: TableEntry) -> float:
        """Returns the time limit of a table's turn, in seconds."""
        return self.means.source(entry).batch.table_seconds

    def of(self, request: Request, watch: Watch, shared: SharedReadings | None = None) -> Outcome:
        """Tries a request, and returns its outcome.

        Args:
            request: for the records to be merged.
            watch: ends a statement that hangs, and the turn when it takes too long.
            shared: the run's readings of topics of many tables; None if the table reads alone.

        Raises:
            CdcError: for a failure that needs a person, or time; nothing was published.
        """
        pending = None
        if not request.has_learned:
            self._findings.forget()
        try:
            entry = request.entry
            with _kept_from_failures(entry, shared), watch.turn(f"table={entry.table}"):
                match request.work:
                    case Quarantined() as work:
                        return self._from_quarantine.tried(request, work, watch)
                    case TailRequest() | ReplayRequest() as work:
                        pending = self._from_log.pending(request, work, shared)
                        if not isinstance(pending, Pending):
                            return NothingNew() if pending is None else pending
                        few = is_one_task(pending.plan.ranges)
                        with self._session.for_few() if few else nullcontext():
                            return self._from_log.tried(request, work, pending, watch, shared)
                    case unexpected:
                        assert_never(unexpected)
        except ConflictError as conflict:
            return Conflict(conflict)
        except UnfinishedError as unfinished:
            may_grow = unfinished.is_cut and _may_grow(request, pending)
            return NeedsLongerBatch(unfinished, may_grow) if may_grow else unfinished.waiting
        except (MissingRowError, CutShortError) as cut:
            return NeedsLongerBatch(cut, may_grow=_may_grow(request, pending))
        except LoginRefusedError:
            raise
        except TransientError:  # its records may have ended the server
            if isinstance(pending, Pending):
                self._records.failed(pending.plan)
            raise

    # ── plans and changes alone ──────────────────────────────────────────────────────────

    def plan(self, request: Request) -> BatchPlan | None:
        """Returns the plan alone; None if there is nothing to merge. Changes nothing.

        A snapshot or a restart in the batch gives positions that only its execution determines:
        here, lost values of rows are detected by the positions known before.

        Raises:
            CdcError: if the table would stop before anything is written.
        """
        self._findings.forget()
        pending = self.planner.tail(request.entry, Extent(), request.run_id)
        request = request.with_all_schemas()
        if not isinstance(pending, Pending):
            return None
        plan, decoder = self._planned(request, pending)
        known = Knowledge(plan.snapshot_starts)
        with translated("look for values that would be lost", plan.where):
            look_through(self.session(), self.means.catalog, decoder, known)
        return plan

    def decoded(
        self, entry: TableEntry, ranges: tuple[OffsetRange, ...], run_id: str
    ) -> tuple[DataFrame, tuple[str, ...]]:
        """Returns the decoded changes in already merged ranges. Changes nothing.

        Args:
            entry: the table.
            ranges: of its topic; none empty, and at least one.
            run_id: of the plan, not recorded anywhere.

        Returns:
            The changes, and the columns that updates may have left out.

        Raises:
            CdcError: if the log has lost some of it, or a part does not answer.
        """
        self._findings.forget()
        request = Request(entry, run_id, ReplayRequest(ranges)).with_all_schemas()
        pending = self.planner.replay(entry, ranges, run_id)
        _, decoder = self._completed(request, pending, ranges)
        return decoder.decode({}), decoder.omittable

    def _planned(self, request: Request, pending: Pending) -> tuple[BatchPlan, BatchDecoder]:
        """Returns the plan completed by the statements among the records, as in a batch."""
        records = self._records.own_records(pending.plan, pending.plan.ranges)
        try:
            found = self._completion.of(request, pending.plan, records)
        except TerminalError:
            statements = self._from_log.unread_statements(request, pending.plan, records)
            if not statements:
                raise
        else:
            plan, _ = found
            if plan.statements_known:
                return found
            statements = self._from_log.unread_statements(request, pending.plan, records)
            if not statements:
                return found
        return self._completion.of(request.with_statements(statements), pending.plan, records)

    def _completed(
        self, request: Request, pending: Pending, ranges: tuple[OffsetRange, ...]
    ) -> tuple[BatchPlan, BatchDecoder]:
        records = self._records.own_records(pending.plan, ranges)
        return self._completion.of(request, pending.plan, records)

    # ── what goes with tries ─────────────────────────────────────────────────────────────

    def upkeep(self, entry: TableEntry) -> Upkeep:
        """Returns the upkeep of a table's lake table."""
        means = self.means
        return Upkeep(means.config, [entry], means.connections.lake, self.session, means.clock)

    def session(self) -> SparkSession:
        """Returns the session, with the settings that decoding relies on."""
        return self._session()


@contextmanager
def _kept_from_failures(entry: TableEntry, shared: SharedReadings | None) -> Iterator[None]:
    """Forgets the topic's shared reading after a failure, as that may be its cause."""
    try:
        yield
    except BaseException:
        if shared is not None:
            shared.forget(entry)
        raise


def _may_grow(request: Request, pending: Pending | Waiting | None) -> bool:
    """Whether a longer batch may hold more than the batch that was tried.

    Two tries with the same ranges do not show that none does: a transaction may be larger than
    eight limits. But a limit holds at least one offset, so as many as are unread hold all.
    """
    if not isinstance(pending, Pending):
        return False
    return pending.may_grow and request.limits < pending.unread


_FUSES: Final = "spark.sql.codegen.wholeStage"
_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    # The constraints that Spark infers grow with the square of the columns: with 500 that may be
    # left out it ran out of memory. Nothing here gains by them.
    "spark.sql.constraintPropagation.enabled": "false",
    # Java never compiles a larger method, and interpreted, decoding takes several times as long.
    # Spark splits what it does not fuse into small methods.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # A batch's fold is cached. Most of it are structs, which Spark does not compress anyway, and to
    # look for what it may compress takes a fifth of a backlog's time.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # Spark's first reader of Kafka turns each record into an object of Scala and back.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    **decode.SETTINGS,
}


class PreparedSession:
    """The present session. A new one is prepared when it is first returned.

    Args:
        spark: returns the session as it is.

    Attributes:
        current: the session that was returned last; None before the first.
    """

    def __init__(self, spark: Callable[[], SparkSession]) -> None:
        self._spark = spark
        self._prepared: SparkSession | None = None
        self._fuses = self._is_fusing = True
        self.current: SparkSession | None = None

    def __call__(self) -> SparkSession:
        """Returns the session, with the settings that decoding relies on."""
        session = self.current = self._spark()
        if session is not self._prepared:
            for name, value in _SETTINGS.items():
                session.conf.set(name, value)
            self._prepared, self._is_fusing = session, True
        if self._fuses is not self._is_fusing:
            session.conf.set(_FUSES, str(self._fuses).lower())
            self._is_fusing = self._fuses
        return session

    @contextmanager
    def for_few(self) -> Iterator[None]:
        """Makes Spark run the steps of statements on few records one by one during the block.

        Spark would fuse these steps into one method, generate its code again for each statement,
        and then often find the method too large. This takes a sixth of the time and of the CPU time
        of a batch of 100 records.
        """
        self._fuses = False
        try:
            yield
        finally:
            self._fuses = True
