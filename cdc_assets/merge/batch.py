"""Executes one batch, in the order of docs/architecture/batch.md from step 3 on.

3. Read exactly the planned ranges, decode and fold (`reading`). Guards judge what that shows: they
   may complete the plan, or end it. Carry out the table's steps. If guards have learned something
   that the fold needs to know, fold again.
4. Have guards check the batch, refuse what cannot be merged, and apply it to a branch of
   the planned head, as the table's mode does.
5. to 7. Publish, and drop the branch: `cdc_assets.merge.apply.publish`.

Reads, decodes and folds a batch, counts its records in the same pass, and keeps the fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from cdc_assets.changes.latency import LatencyHistogram
from cdc_assets.changes.mode import Mode
from cdc_assets.changes.slo import SloTarget
from cdc_assets.lake import Lake, Published
from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.apply.keyed import newer_than
from cdc_assets.merge.apply.publish import Publisher
from cdc_assets.merge.apply.refusals import Refusals, Refusing
from cdc_assets.merge.apply.snapshot_properties import BatchOutcome, Recorder
from cdc_assets.merge.fold.changeset import Knowledge
from cdc_assets.merge.fold.context import BatchContext, Pass, PlannedBatch
from cdc_assets.merge.fold.summary import Summary, read_through, require_figures
from cdc_assets.merge.guards import Guards, Refold, Setting
from cdc_assets.merge.intake.connections import Register
from cdc_assets.merge.intake.decoding import BatchDecoder
from cdc_assets.merge.intake.observe import BatchFigures, BatchObserver
from cdc_assets.merge.intake.read import is_one_task
from cdc_assets.merge.modes.application import Application
from cdc_assets.merge.modes.changelog import Changelog
from cdc_assets.merge.modes.history import History
from cdc_assets.merge.modes.keyless import Keyless
from cdc_assets.merge.modes.mirror import Mirror
from cdc_assets.merge.modes.mode import TableMode
from cdc_assets.merge.plan.barriers import Barriers
from cdc_assets.merge.plan.outcome import Replan
from cdc_assets.merge.plan.plan import Apply, BatchPlan
from cdc_assets.merge.plan.table_steps import execute_steps
from cdc_assets.merge.statements.deadline import Steps, Watch
from cdc_assets.merge.statements.pinning import cached, interpreted
from cdc_assets.merge.tables.side_table import SideTable


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """The result of a batch; ``published`` is None if nothing had to be published.

    Attributes:
        plan: that it was executed by, completed by what its records have shown.
    """

    published: Published | None
    figures: BatchFigures
    apply: Apply
    barriers: Barriers
    stale: int
    latency: LatencyHistogram
    plan: BatchPlan


@dataclass
class BatchExecution:
    """The execution of one batch. Use once.

    Attributes:
        slo_target: target for latencies, which decides the figures that are kept.
        refusals: takes the records that cannot be merged.
        decoder: of the batch's records, with its plan.
        context: the record before each range, raw; None if there are none.
        unread: for a table's first batch, all records that the log held, raw; None if their keys
            were checked for another table of the topic.
        require_whole: of `Pending`.
        require_same_topic: of `Planner`.
        register: of `Connections`.
        others: of `AttemptWork`.
        deadlines: of the steps.
        seconds_to_publish: duration of the table's previous last append and publish: the snapshot
            records when changes become visible, and is written before.
        steps: seconds per step, filled during the work.
    """

    spark: SparkSession
    catalog: str
    lake: Lake
    slo_target: SloTarget
    refusals: Refusals
    decoder: BatchDecoder
    context: DataFrame | None
    unread: DataFrame | None
    clock: Callable[[], datetime]
    require_whole: Callable[[Mapping[int, int]], None]
    require_same_topic: Callable[[BatchPlan], None]
    register: Register | None
    others: Mapping[str, int]
    deadlines: Watch
    seconds_to_publish: float = 0.0
    steps: Steps = field(init=False)

    def __post_init__(self) -> None:
        plan = self.decoder.plan
        self.steps = Steps(plan.where, self.deadlines)
        side = SideTable(self.spark, self.catalog, self.lake, plan.entry.stem, plan.published)
        means = BatchContext(self.spark, self.catalog, self.lake, side, self.clock, self.steps)
        self._batch = PlannedBatch.of(self.decoder)
        self._guards = Guards(
            Setting(self._batch, means, self.context, self.unread, self.require_whole)
        )
        self._means, self._mode = means, _mode_of(plan)
        self._reader = BatchReader(means, self._guards, self._mode)

    def run(self) -> ExecutionResult | Replan:
        """Executes the batch; see the module.

        The first pass may find facts that change the fold (a snapshot in the batch, deletes
        without an event, creates that are changed keys); the batch is then folded again. A new
        epoch changes all positions: what was learned by the old ones does not count any more.

        Returns:
            What the records hold that the plan did not know, if there is such a thing: nothing was
            written then.

        Raises:
            CdcError: of a guard; no row was written then.
            RejectedRecordError: if a record cannot be merged; nothing was published.
            MissingRowError: if a row to be deleted does not exist; nothing was published.
            ConflictError, OutcomeUnknownError: see `Publisher.publish`.
        """
        batch, guards = self._batch, self._guards
        guards.require(batch)
        knowledge = start = Knowledge(batch.plan.snapshot_starts)
        has_begun = has_learned = False
        while True:
            with self._reader.folded(batch, knowledge) as found:
                this = guards.verdict(found)
                if isinstance(this, Refold):
                    batch = PlannedBatch.of(replace(self.decoder, plan=this.plan))
                    knowledge, has_learned = start, False
                    continue
                if not isinstance(this, Pass):
                    return this
                batch = this.batch
                if not has_begun:
                    self._change_table(this.plan)
                    has_begun = True
                more = knowledge if has_learned else guards.knowledge(this)
                if more is knowledge:
                    return self._merged(guards.completed(this))
                knowledge, has_learned = more, True

    def _change_table(self, plan: BatchPlan) -> None:
        if plan.steps:
            with self.steps.step("make or change the table"):
                execute_steps(self.spark, self.catalog, plan.entry, plan.steps)

    def _register(self, this: Pass) -> None:
        found = this.figures.with_others(self.others)
        if self.register is not None and found.other_tables:
            self.register(this.plan.entry, found.other_tables, found.others)

    def _merged(self, this: Pass) -> ExecutionResult:
        """Applies the batch by its last pass, and publishes it."""
        plan, refusing = this.plan, Refusing(self.refusals, self.steps)
        last = refusing.rejected(this)
        self._register(last)
        barriers = self._mode.barriers(last, self.steps)
        publisher = Publisher(self.spark, self.catalog, self.lake, plan)
        branch = Branch(publisher, partial(self.require_same_topic, plan))
        carry = partial(self._guards.carried, last=last)
        recorder = Recorder(
            self.slo_target, self.refusals, self.clock, self.seconds_to_publish, carry
        )
        changes = partial(self._reader.changes, last, barriers)
        it = Application(last, barriers, branch, self._means, changes, refusing, recorder)
        with branch.dropped_on_failure():
            outcome = self._mode.applied(it, BatchOutcome(last.figures))
        if outcome.published is not None:
            with self.steps.step("publish", publishes=True):
                branch.publish()
        return ExecutionResult(
            outcome.published,
            outcome.figures.with_others(self.others),
            outcome.apply,
            barriers,
            outcome.stale,
            outcome.latency,
            plan,
        )


def _mode_of(plan: BatchPlan) -> TableMode:
    """Returns how the table of a plan takes changes."""
    match plan.mode:
        case Mode.CHANGELOG:
            return Changelog()
        case Mode.HISTORY:
            return History()
        case Mode.MIRROR:
            return Mirror() if plan.schema.key else Keyless()


INTERPRETED: Final = 1_000
"""Most records for which Spark evaluates the fold without generating code."""
PINNED_VALUES: Final = 100_000
"""Up to this many values (records times columns) are kept by a checkpoint: some five megabytes.
A session's last few are not collected at once, as Spark Connect remembers the last 16 plans."""


class BatchReader:
    """Reads a batch as often as needed.

    Args:
        means: of the batch's execution.
        guards: tell what they want to know of its records.
        mode: of the table, which folds its changes.
    """

    def __init__(self, means: BatchContext, guards: Guards, mode: TableMode) -> None:
        self._means = means
        self._guards = guards
        self._mode = mode

    @contextmanager
    def folded(self, batch: PlannedBatch, knowledge: Knowledge) -> Iterator[Pass]:
        """Yields the folded changes, kept during the block, and the figures of the records.

        Args:
            batch: under its plan.
            knowledge: facts that its fold needs.
        """
        observer, ranges, steps = self._observer(batch), batch.plan.ranges, self._means.steps
        small, summary = _is_small(batch.plan), Summary()
        with steps.step("read, decode, fold"):
            changes = batch.changes.mergeable(knowledge, observer)
            folding = self._mode.fold(changes, batch, self._guards.aggregates(batch))
            if small:  # of many rows, a query of what is kept counts for less
                folding = summary.attach(folding)
        with ExitStack() as during:
            few = small and sum(each.length for each in ranges) <= INTERPRETED
            by_itself = interpreted(folding.sparkSession) if few else nullcontext()
            with steps.step("read, decode, fold"), by_itself:
                frame = during.enter_context(cached(folding, "folded", is_small=small))
                counting = folding if small else summary.attach(frame)
                read = counting if small else read_through(counting)
            folded, figures = summary.result(frame, read), observer.figures(read)
            if folded is None or figures is None:
                # Of a large batch that reads what is kept: its figures are kept with it.
                with steps.step("read once more, for its figures"):
                    read = read_through(counting)
                folded, figures = summary.result(frame, read), observer.figures(read)
            where = batch.plan.where
            yield Pass(
                batch, knowledge, require_figures(folded, where), require_figures(figures, where)
            )

    def changes(self, this: Pass, barriers: Barriers) -> DataFrame:
        """Returns the applied changes: read again, as no two plans may hold one observation."""
        batch = this.batch
        again = batch.changes.mergeable(this.knowledge, self._observer(batch))
        return newer_than(again, barriers.after, batch.plan.numbers)

    def _observer(self, batch: PlannedBatch) -> BatchObserver:
        return BatchObserver(
            batch.plan.ranges,
            self._means.clock(),
            self._guards.figures(batch),
            pardoned=[each.sent_as for each in batch.decoder.doubtful],
        )


def _is_small(plan: BatchPlan) -> bool:
    """Whether a batch is small enough, by its largest size, to checkpoint its fold."""
    values = sum(each.length for each in plan.ranges) * len(plan.schema.columns)
    return is_one_task(plan.ranges) and values <= PINNED_VALUES
