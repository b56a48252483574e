"""Executes one batch: reads, decodes, folds, applies it to a branch, and publishes.

The steps and their order are those of docs/ARCHITECTURE.md from step 3 on:

3. read exactly the planned ranges, decode, refuse what cannot be merged;
4. cut at barriers, fold each part, remember deletes, apply to a branch of the planned head;
5. to 7. publish, and drop the branch: `cdc_assets.merge.apply.publish`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.latency import LatencyHistogram
from cdc_assets.changes.mode import Mode
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.changes.slo import SloTarget
from cdc_assets.errors import CutShortError
from cdc_assets.formats.order import Epochs, order_of
from cdc_assets.lake import Lake, Published
from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.apply.changelog import ChangeLogTable
from cdc_assets.merge.apply.history import HistoryTable
from cdc_assets.merge.apply.keyed import INCOMPLETE, KeyedTable, Resolved, within
from cdc_assets.merge.apply.multiset import (
    CountedTable,
    events,
    highest_read,
    snapshot_start,
    without_offset,
)
from cdc_assets.merge.apply.publish import Publisher
from cdc_assets.merge.apply.record import Outcome, record_of
from cdc_assets.merge.apply.refusals import Refusals, Reported
from cdc_assets.merge.apply.telling import recordable
from cdc_assets.merge.fold.changeset import ChangeSet, Knowledge
from cdc_assets.merge.fold.lost import look_through, require_none_lost, watched
from cdc_assets.merge.fold.moved import moves, told_moves
from cdc_assets.merge.fold.newest import FOLDED, newest_by_key
from cdc_assets.merge.fold.one_place import require_places_of_their_own
from cdc_assets.merge.fold.orphans import as_deletes, by_name, orphans, unpaired
from cdc_assets.merge.fold.overtaken import to_be_looked_at
from cdc_assets.merge.fold.read_rows import of_rows_that_stay
from cdc_assets.merge.fold.rekeyed import everywhere
from cdc_assets.merge.fold.restarts import RestartWatch
from cdc_assets.merge.fold.scattered import require_gathered
from cdc_assets.merge.fold.summary import Counted, Folded, counted_by_partition, summarized
from cdc_assets.merge.intake.decoding import BatchDecoder
from cdc_assets.merge.intake.layouts import execute_steps
from cdc_assets.merge.intake.observe import BatchFigures, BatchObserver
from cdc_assets.merge.intake.read import is_one_task
from cdc_assets.merge.intake.told import statements_among
from cdc_assets.merge.plan.outcome import Lacking, Told, Unlike, Unwritten, Wider
from cdc_assets.merge.plan.parts import Part, Truncate, split
from cdc_assets.merge.plan.plan import Apply, BatchPlan
from cdc_assets.merge.statements.deadline import Watch
from cdc_assets.merge.statements.failures import released_after
from cdc_assets.merge.statements.pinning import pinned, unpinned_after
from cdc_assets.merge.statements.steps import Steps
from cdc_assets.merge.tables.ends import Ends
from cdc_assets.merge.tables.known import Known
from cdc_assets.merge.tables.ledger import Ledger
from cdc_assets.merge.tables.side import SideTable
from cdc_assets.merge.tables.tombstones import Tombstones
from cdc_assets.schema.types import TableSchema

PINNED_VALUES: Final = 100_000
"""Up to this many values (records times columns) are kept by a checkpoint: some five megabytes.
A session's last few are not collected at once, as Spark Connect remembers the last 16 plans."""


@dataclass(frozen=True, slots=True)
class Executed:
    """The result of a batch; ``published`` is None if nothing had to be published."""

    published: Published | None
    figures: BatchFigures
    apply: Apply
    parts: tuple[Part, ...]
    stale: int
    latency: LatencyHistogram
    schema: TableSchema


@dataclass
class BatchExecution:
    """The execution of one batch. Use once.

    Attributes:
        promise: target for latencies, which decides the figures that are kept.
        refusals: takes the records that cannot be merged.
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
    plan: BatchPlan
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
        plan = self.plan
        self.steps = Steps(plan.where, self.deadlines)
        self._changes = ChangeSet(self.decoder, plan)
        self._watch = RestartWatch.of(plan)
        self._side = SideTable(self.spark, self.catalog, self.lake, plan.entry.stem, plan.published)

    def run(self) -> Executed | Unlike:
        """Executes the batch; see the module.

        The first pass may find facts that change the fold (a snapshot in the batch, deletes
        without an event, creates that are changed keys); the batch is then folded again.

        Returns:
            `Told` if there are statements among the records that the plan does not know; `Wider`
            or `Lacking` if records without a schema have a column that the plan does not know, or
            lack one that it expects; `Unwritten` if records have a schema that it does not know.
            In these cases nothing was written.

        Raises:
            TerminalError: if a row would lose a value to a record without its column; nothing was
                written then.
            RejectedRecordError: if a record cannot be merged; nothing was published.
            CutShortError, MissingRowError: if the rest of something in the batch may follow its
                end; nothing was published.
            ConflictError, OutcomeUnknownError: see `Publisher.publish`.
        """
        plan, learned = self.plan, False
        self._require_moved_keys_whole()
        knowledge = Knowledge(plan.snapshot_starts)
        has_begun = False
        while True:
            with self._folded(knowledge) as (found, figures):
                if figures.has_unwritten:
                    return Unwritten()
                if figures.statements and not plan.is_told:  # may rename columns to be added
                    return Told(self._statements(knowledge))
                if figures.unknown_columns:
                    return Wider(figures.unknown_columns)
                if figures.absent_columns:
                    return Lacking(figures.absent_columns)
                folded = self._without_doubt(found)
                if not has_begun:
                    self._change_table()
                    has_begun = True
                if self._renumbered(knowledge, folded, figures):
                    continue
                more = knowledge if learned else self._learned(knowledge, figures)
                if more is knowledge:
                    return self._merged(folded, figures, knowledge)
                knowledge, learned = more, True

    def _require_moved_keys_whole(self) -> None:
        """Checks that no older change of a key that has moved is left for a later batch.

        Raises:
            CutShortError: if one may be.
        """
        if self.plan.moves_keys and self.plan.is_limited and not self.plan.replay:
            what = "a column of the key was renamed or retyped, and keys are in other partitions"
            remedy = "older changes of theirs may follow: a longer batch is tried"
            raise CutShortError(what, where=self.plan.where, remedy=remedy)

    # ── 3. read, decode, refuse ──────────────────────────────────────────────────────────

    @contextmanager
    def _folded(self, knowledge: Knowledge) -> Iterator[tuple[Folded, BatchFigures]]:
        observer, ranges = self._observer(), self.plan.ranges
        counted = Counted(ranges) if self._is_small and Counted.pays(ranges) else None
        with self.steps.step("read, decode, fold"):
            folding = self._folding(knowledge, observer)
            if counted is not None:
                folding = counted.attach(folding)
        with self._kept(folding) as folded:
            with self.steps.step("read, decode, fold"):
                rows, read = counted.told(folding) if counted else None, folding
                if rows is None:
                    asked = counted_by_partition(folded)
                    rows, read = asked.collect(), folding if self._is_small else asked
            yield summarized(folded, rows), self._figures(observer, folding, read)

    def _figures(
        self, observer: BatchObserver, folding: DataFrame, read: DataFrame
    ) -> BatchFigures:
        """Returns the batch's figures; reads it again if Spark has not told them."""
        if not observer.has_figures(read):
            with self.steps.step("read once more, for its figures"):
                read = counted_by_partition(folding)
                read.collect()
        return observer.figures(read)

    def _folding(self, knowledge: Knowledge, observer: BatchObserver) -> DataFrame:
        plan, unset_able = self.plan, self._changes.unset_able
        changes = self._changes.mergeable(knowledge, observer)
        if plan.mode is Mode.CHANGELOG:
            return recordable(changes, plan)
        if plan.mode is Mode.HISTORY:
            return recordable(changes, plan, unset_able)
        if not plan.schema.key:
            return events(changes, plan)
        doubt = watched(self.decoder.doubt, plan.numbers)
        return newest_by_key(changes, plan.schema.key, plan.numbers, unset_able, doubt)

    @contextmanager
    def _kept(self, folding: DataFrame) -> Iterator[DataFrame]:
        """Keeps what was computed during the block; few rows by a checkpoint.

        Each statement that reads a cached frame has Spark analyze, and look for in its cache, all
        that made it. Reading records and folding them has a large plan: a fifth of a small batch.
        A checkpoint has none. But it is not compressed, and leaves memory only when Java collects.
        """
        if self._is_small:
            with self.steps.step("read, decode, fold"):
                folded = pinned(folding)
            with unpinned_after(folded):
                yield folded
            return
        # A view is analyzed once, however often it is read, a plan again with each statement.
        view = f"folded_{uuid.uuid4().hex}"
        with self.steps.step("read, decode, fold"):
            folding.createOrReplaceTempView(view)
        # Dropping a view also releases its cache.
        with released_after(lambda: self.spark.catalog.dropTempView(view)):
            with self.steps.step("read, decode, fold"):
                self.spark.catalog.cacheTable(view)
            yield self.spark.table(view)

    @property
    def _is_small(self) -> bool:
        ranges = self.plan.ranges
        values = sum(each.length for each in ranges) * len(self.plan.schema.columns)
        return is_one_task(ranges) and values <= PINNED_VALUES

    def _without_doubt(self, folded: Folded) -> Folded:
        """Checks that no value is lost by columns that records lack, and returns the changes.

        Raises:
            TerminalError: if one would be lost.
        """
        doubt = self.decoder.doubt
        if doubt is None:
            return folded
        is_folded = self.plan.mode is not Mode.HISTORY
        with self.steps.step("look for values that would be lost"):
            if is_folded:
                require_none_lost(self.spark, self.catalog, self.plan, doubt, folded.frame)
            else:
                look_through(self.spark, self.catalog, self.decoder)
        self.decoder = replace(self.decoder, doubt=None)
        self._changes = ChangeSet(self.decoder, self.plan)
        if not is_folded:
            return folded
        return replace(folded, frame=folded.frame.select(*FOLDED))

    def _change_table(self) -> None:
        if self.plan.steps:
            with self.steps.step("make or change the table"):
                execute_steps(self.spark, self.catalog, self.plan.entry, self.plan.steps)

    def _statements(self, knowledge: Knowledge) -> tuple[Coordinate, ...]:
        with self.steps.step("look for statements"):
            return statements_among(self.decoder, knowledge.floors)

    def _renumbered(self, knowledge: Knowledge, folded: Folded, figures: BatchFigures) -> bool:
        """Returns whether positions have changed since the fold.

        Raises:
            RestartError: if they went back, and nobody has accepted that.
        """
        watch = self._watch
        if watch is None:
            return False
        renumbered = False
        if watch.must_look(figures, folded):
            with self.steps.step("look at positions"):
                renumbered = watch.look(lambda epochs: self._looked_at(knowledge, figures, epochs))
        self._plan_with(numbering=watch.carried(figures, folded), epochs=watch.restarts.epochs)
        return renumbered

    def _looked_at(self, knowledge: Knowledge, figures: BatchFigures, epochs: Epochs) -> DataFrame:
        """Returns the records to be examined in their order.

        Their positions have these epochs, and are lifted by the batch's own snapshots in them too.
        """
        plan = replace(self.plan, epochs=epochs)
        decoder, floors, known = replace(self.decoder, plan=plan), knowledge.floors, None
        if figures.min_floating is not None:
            floors, known = ChangeSet(decoder, plan).floors(floors, figures), self._known()
        return to_be_looked_at(decoder, floors, known)

    def _plan_with(self, *, numbering: str, epochs: Epochs) -> None:
        self.plan = replace(self.plan, numbering=numbering, epochs=epochs)
        self.decoder = replace(self.decoder, plan=self.plan)
        self._changes = ChangeSet(self.decoder, self.plan)

    def _learned(self, knowledge: Knowledge, figures: BatchFigures) -> Knowledge:
        """Adds the findings of a first pass; returns the same object if there are none."""
        if figures.min_floating is not None:
            with self.steps.step("look at snapshot"):
                floors = self._changes.floors(knowledge.floors, figures)
            if floors != knowledge.floors:
                knowledge = replace(knowledge, floors=floors)
        if figures.rekeyed and not self.plan.layout.split_keys:
            knowledge = replace(knowledge, rekeyed=True)
        if figures.lone_tombstones and self.plan.schema.key:
            knowledge = self._with_lone_deletes(knowledge)
        if figures.in_doubt and len(self.plan.numbers) > 1:
            known = self._known(self.decoder.unset_able)
            with self.steps.step("look up"):
                decoded = self._changes.decoded(knowledge)
                if self.plan.mode is Mode.CHANGELOG:  # a left-out value is not looked up
                    found = pinned(told_moves(decoded, self.plan, known))
                else:
                    found = moves(decoded, self.plan, known, self.decoder.unset_able)
            knowledge = replace(knowledge, moves=found)
        return knowledge

    def _with_lone_deletes(self, knowledge: Knowledge) -> Knowledge:
        """Adds deletes that are only a record without a value, which are few."""
        key, numbers = self.plan.schema.key, self.plan.numbers
        with self.steps.step("look up"):
            decoded = self.decoder.decode(knowledge.floors, tombstone_keys=True)
            before = None
            if self.context is not None:
                before = self.decoder.decode(knowledge.floors, self.context, tombstone_keys=True)
            found = pinned(orphans(decoded, before, key, numbers))
            named, unread = by_name(found, key)
            if not unread.isEmpty():
                refused = pinned(unpaired(unread, decoded, before))
                knowledge = replace(knowledge, nameless=refused)
            known = self._known()
            deletes = as_deletes(named, known.newest(named, known.rows(named)), numbers)
            return replace(knowledge, lone_deletes=pinned(deletes))

    def _observer(self) -> BatchObserver:
        suspicion = self._watch.suspicion() if self._watch else None
        return BatchObserver(
            self.plan.entry.topic,
            self.plan.ranges,
            self.clock(),
            suspicion,
            has_others=self.decoder.format.has_many_tables,
            pardoned=[each.sent_as for each in self.decoder.doubtful],
        )

    # ── 4. cut, apply ────────────────────────────────────────────────────────────────────

    def _merged(self, folded: Folded, figures: BatchFigures, knowledge: Knowledge) -> Executed:
        plan = self.plan
        self._require_whole(folded)
        self._require_gathered(knowledge)
        self._require_places(knowledge)
        if figures.rejected:
            self.refusals.take(self._changes.rejected(knowledge), self.steps)
        if knowledge.nameless is not None and not knowledge.nameless.isEmpty():
            refused = self.refusals.take(knowledge.nameless, self.steps)
            figures = replace(figures, rejected=figures.rejected + refused)
        parts = self._parts(folded, figures, knowledge)
        publisher = Publisher(self.spark, self.catalog, self.lake, plan)
        branch = Branch(self.spark, publisher, plan.entry.shard)
        floors = self._changes.floors(knowledge.floors, figures)
        outcome = Outcome(figures, floors)
        with branch.dropped_on_failure():
            self._fill(branch)
            if plan.mode is Mode.CHANGELOG:
                outcome = self._recorded_each(folded, parts, branch, outcome)
            elif plan.mode is Mode.HISTORY:
                outcome = self._versioned(folded, parts, knowledge, branch, outcome)
            elif plan.schema.key:
                outcome = self._keyed(folded, parts, knowledge, branch, outcome)
            else:
                outcome = self._counted(folded, parts, branch, outcome)
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
            plan.schema,
        )

    def _fill(self, branch: Branch) -> None:
        """Fills columns that were added with a value in all existing rows, which are older."""
        if self.plan.mode is Mode.CHANGELOG:  # a recorded change does not change
            return
        if self.plan.unfilled and not self.plan.is_empty:
            with self.steps.step("fill added columns"):
                branch.fill(self.plan.unfilled)

    def _require_whole(self, folded: Folded) -> None:
        """Checks for redelivery, if more than a tombstone follows a partition's newest change."""
        ends = {each.partition: each.end for each in self.plan.ranges}
        newest = folded.newest.items()
        if any(offset + 1 + is_delete < ends[p] for p, (offset, is_delete) in newest):
            with self.steps.step("look at transactions"):
                self.require_whole({p: offset for p, (offset, _) in newest})

    def _require_gathered(self, knowledge: Knowledge) -> None:
        """Checks that keys stay in their partition: in each batch those of its changes.

        Before the first batch the own keys of all records are checked, as batches of a first load
        may end anywhere, and the log is complete only before them.
        """
        plan = self.plan
        if not plan.needs_keys_apart:
            return
        with self.steps.step("look for keys in two partitions"):
            if plan.published is None and self.unread is not None:
                require_gathered(self.unread, F.col("key"), plan)
            if len(plan.ranges) > 1:
                require_gathered(self._changes.decoded(knowledge), F.col("key"), plan)

    def _require_places(self, knowledge: Knowledge) -> None:
        """Checks that changes that seem to be sent again are no others."""
        if self.plan.repeats_places and self.plan.schema.key:
            with self.steps.step("look for changes at one place"):
                require_places_of_their_own(self._changes.decoded(knowledge), self.plan)

    def _parts(
        self, folded: Folded, figures: BatchFigures, knowledge: Knowledge
    ) -> tuple[Part, ...]:
        if self.plan.mode is Mode.CHANGELOG:  # a truncate is a row, and older rows stay
            return (Part(),)
        truncates: tuple[Truncate, ...] = ()
        if self.plan.barrier and not self.plan.replay:
            truncates = (Truncate(self.plan.barrier, None),)
        if figures.by_op["t"]:
            with self.steps.step("read barriers"):
                truncates = (*truncates, *self._changes.truncates(knowledge))
        if not self.plan.schema.key and figures.by_op["r"]:
            with self.steps.step("read barriers"):
                read = highest_read(folded.frame)
            truncates = (*truncates, Truncate(snapshot_start(read), None)) if read else truncates
        keeps = self.plan.soft or self.plan.mode is Mode.HISTORY
        return split(truncates, self.plan.floor, keep_deleted=keeps)

    def _keyed(
        self,
        folded: Folded,
        parts: tuple[Part, ...],
        knowledge: Knowledge,
        branch: Branch,
        outcome: Outcome,
    ) -> Outcome:
        plan = self.plan
        table = KeyedTable(plan, self._known(), self._tombstones(), self.steps,
                           self._changes.unset_able, rekeyed=knowledge.rekeyed)  # fmt: skip
        for part in parts:
            changes = partial(self._changes_of, knowledge, part)
            with table.part(folded, changes, part) as mine:
                if part.truncate is not None and (plan.head or branch.identifier):
                    with self.steps.step("truncate"):
                        branch.truncate(part.truncate, keep_deleted=plan.soft)
                apply = table.choose(mine, branch)
                with table.resolved(mine, changes, apply, branch) as resolved:
                    incomplete = self._refused(resolved.incomplete)
                    stale = mine.keys - resolved.kept - incomplete
                    outcome = outcome.after(mine, apply, stale, incomplete)
                    if part is parts[-1]:
                        self._settle(partial(self._applied, knowledge, part, resolved))
                        nothing = not (resolved.kept or branch.identifier)
                        if plan.replay and nothing and self.refusals.quarantined is None:
                            return outcome
                        outcome = replace(outcome, side=table.remember(resolved, mine))
                    table.delete(resolved, apply, branch)
                    if part is parts[-1]:
                        outcome = self._recorded(outcome, parts)
                    table.append(resolved, branch, outcome.properties)
        return outcome

    def _counted(
        self,
        folded: Folded,
        parts: tuple[Part, ...],
        branch: Branch,
        outcome: Outcome,
    ) -> Outcome:
        part, before = parts[-1], self.plan.published
        highest = max(before.carried.applied.values(), default="") if before else ""
        lowest = min(folded.lowest.values(), default="")
        floats = outcome.figures.min_floating is not None  # at another position each time
        may_repeat = floats or without_offset(lowest) <= without_offset(highest)
        ledger = Ledger(self._side, order_of(self.plan.layout.scheme))
        table = CountedTable(self.spark, self.catalog, self.plan, self.steps, ledger)
        counted = table.counted(folded.frame, part.floor, may_repeat=may_repeat)
        with self.steps.step("count events"):
            stale = folded.keys - counted.count()
        if part.truncate is not None and before is not None:
            with self.steps.step("truncate"):
                branch.truncate(part.truncate, keep_deleted=False)
        self._settle(lambda: counted)
        outcome = replace(outcome, side=table.remember(counted))
        outcome = outcome.after(folded, Apply.COUNT, stale, 0)
        with table.surplus_deleted(counted, branch) as missing:
            outcome = self._recorded(outcome, parts)
            table.append(missing, branch, outcome.properties)
        return outcome

    def _recorded_each(
        self, folded: Folded, parts: tuple[Part, ...], branch: Branch, outcome: Outcome
    ) -> Outcome:
        plan, unset_able = self.plan, self._changes.unset_able
        table = ChangeLogTable(self.spark, self.catalog, plan, self.steps, unset_able)
        new = table.new(folded.frame, outcome.figures, folded.keys)
        with self.steps.step("look for changes that are there"):
            count = new.count()
        self._settle(lambda: new)
        none_remembered = replace(folded, highest_delete="")
        outcome = outcome.after(none_remembered, Apply.RECORD, folded.keys - count, 0)
        if plan.replay and not count and self.refusals.quarantined is None:
            return outcome
        outcome = self._recorded(outcome, parts)
        table.write(new, branch, outcome.properties)
        return outcome

    def _versioned(
        self,
        folded: Folded,
        parts: tuple[Part, ...],
        knowledge: Knowledge,
        branch: Branch,
        outcome: Outcome,
    ) -> Outcome:
        plan, ends = self.plan, Ends(self._side, self.plan.schema)
        unset_able, rekeyed = self._changes.unset_able, knowledge.rekeyed
        table = HistoryTable(self.spark, self.catalog, plan, self.steps, unset_able, ends)
        resolved = table.resolve(folded, outcome.figures, branch, rekeyed=rekeyed)
        incomplete = self._refused(resolved.incomplete)
        self._settle(lambda: resolved.applied)
        highest = everywhere(folded.highest, plan.partitions) if rekeyed else folded.highest
        part = replace(folded, highest=highest, highest_delete=resolved.highest_lone)
        stale = folded.keys - resolved.changes - incomplete
        outcome = outcome.after(part, Apply.VERSIONS, stale, incomplete)
        if plan.replay and resolved.is_empty and self.refusals.quarantined is None:
            return outcome
        outcome = replace(outcome, side=table.remember(resolved))
        table.delete(resolved, branch)
        outcome = self._recorded(outcome, parts)
        table.append(resolved, branch, outcome.properties)
        return outcome

    def _settle(self, applied: Callable[[], DataFrame]) -> None:
        """Finds out the outcome of each record out of the quarantine, as these are few."""
        if isinstance(self.refusals, Reported):
            self.refusals.settle(applied(), self.steps)

    def _changes_of(self, knowledge: Knowledge, part: Part) -> DataFrame:
        """Returns the changes of a part: read again, as no two plans may hold one observation."""
        again = self._changes.mergeable(knowledge, self._observer())
        return within(again, part, self.plan.numbers)

    def _applied(self, knowledge: Knowledge, part: Part, resolved: Resolved) -> DataFrame:
        """Returns all changes of the keys that the last part writes."""
        changes = self._changes_of(knowledge, part)
        kept = resolved.final.select(F.col("key").alias("kept"))
        return changes.join(F.broadcast(kept), changes["key"] == kept["kept"], "left_semi")

    def _refused(self, incomplete: DataFrame | None) -> int:
        """Refuses updates that cannot be completed; returns their number."""
        if incomplete is None:
            return 0
        if self.plan.beside is not None:
            incomplete = of_rows_that_stay(incomplete, self.plan.beside)
            if incomplete.isEmpty():
                return 0
        reason = F.lit(INCOMPLETE).alias("reason")
        refused = incomplete.select("partition", "offset", reason)
        return self.refusals.take(refused, self.steps)

    # ── what the snapshot says ───────────────────────────────────────────────────────────

    def _recorded(self, outcome: Outcome, parts: tuple[Part, ...]) -> Outcome:
        truncates = [part.truncate.position for part in parts if part.truncate]
        truncated = max([self.plan.truncated, *truncates])
        now, promise = self.clock(), self.promise
        figures = outcome.figures
        elapsed = (now - figures.asked_at).total_seconds() + self.seconds_to_publish
        latency = figures.ages.shifted(elapsed)
        left = self.refusals.missing(self.plan)
        quarantined = self.refusals.quarantined
        outcome = replace(outcome, quarantined=quarantined, missing=left, latency=latency)
        return replace(outcome, published=record_of(self.plan, outcome, truncated, now, promise))

    def _known(self, columns: tuple[str, ...] | None = None) -> Known:
        wanted = self._changes.unset_able if columns is None else columns
        return Known(self.spark, self.catalog, self.plan, wanted, self._tombstones())

    def _tombstones(self) -> Tombstones:
        return Tombstones(self._side, self.plan.schema)
