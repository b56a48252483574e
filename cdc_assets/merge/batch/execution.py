"""Executes one batch, in the order of docs/ARCHITECTURE.md from step 3 on.

3. Read exactly the planned ranges, decode and fold (`reading`). If that shows what the plan did
   not know, end or complete the plan (`replanning`); if it shows what the fold needs to know
   (`learning`), fold again. Carry out the table's steps.
4. Check the batch (`checks`), refuse what cannot be merged (`refusing`), cut it at barriers
   (`cutting`), and apply its parts to a branch of the planned head (`applying`).
5. to 7. Publish, and drop the branch: `cdc_assets.merge.apply.publish`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from cdc_assets.changes.latency import LatencyHistogram
from cdc_assets.changes.slo import SloTarget
from cdc_assets.lake import Lake, Published
from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.apply.publish import Publisher
from cdc_assets.merge.apply.record import Outcome
from cdc_assets.merge.apply.refusals import Refusals
from cdc_assets.merge.batch.application import Application
from cdc_assets.merge.batch.applying import applied
from cdc_assets.merge.batch.checks import Checks, require_moved_keys_whole
from cdc_assets.merge.batch.cutting import parts_of
from cdc_assets.merge.batch.learning import floors_of, learned, may_rise
from cdc_assets.merge.batch.means import Means
from cdc_assets.merge.batch.passes import Pass, PlannedBatch
from cdc_assets.merge.batch.reading import Reader
from cdc_assets.merge.batch.recording import Recorder
from cdc_assets.merge.batch.refusing import Refusing
from cdc_assets.merge.batch.replanning import renumbered, unlike, with_keys, without_doubt
from cdc_assets.merge.fold.changeset import Knowledge
from cdc_assets.merge.fold.restarts import RestartWatch
from cdc_assets.merge.intake.decoding import BatchDecoder
from cdc_assets.merge.intake.figures import BatchFigures
from cdc_assets.merge.intake.layouts import execute_steps
from cdc_assets.merge.plan.outcome import Unlike
from cdc_assets.merge.plan.parts import Part
from cdc_assets.merge.plan.plan import Apply, BatchPlan
from cdc_assets.merge.plan.unmoved import require_same_keys
from cdc_assets.merge.statements.deadline import Watch
from cdc_assets.merge.statements.steps import Steps
from cdc_assets.merge.tables.side import SideTable


@dataclass(frozen=True, slots=True)
class Executed:
    """The result of a batch; ``published`` is None if nothing had to be published.

    Attributes:
        plan: that it was executed by, completed by what its records have shown.
    """

    published: Published | None
    figures: BatchFigures
    apply: Apply
    parts: tuple[Part, ...]
    stale: int
    latency: LatencyHistogram
    plan: BatchPlan


@dataclass
class BatchExecution:
    """The execution of one batch. Use once.

    Attributes:
        promise: target for latencies, which decides the figures that are kept.
        refusals: takes the records that cannot be merged.
        decoder: of the batch's records, with its plan.
        context: the record before each range, raw; None if there are none.
        unread: for a table's first batch, all records that the log held, raw; None if their keys
            were checked for another table of the topic.
        require_whole: of `Pending`.
        require_same_topic: of `Planner`.
        deadlines: of the steps.
        seconds_to_publish: duration of the table's previous last append and publish: the snapshot
            records when changes become visible, and is written before.
        steps: seconds per step, filled as the work goes on.
    """

    spark: SparkSession
    catalog: str
    lake: Lake
    promise: SloTarget
    refusals: Refusals
    decoder: BatchDecoder
    context: DataFrame | None
    unread: DataFrame | None
    clock: Callable[[], datetime]
    require_whole: Callable[[Mapping[int, int]], None]
    require_same_topic: Callable[[BatchPlan], None]
    deadlines: Watch
    seconds_to_publish: float = 0.0
    steps: Steps = field(init=False)

    def __post_init__(self) -> None:
        plan = self.decoder.plan
        self.steps = Steps(plan.where, self.deadlines)
        side = SideTable(self.spark, self.catalog, self.lake, plan.entry.stem, plan.published)
        self._means = Means(self.spark, self.catalog, self.lake, side, self.clock, self.steps)
        self._watch = RestartWatch.of(plan)
        self._reader = Reader(self._means, self._watch)

    def run(self) -> Executed | Unlike:
        """Executes the batch; see the module.

        The first pass may find facts that change the fold (a snapshot in the batch, deletes
        without an event, creates that are changed keys); the batch is then folded again. A new
        epoch changes all positions: what was found by the old ones does not count any more.

        Returns:
            `Told` if there are statements among the records that the plan does not know; `Wider`
            or `Lacking` if records without a schema have a column that the plan does not know, or
            lack one that it expects; `Unwritten` if records have a schema that it does not know.
            In these cases nothing was written.

        Raises:
            TerminalError: if a row would lose a value to a record without its column; no row was
                written then.
            RejectedRecordError: if a record cannot be merged; nothing was published.
            MovedKeysError: see `require_same_keys`; nothing was written.
            CutShortError, MissingRowError: if the rest of something in the batch may follow its
                end; nothing was published.
            ConflictError, OutcomeUnknownError: see `Publisher.publish`.
        """
        batch, means = PlannedBatch.of(self.decoder), self._means
        self._require_same_keys(batch.plan)
        require_moved_keys_whole(batch.plan)
        knowledge = start = Knowledge(batch.plan.snapshot_starts)
        has_begun = has_learned = False
        while True:
            with self._reader.folded(batch, knowledge) as found:
                other = unlike(found, self.steps)
                if other is not None:
                    return other
                this, has_changed = renumbered(found, self._watch, means)
                if has_changed:
                    batch = PlannedBatch.of(replace(self.decoder, plan=this.plan))
                    knowledge, has_learned = start, False
                    continue
                if not may_rise(this):
                    this = without_doubt(this, means)  # before the table is changed
                batch = this.batch
                if not has_begun:
                    self._change_table(this.plan)
                    has_begun = True
                more = knowledge if has_learned else learned(this, self.context, means)
                if more is knowledge:
                    return self._merged(without_doubt(this, means))
                knowledge, has_learned = more, True

    def _require_same_keys(self, plan: BatchPlan) -> None:
        require_same_keys(plan, self.decoder.format.key_bytes(plan.layout))

    def _change_table(self, plan: BatchPlan) -> None:
        if plan.steps:
            with self.steps.step("make or change the table"):
                execute_steps(self.spark, self.catalog, plan.entry, plan.steps)

    def _merged(self, this: Pass) -> Executed:
        """Applies the batch by its last pass, and publishes it."""
        this = with_keys(this)
        self._require_same_keys(this.plan)
        plan, refusing = this.plan, Refusing(self.refusals, self.steps)
        Checks(self.steps, self.unread, self.require_whole).require_all(this)
        last = refusing.rejected(this)
        parts = parts_of(last, self.steps)
        publisher = Publisher(self.spark, self.catalog, self.lake, plan)
        branch = Branch(self.spark, publisher, plan.entry.shard)
        floors = floors_of(last, self._means)
        recorder = Recorder(self.promise, self.refusals, self.clock, self.seconds_to_publish)
        it = Application(last, parts, branch, self._means, self._reader, refusing, recorder)
        with branch.dropped_on_failure():
            outcome = applied(it, Outcome(last.figures, floors))
            self.require_same_topic(plan)
        if outcome.published is not None:
            with self.steps.step("publish", publishes=True):
                branch.publish()
        return Executed(
            outcome.published,
            outcome.figures,
            outcome.apply,
            parts,
            outcome.stale,
            outcome.latency,
            plan,
        )
