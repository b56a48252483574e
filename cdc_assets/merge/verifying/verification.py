"""Compares one table with its source, while both change.

1. Compare checksums of ranges of keys, then the rows of ranges that differ
   (`cdc_assets.merge.verifying.narrowing`). This gives keys in doubt.
2. Judge each key in doubt once both sides are at one position
   (`cdc_assets.merge.verifying.judging`); a key that keeps changing is looked at again, and in the
   end counted as not judged.
3. Repair differences, if requested (`cdc_assets.merge.verifying.repair`).

A keyless table is one multiset: its rows are counted and their digests added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.config.verify import VerifyConfig
from cdc_assets.databases.kinds import rows_of
from cdc_assets.databases.rows import Access, SourceKeyRows, SourceRows
from cdc_assets.errors import ConfigError, TerminalError
from cdc_assets.log.connect import connector_of
from cdc_assets.merge.attempt import Attempts
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.replicate import Replicator
from cdc_assets.merge.verifying.judging import Difference, judge
from cdc_assets.merge.verifying.lake_rows import LakeKeyRows, LakeRows
from cdc_assets.merge.verifying.narrowing import Doubts, Say, Sizes, doubts
from cdc_assets.merge.verifying.pace import Pace
from cdc_assets.merge.verifying.proof import Proof
from cdc_assets.merge.verifying.putting import Lakes, Putting
from cdc_assets.merge.verifying.repair import (
    Repair,
    RepairCounts,
    RowRepair,
    generation_of,
    highest_of,
    require_order,
)
from cdc_assets.merge.verifying.report import ComparisonReport, Position
from cdc_assets.merge.verifying.waits import Waits
from cdc_assets.merge.verifying.way import NO_WAY, PublishLease
from cdc_assets.registry import TableEntry
from cdc_assets.schema.comparing import Comparison, Key, Sum
from cdc_assets.schema.types import TableSchema

KEYS_AT_ONCE: Final = 1_000
_CHANGING: Final = "they changed each time that they were looked at"
_DOUBTFUL: Final = f"{_CHANGING}, and large values of some differ: compare once they rest"


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome for keys in doubt; ``is_busy`` is that of the report."""

    wanted: tuple[RowRepair, ...]
    not_judged: int
    why: str
    is_busy: bool = False

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Differences among them."""
        return tuple(each.difference for each in self.wanted)


class Verification:
    """A comparison of tables of one configuration, with one Spark session.

    Attributes:
        waits: waits for source, connector and lake.
        lakes: the means by which rows of the lake are read and replaced.

    Args:
        attempts: configuration, connections, session and clock.
        run_id: recorded with repairs.
        say: called with messages about progress.
        merges: whether to merge what the lake lacks, if nobody else does meanwhile.
        way: asks other writers to wait for repairs that they beat.
    """

    def __init__(
        self,
        attempts: Attempts,
        run_id: str,
        *,
        say: Say = lambda _: None,
        merges: bool = False,
        way: PublishLease = NO_WAY,
    ) -> None:
        means, planner = attempts.means, attempts.planner
        self._attempts, self._config, self._clock = attempts, means.config, means.clock
        self._lake, catalog = means.connections.lake, means.config.lake.catalog.name
        self.lakes = Lakes(attempts.session, catalog, self._lake, planner)
        replicator = _replicator(attempts) if merges else None
        self.waits = Waits(self._config, self._lake, planner, replicator, run_id)
        self._run_id, self._say, self._way = run_id, say, way

    def of(self, entry: TableEntry, *, repair: bool = False) -> ComparisonReport:
        """Compares a table, and repairs differences if requested.

        Raises:
            CdcError: if a part does not answer, or the table cannot be compared at all.
        """
        plan = self._plan(entry, repair=repair)
        if repair:
            self._way.require_free()
        source, of = self.source(entry, plan.schema), self._config.source(entry.table.source)
        try:
            proof = Proof.begun(self._lake, of, entry)
            table = _Table(self, entry, source, self._options_of(entry), generation_of(plan))
            report = table.keyed(repair=repair) if source.comparison.key else table.counted()
        finally:
            source.close()
        if report.is_whole and not report.differs:
            proof.record(self.lakes, source.comparison.unread)
        return report

    def of_keys(
        self, entry: TableEntry, source: SourceRows, keys: Sequence[Key]
    ) -> ComparisonReport:
        """Compares the rows of some keys only, and repairs those that differ.

        Raises:
            CdcError: as for `of`.
        """
        generation = generation_of(self.plan(entry))
        table = _Table(self, entry, source, self._options_of(entry), generation)
        return table.judged(Doubts(tuple(keys), has_more=False, rows=len(keys)), repair=True)

    def _options_of(self, entry: TableEntry) -> VerifyConfig:
        return self._config.source(entry.table.source).verify

    def _plan(self, entry: TableEntry, *, repair: bool) -> BatchPlan:
        mode = self._config.source(entry.table.source).mode_of(entry.table)
        if repair and mode is Mode.HISTORY:
            what = "what differs in a history is not put right: nothing tells since when it does"
            remedy = (
                "have the rows read again by a snapshot, which adds a version where one differs"
            )
            raise TerminalError(what, where=f"table={entry.table}", remedy=remedy)
        if mode is Mode.CHANGELOG:
            what = (
                "its lake table has the source's changes, not its rows: there is nothing to compare"
            )
            raise TerminalError(what, where=f"table={entry.table}", remedy="leave it out")
        if self._lake.state(entry.target, entry.shard_value) is None:
            what = "there is nothing to compare: the table was not replicated yet"
            raise TerminalError(what, where=f"table={entry.table}", remedy="materialize it")
        plan = self._attempts.planner.replay(entry, (), self._run_id).plan
        if repair:
            require_order(plan.layout.scheme, plan.partitions, f"table={entry.table}")
        return plan

    def source(self, entry: TableEntry, schema: TableSchema) -> SourceRows:
        """Returns a table's rows in its database, for these columns; the caller closes them."""
        where = f"table={entry.table}"
        database = self._config.source(entry.table.source).database
        if database is None:
            what = "the source has no database: that could be asked for its rows"
            remedy = f"name it: sources.{entry.table.source}.database"
            raise ConfigError(what, where=where, remedy=remedy)
        options, name = self._options_of(entry), entry.at_source
        access = Access(
            login=database.login,
            table=(name.schema, name.name),
            schema=schema.of_source,
            where=where,
            publication=database.publication,
            slot=options.slot,
            statement_seconds=options.statement_seconds,
            source=entry.table.source,
            connector=partial(connector_of, self._config, entry),
            nudge=options.nudge,
            condition=self._attempts.planner.tables(entry).condition(schema),
        )
        return rows_of(database.kind, access)

    def plan(self, entry: TableEntry) -> BatchPlan:
        """Returns a plan on the table's present head."""
        return self._plan(entry, repair=False)

    def putting(self, entry: TableEntry, comparison: Comparison, kind: PublishKind) -> Putting:
        """Returns a table's rows in the lake, to be compared, and replaced by such publishes."""
        run_id, clock = self._run_id, self._clock
        return Putting(self.lakes, entry, comparison, run_id, kind, clock, self._way)

    def say(self, words: str) -> None:
        """Reports progress."""
        self._say(words)


class _Table:
    """The comparison of one table."""

    def __init__(
        self,
        of: Verification,
        entry: TableEntry,
        source: SourceRows,
        options: VerifyConfig,
        generation: int,
    ) -> None:
        self._of = of
        self._entry = entry
        self._source = source
        self._options = options
        self._generation = generation
        self._putting = of.putting(entry, source.comparison, PublishKind.REPAIR)
        self._pace = Pace(options.rows_per_second)
        self._until = ""

    # ── with a key ───────────────────────────────────────────────────────────────────────

    def keyed(self, *, repair: bool) -> ComparisonReport:
        options = self._options
        sizes = Sizes(options.bucket_rows, options.chunk_rows, options.most_keys)
        found = doubts(self._source, self._head, sizes, self._pace, self._of.say)
        return self.judged(found, repair=repair)

    def judged(self, found: Doubts, *, repair: bool) -> ComparisonReport:
        """Judges keys in doubt, and repairs differences if requested."""
        comparison, done = self._source.comparison, RepairCounts()
        settled = self._settle(found.keys) if found.keys else Settled((), 0, "")
        position = self._position(self._of.plan(self._entry))
        if repair and settled.wanted:
            with self._pace.step("put right"):
                done = Repair(self._putting, self._generation).apply(settled.wanted)
        return ComparisonReport(
            table=self._entry.table,
            key=tuple(each.name for each in comparison.key),
            rows=found.rows,
            differences=settled.differences,
            not_judged=settled.not_judged,
            why=settled.why,
            has_more=found.has_more,
            left_out=comparison.left_out,
            repaired=done.repaired,
            unrepaired=done.unrepaired,
            unheld=done.unheld,
            seconds=self._pace.seconds,
            position=position,
            is_busy=settled.is_busy,
        )

    def _position(self, plan: BatchPlan) -> Position:
        """Returns the place that keys were judged at; the present one if none was in doubt."""
        offsets = plan.published.offsets.to_json() if plan.published else ""
        head = plan.state.snapshot_id if plan.state else None
        return Position(self._until or self._source.place(), offsets, head)

    def _settle(self, keys: Sequence[Key]) -> Settled:
        """Judges keys repeatedly as long as they change."""
        self._of.say(f"{len(keys)} keys in doubt")
        wanted: list[RowRepair] = []
        left, doubtful = list(keys), 0
        omitted = self._source.statements.omitted
        for _ in range(self._options.looks):
            plan = self._of.plan(self._entry)
            before = self._looks(plan, left)
            with self._pace.step("wait for transactions"):
                position = highest_of(plan)
                why = self._of.waits.until_visible(self._entry, self._source, position)
            if why:
                return Settled(tuple(wanted), len(left), why)
            found = [self._source_rows(some) for some in _some(left)]
            with self._pace.step("wait for the lake"):
                why = self._of.waits.caught_up(self._entry, self._source, found[-1].until)
            if why:
                return Settled(tuple(wanted), len(left), why)
            after = self._looks(self._of.plan(self._entry), left)
            changing, doubtful = list[Key](), 0
            for some, was, rows, now in zip(_some(left), before, found, after, strict=True):
                judged = judge(some, was, rows, now, self._source.comparison, omitted)
                wanted += (RowRepair(each, position) for each in judged.differences)
                changing += judged.changing
                doubtful += judged.doubtful
            left = changing
            if not left:
                return Settled(tuple(wanted), 0, "")
            self._of.say(f"{len(left)} keys changed meanwhile: looking again")
        why = _DOUBTFUL if doubtful else _CHANGING
        return Settled(tuple(wanted), len(left), why, is_busy=not doubtful)

    def _source_rows(self, keys: Sequence[Key]) -> SourceKeyRows:
        begun = self._pace.clock()
        with self._pace.step("source: keys"):
            found = self._source.found(keys)
            self._until = found.until
        if self._pace.rows_per_second is not None:
            read = len(keys) if self._source.finds_keys else self._source.estimate()
            self._pace.rest(read, begun)
        return found

    def _looks(self, plan: BatchPlan, keys: Sequence[Key]) -> list[LakeKeyRows]:
        rows = self._putting.rows(plan)
        with self._pace.step("lake: keys"):
            return [rows.look(some) for some in _some(keys)]

    def _head(self) -> LakeRows:
        return self._putting.rows(self._of.plan(self._entry))

    # ── without a key ────────────────────────────────────────────────────────────────────

    def counted(self) -> ComparisonReport:
        """Compares counts and checksums of a keyless table.

        Equal at any moment is equal; different only if the lake had no publish meanwhile.
        """
        here, there, why = Sum(), Sum(), ""
        for _ in range(self._options.looks):
            plan = self._of.plan(self._entry)
            with self._pace.step("wait for transactions"):
                why = self._of.waits.until_visible(self._entry, self._source, "")
            with self._pace.step("source: checksums"):
                until, here = self._source.total()
                self._until = until
            with self._pace.step("lake: checksums"):
                there = self._putting.rows(plan).total()
            if here == there:
                return self._of_counts(plan, here)
            with self._pace.step("wait for the lake"):
                why = why or self._of.waits.caught_up(self._entry, self._source, until)
            if why:
                return self._of_counts(plan, here, not_judged=1, why=why)
            after = self._of.plan(self._entry)
            with self._pace.step("lake: checksums"):
                there = self._putting.rows(after).total()
            if here == there:
                return self._of_counts(after, here)
            if _offsets(plan) == _offsets(after):
                return self._of_counts(after, here, sums=(here, there))
            self._of.say("rows changed meanwhile: looking again")
        plan = self._of.plan(self._entry)
        return self._of_counts(plan, here, not_judged=1, why=_CHANGING)

    def _of_counts(
        self,
        plan: BatchPlan,
        here: Sum,
        *,
        sums: tuple[Sum, Sum] | None = None,
        not_judged: int = 0,
        why: str = "",
    ) -> ComparisonReport:
        return ComparisonReport(
            table=self._entry.table,
            key=(),
            rows=here.count,
            sums=sums,
            not_judged=max(here.count, 1) if not_judged else 0,
            why=why,
            left_out=self._source.comparison.left_out,
            seconds=self._pace.seconds,
            position=self._position(plan),
        )


def _replicator(attempts: Attempts) -> Replicator:
    """Returns a replicator that makes no table."""
    means = attempts.means
    return Replicator(
        means.config,
        attempts.session,
        clock=means.clock,
        connections=means.connections,
        require_existing=lambda _: None,
    )


def _some(keys: Sequence[Key]) -> list[Sequence[Key]]:
    return [keys[n : n + KEYS_AT_ONCE] for n in range(0, len(keys), KEYS_AT_ONCE)]


def _offsets(plan: BatchPlan) -> object:
    return (plan.published.offsets, generation_of(plan)) if plan.published else None
