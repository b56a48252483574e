"""Carries out the steps by which a table of another tool becomes a table's lake table.

Each step looks at what is there; the state between them is in the table itself:

1. *Note.* The property `ADOPTED` names the table by which it was found. From now on whoever merges
   refuses the table.
2. *Rename* the table to the target that the configuration gives it, unless it has that name.
3. *Change.* The format version is raised, equality deletes are applied by rewriting the files that
   they concern, and columns are added, widened, and allowed to be NULL.
4. *Begin.* The table gets the properties of our tables, and a publish without rows. Its offsets
   *B* are up to an hour before the log's end, and its state says that rows are being read. Rows
   without a position stand below every change.
5. *Compare*, once all transactions are over that were open at 4. A range of keys whose checksum
   equals the source's stays; in the others the source's rows are put in the place of those that
   differ, below every change, too (`comparing`). Nobody merges meanwhile, and a snapshot of any
   other writer ends the adoption.
6. *Note E*: the topic's end, once the connector has delivered everything that was read.
7. *Merge* the log from *B* on. From *E* on the table is equal to its source.
8. *End*: doubts about large values are settled as in a rebuild, and one more publish says that the
   table is like any other, of another generation: no rewind leads behind it.

Steps 4 to 8 are those of `cdc_assets.operations.rebuild.shadow_rows`, which has their proof: a row
that was compared and found equal is a row that was read.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.effects import effect
from cdc_assets.errors import (
    ConflictError,
    TerminalError,
    TransientError,
    UnreachableError,
)
from cdc_assets.lake import Published, TableState
from cdc_assets.lake.at_source import AtSource
from cdc_assets.lake.properties import ADOPTED
from cdc_assets.lake.shadow_progress import ShadowProgress
from cdc_assets.merge.intake.unlogged_changes import look_at
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.plan.result import BatchResult
from cdc_assets.merge.plan.table_steps import CreateNamespace, execute_steps
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.verifying.pace import Pace
from cdc_assets.operations.adopt.comparing import Part, TableComparison
from cdc_assets.operations.adopt.existing import AdoptionStanding, ExistingTable, require_fitting
from cdc_assets.operations.rebuild.beginning import first_publish
from cdc_assets.operations.rebuild.shadow_table import publish_read
from cdc_assets.operations.rebuild.table_rebuild import merged_to
from cdc_assets.operations.resnapshot.comparing import KeyState
from cdc_assets.operations.session import TableSession

_TRIES: Final = 5
"""Times that a compaction may come first."""
_AGAIN: Final = "run the same command again: it continues where it was"
_ALL_DELETES: Final = {
    "delete-file-threshold": 1, "remove-dangling-deletes": "true", "min-input-files": 1_000_000,
}  # fmt: skip
"""Options by which a compaction rewrites all files that have deletes, and no others."""


class TableAdoption:
    """An adoption of one table, in one process.

    Args:
        session: the means, and the table.
        existing: the other tool's table.
    """

    def __init__(self, session: TableSession, existing: ExistingTable) -> None:
        self._session, self._entry, self._where = session, session.entry, session.where
        self._existing, self._planner = existing, session.planner
        self._source = session.config.source(session.entry.table.source)
        self._lakes = existing.verification.lakes
        self._head: int | None = None
        self._has_begun, self._begin = False, OffsetVector()

    # ── 1. to 3. ─────────────────────────────────────────────────────────────────────────

    def note(self, standing: AdoptionStanding) -> None:
        """Does step 1; remembers the head, by which other writers are noticed.

        If another writer has added a snapshot since step 4, that step is to be done again.
        """
        self._head, progress = standing.state.snapshot_id, standing.progress
        is_merging = progress is not None and progress.until is not None
        self._has_begun = is_merging or (progress is not None and self._is_ours())
        if self._has_begun:
            self._begin = self._beginning(standing.state)
        if not standing.is_noted:
            said = {ADOPTED: str(self._existing.named)}
            statement = sql.set_properties(self._lakes.catalog, standing.name, said)
            self._execute(statement, "note the adoption")

    def rename(self, standing: AdoptionStanding) -> bool:
        """Does step 2; returns whether there was something to do."""
        target = self._entry.target
        if standing.name == target:
            return False
        spark, catalog = self._lakes.spark(), self._lakes.catalog
        execute_steps(spark, catalog, self._entry, [CreateNamespace()])
        try:
            otherwise = f"choose a target of this name in the configuration: {standing.name}"
            self._session.lake.rename(standing.name, target, otherwise)
        except UnreachableError:
            if self._existing.standing().name != target:
                raise
        return True

    def change(self) -> Iterator[str]:
        """Does step 3, if step 4 is to be done; yields what was done.

        Raises:
            TerminalError: if the table no longer fits, or deletes could not be applied.
            ConflictError: if another writer came first.
        """
        if self._has_begun:
            return
        self.require_alone()
        standing = self._existing.standing()
        fit = self._existing.fit(standing)
        require_fitting(fit, self._where)
        catalog, name, wanted = self._lakes.catalog, standing.name, fit.properties["format-version"]
        if str(standing.state.format_version) != wanted:
            statement = sql.set_properties(catalog, name, {"format-version": wanted})
            self._execute(statement, "raise the format version")
            yield f"format version {wanted}"
        if count := self._existing.equality_deletes(name):
            self._execute(sql.compact(catalog, name, _ALL_DELETES), "apply equality deletes")
            if left := self._existing.equality_deletes(name):
                what = f"{left} files with equality deletes are left after a rewrite"
                remedy = "rewrite the table by INSERT OVERWRITE, and run the same command again"
                raise TerminalError(what, where=self._where, remedy=remedy)
            yield f"{count} files with equality deletes applied"
        for each in fit.changes:
            self._execute(each.statement, "change the table")
            yield each.words
        self.require_alone()
        if self._existing.is_soft:
            self._execute(sql.mark_living(catalog, name), "mark the rows as not deleted")
            self._head = self._state().snapshot_id

    # ── 4. begin ─────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """Does step 4, if it is to be done.

        Raises:
            ConflictError: if another writer came first.
        """
        if self._has_begun:
            return
        standing = self._existing.standing()
        session, entry, fit = self._session, self._entry, self._existing.fit(standing)
        look = look_at(self._source, entry)
        known = AtSource.of(standing.state, entry.shard_value).for_reading(look, entry.shard_value)
        said = {**fit.properties, **known}
        statement = sql.set_properties(self._lakes.catalog, entry.target, said)
        self._execute(statement, "give the table our properties")
        table = self._planner.tables(entry).plan(self._state())
        execute_steps(self._lakes.spark(), self._lakes.catalog, entry, table.steps)
        state = self._state()
        old = replace(state, published=None)
        begun = first_publish(self._planner, entry, old, table.first, session)
        self._published(state, begun)
        self._has_begun, self._begin = True, begun.offsets

    # ── 5. and 6. ────────────────────────────────────────────────────────────────────────

    def compare(self) -> Iterator[str]:
        """Does steps 5 and 6; yields what was put.

        Raises:
            TransientError: if a transaction or a delivery that is awaited did not come.
            TerminalError: if another writer adds a snapshot.
            CdcError: as for any batch.
        """
        state, total = self._require_begun(), Counter[KeyState]()
        progress, verification = self._progress(state), self._existing.verification
        waits = verification.waits
        if progress.until is not None:
            return
        columns = self._planner.tables(self._entry).plan(state).first.schema
        with self._existing.opened(columns) as source:
            self._require(waits.until_visible(self._entry, source, ""))
            position = self._published_of(state).carried.read_at
            putting = verification.putting(self._entry, source.comparison, PublishKind.READ)
            say = self._session.say
            work = TableComparison(self._session, putting, source, position, self._plan, say)
            pace = Pace(self._source.resnapshot.rows_per_second)
            for number, parts in enumerate(work.waves(), 1):
                began = pace.clock()
                found = self._put(work, parts)
                total += found
                pace.rest(found.total(), began)
                put, gone = total[KeyState.PUT], total[KeyState.VANISHED]
                yield f"wave {number}: {put:,} rows put, {gone:,} rows gone so far"
            place = source.place()
            yield f"waits until everything up to {place} is delivered"
            self._require(waits.until_delivered(self._entry, source, place))
        rows = total[KeyState.PUT] + total[KeyState.VANISHED]
        end = self._planner.marks(self._entry).end
        self._progressed(rows, end)

    # ── 7. and 8. ────────────────────────────────────────────────────────────────────────

    def merge(self) -> Iterator[BatchResult]:
        """Does step 7: merges the log up to its present end.

        Raises:
            CdcError: as for any table.
        """
        session, end = self._session, self._planner.marks(self._entry).end
        return merged_to(session.replicator, self._entry, end, session.host.run_id)

    @property
    def doubts(self) -> int:
        """The number of changes that left values out, which the log alone does not prove."""
        return self._progress(self._require_begun()).doubts

    def settle_doubts(self, before: int) -> int:
        """Settles doubts by comparing the table with its source; returns their number.

        Args:
            before: the number of doubts settled before; nothing is compared without more of them.

        Raises:
            TransientError: if the table is not equal to its source then.
        """
        doubts = self.doubts
        if doubts > before:
            self._session.say(f"{doubts} doubts: comparing with the source first")
            report = self._existing.verification.of(self._entry, repair=True)
            words = "; ".join(report.words(keys=False))
            self._require("" if report.is_proven else f"not equal to its source yet: {words}")
        return doubts

    def end(self, settled: int) -> int | None:
        """Does step 8; returns the number of rows that were put, None if it was not possible yet.

        Args:
            settled: the number of doubts that are settled.

        Raises:
            ConflictError: if another writer came first.
        """
        state = self._require_begun()
        before, progress = self._published_of(state), self._progress(state)
        if progress.until is None or before.offsets.ranges_to(progress.until):
            return None
        if progress.doubts != settled:
            return None
        generation = before.carried.generation + 1
        carried = replace(before.carried, shadow=None, generation=generation)
        self._published(state, replace(before, start=before.offsets, carried=carried))
        return progress.rows

    # ── other writers ────────────────────────────────────────────────────────────────────

    def require_alone(self) -> None:
        """Requires that no other writer has added a snapshot.

        Raises:
            TerminalError: if one has.
        """
        past = self._session.lake.past(self._entry.target)
        if past is None:
            is_alone = self._head is None
        else:
            is_alone = self._is_ours() if self._has_begun else past.is_at(self._head or 0)
        if not is_alone:
            what = "another writer added a snapshot to the table while it was adopted"
            remedy = "stop the other tool, and run the same command again"
            raise TerminalError(what, where=self._where, remedy=remedy)

    def _is_ours(self) -> bool:
        """Whether the head has the rows of one of our publishes; a compaction changes none."""
        past = self._session.lake.past(self._entry.target)
        return past is not None and past.publish_at(past.head) is not None

    # ── parts ────────────────────────────────────────────────────────────────────────────

    def _put(self, work: TableComparison, parts: Sequence[Part]) -> Counter[KeyState]:
        """Puts a wave; does it again if a compaction came first."""
        for tries in range(1, _TRIES + 1):
            try:
                return work.put(parts)
            except ConflictError:
                self.require_alone()
                if tries == _TRIES:
                    raise
        raise self._existing.moved()

    def _plan(self) -> BatchPlan:
        """Returns a plan on the present head, for the publish of a wave."""
        state = self._require_frozen()
        published = replace(self._published_of(state), attempt=str(uuid.uuid4()))
        plan = self._planner.swap(self._entry, state, published)
        return replace(plan, soft=self._existing.is_soft)

    def _progressed(self, rows: int, until: OffsetVector) -> None:
        """Publishes that the rows are read, and the topic's end."""
        for _ in range(_TRIES):
            state = self._require_frozen()
            before = self._published_of(state)
            progress = replace(self._progress(state), rows=rows, is_read=True, until=until)
            carried = replace(before.carried, shadow=progress)
            try:
                return self._published(state, replace(before, carried=carried))
            except ConflictError:
                self.require_alone()
        raise self._existing.moved()

    def _published(self, state: TableState, record: Published) -> None:
        session = self._session
        record = replace(
            record,
            attempt=str(uuid.uuid4()),
            run=session.host.run_id,
            kind=PublishKind.READ,
            published_at=session.clock(),
            counts={"records": 0, "quarantined": record.counts.get("quarantined", 0)},
        )
        publish_read(self._lakes, self._entry, state, record, None)

    def _require_begun(self) -> TableState:
        """Returns the table during steps 5 to 8.

        Raises:
            TerminalError: if another writer has added a snapshot while rows are compared.
            ConflictError: if another process has ended the adoption, or begun it again: what was
                compared before may be older than its beginning.
        """
        standing = self._existing.standing()
        if standing.progress is None or self._beginning(standing.state) != self._begin:
            raise self._existing.moved()
        if standing.progress.until is None:
            self.require_alone()
        return standing.state

    def _require_frozen(self) -> TableState:
        """Returns the table during step 5.

        Raises:
            ConflictError: as `_require_begun`; or if another process has done step 6 already.
        """
        state = self._require_begun()
        if self._progress(state).until is not None:
            raise self._existing.moved()
        return state

    def _beginning(self, state: TableState) -> OffsetVector | None:
        return self._published_of(state).carried.read_from

    def _progress(self, state: TableState) -> ShadowProgress:
        progress = self._published_of(state).carried.shadow
        if progress is None:
            raise self._existing.moved()
        return progress

    def _published_of(self, state: TableState) -> Published:
        if state.published is None:
            raise self._existing.moved()
        return state.published

    def _state(self) -> TableState:
        return self._existing.standing().state

    def _execute(self, statement: str, step: str) -> None:
        with translated(step, self._where), effect(f"spark: {step}"):
            self._lakes.spark().sql(statement)

    def _require(self, why: str) -> None:
        if why:
            raise TransientError(why, where=self._where, remedy=_AGAIN)
