"""The steps of one table's rebuild, in one process; see `cdc_assets.operations.rebuild`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Final

from pyspark.sql import functions as F

from cdc_assets.changes.names import LakeName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.changes.restarts import COMMIT_NUMBERS, Permit, Restarts, permitted
from cdc_assets.errors import TerminalError
from cdc_assets.formats.by_table import changes_of
from cdc_assets.formats.layout import Layout
from cdc_assets.lake import TableState
from cdc_assets.lake.at_source import AtSource
from cdc_assets.lake.properties import ADOPTED, accepted_restart
from cdc_assets.lake.side import side_of
from cdc_assets.merge.intake.planning import BEGIN, BEGIN_TOPIC, BEGIN_WHOLE, begin_of
from cdc_assets.merge.intake.read import read_ranges
from cdc_assets.merge.intake.unlogged_changes import look_at
from cdc_assets.merge.plan.result import BatchResult
from cdc_assets.merge.plan.table_steps import created_with, execute_steps
from cdc_assets.merge.replicate import Replicator
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.operations.rebuild.swap import swap
from cdc_assets.operations.rebuild.tables import (
    ID,
    SIGNAL,
    RebuildStanding,
    RebuildTables,
    awaits_snapshot,
    id_of,
    side_mark_of,
)
from cdc_assets.operations.session import TableSession
from cdc_assets.registry import TableEntry

_FIRST: Final = ("first", "first_in_data_collection")
_LAST: Final = ("last", "last_in_data_collection")
_MARKS: Final = tuple(
    f"$.{schema}{mark}" for mark in ("source.snapshot", "__source_snapshot")
    for schema in ("", "payload.")
)  # fmt: skip
"""Places of the mark in JSON, with and without schemas, whole events and flattened ones."""


def merged_to(
    replicator: Replicator, entry: TableEntry, end: OffsetVector, run_id: str
) -> Iterator[BatchResult]:
    """Merges the log up to an end, or to the first record that cannot be merged yet.

    Raises:
        CdcError: as for any table.
    """
    is_short = True
    while is_short:  # a table's turn ends after a while, and a long log takes many of them
        is_short = False
        for done in replicator.drain(
            entry, window=None, run_id=run_id, budget_seconds=float("inf"), until=end
        ):
            if isinstance(done, BatchResult):
                is_short = bool(done.end.ranges_to(end))
                yield done


class TableRebuild:
    """A rebuild of one table, in one process.

    The process remembers the id of the shadow table that it has begun with, and conflicts with any
    other one.

    Attributes:
        tables: the lake table and the shadow table.

    Args:
        session: the means, and the lake table.
    """

    def __init__(self, session: TableSession) -> None:
        self.tables = RebuildTables(session)
        self._session, self._entry = session, session.entry
        self._replicator = Replicator(
            session.config,
            session.spark,
            clock=session.clock,
            connections=session.connections,
            require_existing=self._require_begun,
        )
        self._begun: str | None = None

    # ── 1. begin ─────────────────────────────────────────────────────────────────────────

    def begin(self, standing: RebuildStanding, *, from_now: bool) -> OffsetVector | None:
        """Makes the shadow table, if there is none.

        Args:
            standing: the progress.
            from_now: read the log from its present end on, for a snapshot yet to be taken.

        Returns:
            The offsets from which on a snapshot is awaited; None if the log holds the whole table.

        Raises:
            TerminalError: if the rebuild has begun in another way, or the log lacks the table's
                beginning.
            ConflictError: if another process made the shadow table at the same moment.
        """
        of, entry = self.tables, self.tables.shadow_entry(standing.generation)
        shadow = standing.shadow
        has_place = shadow is not None and (shadow.published is not None or BEGIN in
                                            shadow.properties)  # fmt: skip
        if not (from_now or has_place):
            self._require_whole_log(standing.old)
        if from_now and shadow is not None and not awaits_snapshot(shadow):
            option = "--from-snapshot"
            raise of.begun_from_log(option)
        place = {ID: str(uuid.uuid4()), **self._beginning(standing.old, from_now=from_now)}
        steps = created_with(of.planner.tables(entry).plan(shadow).steps, place)
        execute_steps(of.spark(), of.catalog, entry, steps)
        state = of.shadow(standing.generation)
        if state is None or id_of(state) != (id_of(shadow) if shadow else place[ID]):
            raise of.moved()
        self._begun = id_of(state)
        if awaits_snapshot(state):
            return begin_of(state)
        self._permit_restarts(standing.old, state)
        return None

    def _require_whole_log(self, old: TableState) -> None:
        """Requires a log that has changes of all rows, as far as that is known.

        Raises:
            TerminalError: if the rows of the table's beginning came from elsewhere.
        """
        late, published = "", old.published
        source = self._session.config.source(self._entry.table.source)
        if source.reads_first(self._entry.table) and (
            published is None  # it lost its publishes, and nothing tells how it began
            or (
                published.carried.read_at
                and published.topic_id == self.tables.planner.identity(self._entry).topic_id
            )
        ):
            late = "its first rows were read from the source (initial: read)"
        if ADOPTED in old.properties:
            late = "the table of another tool was adopted"
        if self._entry.renamed is not None:
            late = "it was renamed at its source"
        if late:
            what = f"its topic holds only what came since {late}"
            remedy = source.rebuild_command(self._entry.table)
            raise TerminalError(what, where=self.tables.where, remedy=remedy)

    def _permit_restarts(self, old: TableState, shadow: TableState) -> None:
        """Has the shadow table accept the restarts of its source that the lake table accepts."""
        planner, name = self.tables.planner, accepted_restart(self._entry.shard_value)
        scheme, before = Layout.of(old.properties).scheme, old.published
        if before is None or before.topic_id != planner.identity(self._entry).topic_id:
            return
        if scheme not in COMMIT_NUMBERS:
            return
        start = begin_of(shadow) or planner.marks(self._entry).begin
        permits = Permit.all_from_json(old.properties.get(name, ""))
        known = Restarts.from_json(before.carried.numbering)
        known = permitted(known, permits, before.carried.generation)
        known = known.met_from(start.as_dict(), scheme)
        said = Permit.all_to_json(Permit(n, each) for n, each in enumerate(known, 1))
        if said and said != shadow.properties.get(name):
            target = self.tables.shadow_entry(before.carried.generation + 1).target
            statement = sql.set_properties(self.tables.catalog, target, {name: said})
            self.tables.execute(statement, "accept restarts", "spark: accept restarts")

    def continue_with(self, shadow: TableState) -> None:
        """Remembers the shadow table that this process has read from the source."""
        self._begun = id_of(shadow)

    def own_beginning(self, old: TableState) -> OffsetVector | None:
        """Returns the beginning of the table's log, if its topic holds other changes before it.

        A table that began behind another one of its name, or with a new snapshot, begins there
        again. Returns None if the table has all of its topic.
        """
        before, planner = old.published, self.tables.planner
        if before is None or before.topic_id != planner.identity(self._entry).topic_id:
            return None
        log_begin = planner.marks(self._entry).begin
        behind = before.carried.begun_behind(log_begin)
        source = self._session.config.source(self._entry.table.source)
        return behind.merged_max(log_begin) if behind and source.lost_start == "accept" else behind

    def _beginning(self, old: TableState, *, from_now: bool) -> dict[str, str]:
        """Returns the properties of a shadow table's beginning; none for the log's beginning."""
        planner, shard = self.tables.planner, self._entry.shard_value
        topic = planner.identity(self._entry).topic_id
        if from_now:
            look = look_at(self._session.config.source(self._entry.table.source), self._entry)
            begun = AtSource(silent=AtSource.of(old, shard).silent).for_reading(look, shard)
            end = planner.marks(self._entry).end
            return {BEGIN: end.to_json(), BEGIN_TOPIC: topic, **begun}
        behind = self.own_beginning(old)
        if behind is None:
            return {}
        return {BEGIN: behind.to_json(), BEGIN_TOPIC: topic, BEGIN_WHOLE: "true"}

    # ── a snapshot that is awaited ───────────────────────────────────────────────────────

    def signal(self, standing: RebuildStanding) -> str:
        """Returns the signal's note on the shadow table; empty if there is none."""
        shadow = self.tables.shadow(standing.generation)
        return shadow.properties.get(SIGNAL, "") if shadow else ""

    def store_signal(self, standing: RebuildStanding, note: str) -> None:
        """Stores the signal's note on the shadow table; empty to remove the note."""
        name = self.tables.shadow_entry(standing.generation).target
        statement = sql.set_properties(self.tables.catalog, name, {SIGNAL: note})
        self.tables.execute(statement, "store the signal's note", "spark: keep signal")

    def has_snapshot(self, standing: RebuildStanding, begin: OffsetVector) -> bool:
        """Returns whether the merged records include a snapshot of the whole table.

        The snapshot begins there, too: one that was under way before has sent rows from before. A
        connector sends in order, so that its last record after the first of any is of a snapshot
        that has begun there. Incremental snapshots mark no record as their last, and marks in Avro,
        and in flattened records without ``source.snapshot``, are not seen.
        """
        of, shadow = self.tables, self.tables.shadow(standing.generation)
        if shadow is None or shadow.published is None:
            return False
        ranges = begin.ranges_to(shadow.published.offsets)
        if not ranges:
            return False
        options = self._session.config.kafka.spark_options()
        raw = read_ranges(of.spark(), self._entry.topic, ranges, options)
        layout, fmt = Layout.of(shadow.properties), of.planner.format(self._entry)
        raw = changes_of(raw, fmt, layout, self._entry)
        text = F.col("value").cast("string")
        mark = F.coalesce(*(F.get_json_object(text, path) for path in _MARKS))
        sent = F.col("timestamp")
        begun, ended = (F.when(mark.isin(*each), sent) for each in (_FIRST, _LAST))
        with translated("look for a snapshot", of.where):
            return raw.agg(F.max(ended) >= F.min(begun)).collect()[0][0] is True

    # ── 2. fill ──────────────────────────────────────────────────────────────────────────

    def fill(self, standing: RebuildStanding) -> Iterator[BatchResult]:
        """Merges the log up to its present end into the shadow table.

        Records that come meanwhile are left to the next call: a busy table always has some.

        Raises:
            ConflictError: if another process has dropped the shadow table, or made another one.
            CdcError: as for any table.
        """
        self._require_begun(self.tables.shadow(standing.generation))
        end = self.tables.planner.marks(self._entry).end
        entry = self.tables.shadow_entry(standing.generation)
        return merged_to(self._replicator, entry, end, self._session.host.run_id)

    def _require_begun(self, shadow: TableState | None) -> None:
        self.tables.require_same(shadow, self._begun)

    # ── 3. swap ──────────────────────────────────────────────────────────────────────────

    def swap(self, standing: RebuildStanding, settled: int = 0) -> bool:
        """Swaps the shadow table in; see `swap.swap`."""
        return swap(self.tables, standing, self._begun, settled)

    # ── 4. tidy, or end otherwise ────────────────────────────────────────────────────────

    def tidy(self) -> None:
        """Drops the shadow table that was swapped in.

        The swap has published its knowledge of the source's table. An older version's swap has not:
        then the lake table gets it here, unless others have published since.
        """
        of, shard = self.tables, self._entry.shard_value
        standing = of.standing()
        if not standing.swapped:
            return
        done = standing.generation - 1
        published = standing.old.published
        is_newest = published is not None and published.kind == PublishKind.REBUILD
        if is_newest and not AtSource.of(standing.old, shard).since:
            known = AtSource.of(of.shadow(done), shard).to_properties(shard)
            statement = sql.set_properties(of.catalog, self._entry.target, known)
            of.execute(statement, "remember the source's table", "spark: remember")
        self._drop(of.shadow_entry(done).target)

    def abandon(self) -> bool:
        """Drops the shadow table of a rebuild that was not swapped in, and its side table.

        The side table goes first, and goes even if it is the only one left: the next rebuild
        would take it for its own, with its memory of another log.

        Returns:
            Whether there was any of them.
        """
        standing = self.tables.standing()
        entry = self.tables.shadow_entry(standing.generation)
        side = side_of(entry.stem, side_mark_of(standing.shadow))
        has_side = self._session.lake.side(side) is not None
        if has_side:
            self._drop(side)
        if standing.shadow is not None:
            self._drop(entry.target)
        return has_side or standing.shadow is not None

    def forget(self) -> tuple[str, ...]:
        """Drops the tags of snapshots that earlier rebuilds have replaced; returns their names."""
        tags = tuple(self.tables.tags().values())
        for tag in tags:
            statement = sql.drop_tag(self.tables.catalog, self._entry.target, tag)
            self.tables.execute(statement, "drop tag", "spark: drop tag")
        return tags

    def _drop(self, name: LakeName) -> None:
        statement = sql.drop_table(self.tables.catalog, name)
        self.tables.execute(statement, "drop the shadow table", "spark: drop table")
