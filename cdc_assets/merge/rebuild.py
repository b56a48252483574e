"""Builds a lake table anew beside the old one, and swaps it in at once.

1. `begin` makes an empty table beside: ``<name>__rebuild<generation>``. In the same commit it
   records where its first batch starts, if the log no longer holds its beginning, or held another
   table before it.
   Or its rows are read from the source first (`cdc_assets.merge.resnapshot.beside`).
2. `fill` merges the log into it, by the same batches as any table. The old one goes on being
   replicated, if it can be.
3. `swap` tags the old table's head, and puts the rows and the offsets of the new one in its
   place in one commit: readers see the old rows, or the new ones. From there on the table goes
   on with the offsets, and with the side table, that it was built with.
4. `tidy` drops the table beside. The tag stays, and with it the old rows, until `forget`.

Each step looks at what is there, so that all of them can be interrupted and done again. The
number of rebuilds is published with the rows: it tells a rebuild that was swapped in from one
that is still being filled. Of two processes at one table, one conflicts: the table beside has an
id, and neither fills nor swaps in another one than it has begun with.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.names import LakeName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import effect
from cdc_assets.errors import ConflictError, TerminalError, TransientError
from cdc_assets.lake import Published, TableState
from cdc_assets.lake.at_source import AT_SOURCE, AtSource
from cdc_assets.lake.carried import SideMark
from cdc_assets.lake.columns import COLUMN, DROPPED, LEFT_OUT
from cdc_assets.lake.properties import MODE
from cdc_assets.lake.quarantined import QuarantineLake
from cdc_assets.lake.side import side_of
from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.apply.publish import Publisher
from cdc_assets.merge.attempt import Attempts, Connections
from cdc_assets.merge.intake.layouts import execute_steps
from cdc_assets.merge.intake.planning import BEGIN, BEGIN_TOPIC, BEGIN_WHOLE, begin_of
from cdc_assets.merge.intake.read import read_ranges
from cdc_assets.merge.plan.plan import OWN_BRANCH
from cdc_assets.merge.plan.result import BatchResult
from cdc_assets.merge.plan.table_steps import created_with
from cdc_assets.merge.replicate import Replicator, utc_now
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.statements.writing import snapshot_writer
from cdc_assets.registry import TableEntry

KEPT: Final = "before_rebuild_"
"""Start of the names of tags on what a rebuild has replaced."""

_OURS: Final = "cdc-assets."
_SIGNAL: Final = "cdc-assets.rebuild-signal"
"""Property of the table beside: the note about the snapshot that it waits for, or empty."""

READ_BESIDE: Final = "cdc-assets.rebuild-reads"
"""Property of the table beside: its rows are read from the source."""

_ID: Final = "cdc-assets.rebuild-id"
"""Property of the table beside: tells it from another one that was made in its place."""

_OF_REBUILD: Final = frozenset({BEGIN, BEGIN_TOPIC, BEGIN_WHOLE, READ_BESIDE, _ID, _SIGNAL})
"""Properties of the table beside that nobody needs once it has taken the old one's place."""

_FIRST: Final = ("first", "first_in_data_collection")
_LAST: Final = ("last", "last_in_data_collection")
_ENOUGH: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Standing:
    """The progress of a rebuild.

    Attributes:
        old: the table as readers see it.
        generation: of the rebuild: one more than that of the old table.
        beside: the table that is being filled; None before `begin`.
        swapped: whether a rebuild was swapped in and only not tidied up.
    """

    old: TableState
    generation: int
    beside: TableState | None
    swapped: bool


class Rebuild:
    """Builds one table anew.

    Attributes:
        entry: the table.
        run_id: recorded with each publish.

    Args:
        config: the configuration.
        spark: gives the session.
        entry: the table.
        run_id: recorded with each publish.
        clock: wall clock.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        spark: Callable[[], SparkSession],
        entry: TableEntry,
        run_id: str,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._config = config
        self._catalog = config.lake.catalog.name
        self.entry = self._entry = entry
        self.run_id = self._run_id = run_id
        self._clock = clock
        connections = Connections.of(config)
        self._lake, self._log = connections.lake, connections.log
        self._attempts = Attempts(config, connections, spark, clock)
        replicator = Replicator(config, spark, clock=clock, connections=connections)
        self._replicator = replicator.only_existing()
        self._quarantine = QuarantineLake(config)
        self._begun: str | None = None

    def standing(self) -> Standing:
        """Looks how far it has come; changes nothing.

        Raises:
            TerminalError: if there is nothing that could be built anew.
        """
        old = self._state(self._entry)
        if old is None or not (old.published or old.is_lost):
            what = "there is nothing to build anew: the table was not replicated yet"
            raise TerminalError(what, where=self._where, remedy="materialize it")
        done = old.published.carried.generation if old.published else 0
        beside = self._state(self.entry_beside(done + 1))
        swapped = done > 0 and self._state(self.entry_beside(done)) is not None
        return Standing(old, done + 1, beside, swapped)

    def require_possible(self, standing: Standing) -> None:
        """Requires that a table of the wanted mode can take the old one's place.

        Iceberg deletes no rows of a table that was once partitioned by a column that is gone.

        Raises:
            TerminalError: if it cannot, or what was built is of another topic.
            TransientError: if the table has another topic by now.
        """
        self._require_own_topic(standing.old, standing.beside)
        mode = self._config.source(self._entry.table.source).mode_of(self._entry.table)
        if standing.old.properties.get(MODE) != Mode.HISTORY or mode is Mode.HISTORY:
            return
        what = f"the table is a history, in whose place no {mode} can be put"
        remedy = "have it dropped and merged again: cdc-assets reset"
        raise TerminalError(what, where=self._where, remedy=remedy)

    # ── 1. begin ─────────────────────────────────────────────────────────────────────────

    def begin(self, standing: Standing, *, from_now: bool) -> OffsetVector | None:
        """Makes the table beside, if it is not there.

        Args:
            standing: of now.
            from_now: read the log from its present end on, for a snapshot yet to be taken.

        Returns:
            Where a snapshot is waited for; None if the log holds the whole table.

        Raises:
            TerminalError: if another way was begun than is wanted, or the log lacks the table's
                beginning.
            ConflictError: if it was made by another process at the same moment.
        """
        entry = self.entry_beside(standing.generation)
        begins = from_now or (standing.beside is not None and _has_place(standing.beside))
        if self._entry.renamed is not None and not begins:
            what = "its topic holds only what came since it was renamed at its source"
            remedy = self._config.source(entry.table.source).built_anew_by(entry.table)
            raise TerminalError(what, where=self._where, remedy=remedy)
        if from_now and standing.beside is not None and not _awaits_snapshot(standing.beside):
            option = "--from-snapshot"
            raise self.begun_from_log(option)
        place = {_ID: str(uuid.uuid4()), **self._beginning(standing.old, from_now=from_now)}
        tables = self._attempts.planner.tables(entry)
        steps = created_with(tables.plan(standing.beside).steps, place)
        execute_steps(self._spark(), self._catalog, entry, steps)
        state = self._state(entry)
        if state is None or _id(state) != (_id(standing.beside) if standing.beside else place[_ID]):
            raise self._moved()
        self._begun = _id(state)
        return begin_of(state) if _awaits_snapshot(state) else None

    def _beginning(self, old: TableState, *, from_now: bool) -> dict[str, str]:
        """Returns properties that say where a new table begins; none for the log's beginning."""
        planner = self._attempts.planner
        topic = planner.identity(self._entry).topic_id
        if from_now:
            return {BEGIN: planner.marks(self._entry).end.to_json(), BEGIN_TOPIC: topic}
        began = self.began(old)
        if began is None:
            return {}
        return {BEGIN: began.to_json(), BEGIN_TOPIC: topic, BEGIN_WHOLE: "true"}

    def began(self, old: TableState) -> OffsetVector | None:
        """Returns where its log begins, if its topic holds other changes before; else None.

        A table that began behind another one of its name, or with a new snapshot, begins there
        again.
        """
        planner, before = self._attempts.planner, old.published
        if before is None or before.topic_id != planner.identity(self._entry).topic_id:
            return None
        begin = planner.marks(self._entry).begin
        began = before.carried.begun_behind(begin)
        if began and self._config.source(self._entry.table.source).lost_start == "accept":
            return began.merged_max(begin)
        return began

    def signal(self, standing: Standing) -> str:
        """Returns what `keep_signal` has kept; empty if nothing is."""
        state = self._state(self.entry_beside(standing.generation))
        return state.properties.get(_SIGNAL, "") if state else ""

    def keep_signal(self, standing: Standing, note: str) -> None:
        """Keeps a note with the table beside, so that it goes with it; empty to forget it."""
        name = self.beside(standing.generation)
        with translated("keep what was asked for", self._where), effect("spark: keep signal"):
            self._spark().sql(sql.set_properties(self._catalog, name, {_SIGNAL: note}))

    # ── 2. fill ──────────────────────────────────────────────────────────────────────────

    def fill(self, standing: Standing) -> Iterator[BatchResult]:
        """Merges what the log holds now into the table beside.

        What comes meanwhile is left to the next call: of a busy table something always does.

        Raises:
            ConflictError: if another process has dropped it, or made it anew.
            CdcError: as for any table.
        """
        entry, goes_on = self.entry_beside(standing.generation), True
        self._require_begun(self._state(entry))
        end = self._attempts.planner.marks(self._entry).end
        while goes_on:  # a table's turn ends after a while, and a long log takes many of them
            goes_on = False
            for done in self._replicator.drain(
                entry, window=None, run_id=self._run_id, budget_seconds=_ENOUGH, until=end
            ):
                if isinstance(done, BatchResult):
                    goes_on = bool(done.end.ranges_to(end))
                    yield done

    def has_begun_otherwise(self, standing: Standing) -> bool:
        """Returns whether the table beside is filled from the log, and not read from its source."""
        beside = standing.beside
        if beside is None:
            return False
        published = beside.published
        return published.carried.beside is None if published else not _is_read(beside)

    def begun_from_log(self, option: str) -> TerminalError:
        """Returns the error for an option that asks for another way than was begun."""
        what = "building it anew has begun from its log"
        again = f"cdc-assets rebuild {self._entry.table} --abandon"
        remedy = f"go on without {option}, or: {again}"
        return TerminalError(what, where=self._where, remedy=remedy)

    def has_snapshot(self, standing: Standing, begin: OffsetVector) -> bool:
        """Returns whether a snapshot of the whole table lies in what was read.

        It begins there, too: one that was under way before has sent rows that lie before. A
        connector sends in order, so that its last record after the first of any is of a snapshot
        that has begun there. Incremental snapshots have no record that says that it is their last.
        """
        beside = self._state(self.entry_beside(standing.generation))
        if beside is None or beside.published is None:
            return False
        ranges = begin.ranges_to(beside.published.offsets)
        if not ranges:
            return False
        options = self._config.kafka.spark_options()
        raw = read_ranges(self._spark(), self._entry.topic, ranges, options)
        text = F.col("value").cast("string")
        paths = ("$.source.snapshot", "$.payload.source.snapshot")
        said = F.coalesce(*(F.get_json_object(text, path) for path in paths))
        sent = F.col("timestamp")
        begun, ended = (F.when(said.isin(*each), sent) for each in (_FIRST, _LAST))
        with translated("look for a snapshot", self._where):
            return raw.agg(F.max(ended) >= F.min(begun)).collect()[0][0] is True

    # ── 3. swap ──────────────────────────────────────────────────────────────────────────

    def swap(self, standing: Standing, settled: int = 0) -> bool:
        """Puts the new rows in the old one's place.

        Args:
            standing: of now.
            settled: so many doubts of a table that was read from its source are none any more.

        Returns:
            False if the old table is ahead, or some of what was read may be, or is in doubt: then
            the new one has to be filled further.

        Raises:
            ConflictError: if another writer published on the old table meanwhile, or swapped in a
                rebuild of its own.
            TerminalError: if a run has found meanwhile that the table is called otherwise.
        """
        entry = self.entry_beside(standing.generation)
        old, new = self._state(self._entry), self._state(entry)
        if old is None or new is None or _generation(old) != standing.generation - 1:
            raise self._moved()
        self._require_begun(new)
        self._require_own_topic(old, new)
        if new.published is None or _is_ahead(old.published, new.published):
            return False
        if not _is_settled(new.published, settled):
            return False
        attempt = str(uuid.uuid4())
        published = self._published(old.published, new.published, standing.generation, attempt)
        rows = self._spark().table(sql.table(self._catalog, entry.target))
        if self._entry.shard is not None:
            old = self._with_room(old, new)
            rows = _as_in(self._spark().table(sql.table(self._catalog, old.name)), rows)
        self._keep(old, standing.generation)
        if self._entry.shard is not None or _fit(old, new):
            self._overwrite(old, rows, published)
        else:
            self._replace(old, new, rows, published)
        return True

    def _require_begun(self, beside: TableState | None) -> None:
        """Requires the table that was begun with, by a process that has begun it.

        Raises:
            ConflictError: if another process has dropped it, or made it anew.
        """
        if beside is None or (self._begun is not None and _id(beside) != self._begun):
            raise self._moved()

    def _require_own_topic(self, old: TableState, new: TableState | None) -> None:
        """Requires the topic of a table that may be found to be renamed while it is built anew.

        What a former topic's end comes to is no more than what the present one began with.

        Raises:
            TerminalError: if the new table was filled from another topic than the old one's.
            TransientError: if there is nothing new yet, and the old one has another topic by now.
        """
        topic = _topic(old) or self._entry.topic
        renamed = AtSource.of(old, self._entry.shard_value).renamed_to(topic)
        if renamed is None:
            return
        what = f"a run has found it renamed at its source, and gone on with it as {renamed.name}"
        if (_topic(new) or topic) != topic:
            what = f"{what}: what was built so far is of the topic before"
            again = f"cdc-assets rebuild {self._entry.table} --abandon"
            raise TerminalError(what, where=self._where, remedy=f"begin again, after: {again}")
        if self._entry.topic != topic:
            raise TransientError(what, where=self._where, remedy="run the same command again")

    def _published(
        self, old: Published | None, new: Published, generation: int, attempt: str
    ) -> Published:
        """Returns the swap's record; ``old`` is None if it was lost with its snapshots."""
        mark = new.carried.side or SideMark()
        table = self._entry.table
        _, quarantined = self._quarantine.quarantined(table.source, table.qualified, 0)
        side = SideMark(mark.snapshot, str(side_of(self.entry_beside(generation).stem, mark)))
        return replace(
            new,
            start=old.offsets if old else new.offsets,
            attempt=attempt,
            run=self._run_id,
            kind=PublishKind.REBUILD,
            published_at=self._clock(),
            carried=replace(new.carried, side=side, generation=generation, beside=None),
            counts={**new.counts, "quarantined": quarantined},
            slo=old.slo if old else new.slo,
            others=old.others if old else {},
        )

    def _with_room(self, old: TableState, new: TableState) -> TableState:
        """Returns the table of all shards with the columns of one that was built anew.

        Raises:
            TerminalError: if it cannot have them: the rows of the other shards stay as they are.
            ConflictError: if another writer published meanwhile.
        """
        planner, beside = self._attempts.planner, replace(self._entry, target=new.name)
        tables, built = planner.tables(self._entry), planner.tables(beside).plan(new).first
        steps = tables.columns(tables.plan(old).first.schema, old, [built.schema.as_sent]).steps
        execute_steps(self._spark(), self._catalog, self._entry, steps)
        now = self._state(self._entry)
        if now is None or now.snapshot_id != old.snapshot_id:
            raise self._moved()
        return now

    def _keep(self, old: TableState, generation: int) -> None:
        tag = f"{self.kept}{generation}"
        statement = sql.tag(self._catalog, old.name, tag, old.snapshot_id or 0)
        with translated("tag the old table", self._where), effect("spark: tag old table"):
            self._spark().sql(statement)

    def _overwrite(self, old: TableState, rows: DataFrame, published: Published) -> None:
        """Overwrites the rows by an ordinary publish; the table keeps its columns and layout."""
        plan = self._attempts.planner.swap(self._entry, old, published)
        publisher = Publisher(self._spark(), self._catalog, self._lake, plan)
        branch = Branch(self._spark(), publisher, self._entry.shard)
        with branch.dropped_on_failure(), translated("write the new rows", self._where):
            branch.overwrite(rows, published.to_properties())
        branch.publish()

    def _replace(
        self, old: TableState, new: TableState, rows: DataFrame, published: Published
    ) -> None:
        """Columns and rows at once.

        Such a commit replaces whatever is there. So the branches of batches that have begun are
        dropped first: these conflict instead of being replaced.
        """
        self._drop_branches(old.name)
        now = self._state(self._entry)
        if now is None or now.snapshot_id != old.snapshot_id:
            raise self._moved()
        table = sql.table(self._catalog, old.name)
        writer = snapshot_writer(rows, table, published.to_properties()).using("iceberg")
        for name, value in _properties(old.properties, new.properties).items():
            writer = writer.tableProperty(name, value)
        if new.properties.get(MODE) == Mode.HISTORY:
            writer = writer.partitionedBy(F.col(sql.CURRENT))
        with translated("replace the table", self._where), effect("spark: replace table"):
            writer.createOrReplace()

    # ── 4. tidy, forget ──────────────────────────────────────────────────────────────────

    def tidy(self) -> None:
        """Drops the table beside of a rebuild that was swapped in.

        What it remembers of the source's table is the table's own from now on, unless that has
        learned meanwhile that it is called otherwise.
        """
        standing = self.standing()
        if not standing.swapped:
            return
        beside = self.entry_beside(standing.generation - 1)
        state, shard = self._state(beside), self._entry.shard_value
        goes_on = _topic(state) == _topic(standing.old)
        if goes_on and (said := AtSource.of(state, shard).to_properties(shard)):
            statement = sql.set_properties(self._catalog, self._entry.target, said)
            with translated("remember the source's table", self._where), effect("spark: remember"):
                self._spark().sql(statement)
        self._drop(beside.target)

    def abandon(self) -> bool:
        """Drops the tables beside of a rebuild that was not; whether there were any.

        The side table goes first, and goes even if it is the only one left: the next rebuild
        would take it for its own, with what it remembers of another log.
        """
        standing = self.standing()
        beside = self.entry_beside(standing.generation)
        side = side_of(beside.stem, _side_mark(standing.beside))
        has_side = self._lake.side(side) is not None
        if has_side:
            self._drop(side)
        if standing.beside is not None:
            self._drop(beside.target)
        return has_side or standing.beside is not None

    def forget(self) -> tuple[str, ...]:
        """Lets go of what earlier rebuilds have replaced; the tags' names."""
        names = re.compile(f"{self.kept}[0-9]+")
        tags = tuple(
            each for each in self._lake.branches(self._entry.target) if names.fullmatch(each)
        )
        for tag in tags:
            with translated("drop tag", self._where), effect("spark: drop tag"):
                self._spark().sql(sql.drop_tag(self._catalog, self._entry.target, tag))
        return tags

    def _drop(self, name: LakeName) -> None:
        with translated("drop the table beside", self._where), effect("spark: drop table"):
            self._spark().sql(sql.drop_table(self._catalog, name))

    def _drop_branches(self, name: LakeName) -> None:
        ours = [each for each in self._lake.branches(name) if OWN_BRANCH.fullmatch(each)]
        for branch in ours:
            with translated("drop branches", self._where), effect("spark: drop branch"):
                self._spark().sql(sql.drop_branch(self._catalog, name, branch))

    # ── parts ────────────────────────────────────────────────────────────────────────────

    @property
    def kept(self) -> str:
        """Start of the names of tags on what rebuilds of the table have replaced."""
        shard = self._entry.shard
        return f"{KEPT}{shard.digest}_" if shard else KEPT

    def beside(self, generation: int) -> LakeName:
        """Returns the table that is filled by a rebuild."""
        return self.entry_beside(generation).target

    def entry_beside(self, generation: int) -> TableEntry:
        """Returns the table beside as an entry that batches are merged into."""
        stem = self._entry.stem
        name = LakeName(stem.namespace, f"{stem.name}__rebuild{generation}")
        return replace(self._entry, target=name)

    def _state(self, entry: TableEntry) -> TableState | None:
        return self._lake.state(entry.target, entry.shard_value)

    def _spark(self) -> SparkSession:
        return self._attempts.session()

    @property
    def _where(self) -> str:
        return f"table={self._entry.table} lake={self._entry.target}"

    def _moved(self) -> ConflictError:
        what = "another process changed the table while it was built anew"
        return ConflictError(what, where=self._where, remedy="run the same command again")


def _topic(state: TableState | None) -> str | None:
    return state.published.topic if state and state.published else None


def _id(state: TableState) -> str:
    return state.properties.get(_ID, "")


def _generation(state: TableState) -> int:
    return state.published.carried.generation if state.published else 0


def _is_read(beside: TableState) -> bool:
    return READ_BESIDE in beside.properties


def _awaits_snapshot(beside: TableState) -> bool:
    return BEGIN in beside.properties and not beside.properties.get(BEGIN_WHOLE)


def _side_mark(state: TableState | None) -> SideMark | None:
    return state.published.carried.side if state and state.published else None


def _is_ahead(old: Published | None, new: Published) -> bool:
    """Returns whether readers would see the table go back; another topic's offsets tell nothing."""
    if old is None:
        return False
    same = (old.topic_id, old.cluster_id) == (new.topic_id, new.cluster_id)
    return same and bool(new.offsets.ranges_to(old.offsets))


def _has_place(beside: TableState) -> bool:
    """Returns whether a table beside knows where in its topic it begins, or has come to."""
    return beside.published is not None or BEGIN in beside.properties


def _is_settled(new: Published, doubts: int) -> bool:
    """Returns whether a table read from its source is what that was, wherever it was read."""
    beside = new.carried.beside
    if beside is None:
        return True
    return (
        beside.until is not None
        and not new.offsets.ranges_to(beside.until)
        and beside.doubts == doubts
    )


def _fit(old: TableState, new: TableState) -> bool:
    """Returns whether the new rows fit the old table, and its records are read in the same way."""
    return _shape(old) == _shape(new)


def _as_in(table: DataFrame, rows: DataFrame) -> DataFrame:
    """Rows with the columns of a table; those that they have not are empty."""
    own = set(rows.columns)
    return rows.select(
        *(
            F.col(sql.quote(each.name))
            if each.name in own
            else F.lit(None).cast(each.dataType).alias(each.name)
            for each in table.schema
        )
    )


def _shape(state: TableState) -> tuple[object, ...]:
    said = {name: each for name, each in state.properties.items() if each and _is_layout(name)}
    columns = [(each.name, each.type, each.required) for each in state.columns]
    return said, columns, state.key


def _is_layout(name: str) -> bool:
    return name.startswith(_OURS) and name not in _OF_REBUILD and not name.startswith(AT_SOURCE)


def _properties(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Returns the new table's, and those that a person has set on the old one.

    A table that is replaced keeps its properties. What the old one's say of columns, and of its
    mode, is emptied, as nothing is taken away by a replacement.
    """
    theirs = {name: value for name, value in old.items() if not name.startswith(_OURS)}
    of_columns = {name: "" for name in old if name.startswith((COLUMN, LEFT_OUT, DROPPED))}
    rest = {name: each for name, each in new.items() if name not in _OF_REBUILD}
    return {**theirs, **of_columns, MODE: "", **rest}
