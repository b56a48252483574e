"""Writes the rows of a shadow table that is read from its source, and its progress with them.

Each publish carries the progress (`cdc_assets.lake.shadow_progress`), in the commit that completes
its rows. A process that dies anywhere leaves the shadow table at one of them, and the next process
continues from there; of two at once one conflicts.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial, reduce
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from cdc_assets.changes.names import HELPERS, Shard
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.position import encode
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.databases.statements import DIGEST, TOLD
from cdc_assets.errors import ConflictError, TerminalError
from cdc_assets.formats.layout import Layout
from cdc_assets.lake import Published, TableState
from cdc_assets.lake.at_source import AtSource
from cdc_assets.lake.carried import Carried, SideMark
from cdc_assets.lake.columns import columns_of
from cdc_assets.lake.shadow_progress import ShadowProgress
from cdc_assets.log.values import TopicIdentity, Watermarks
from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.apply.publish import Publisher
from cdc_assets.merge.intake.describe import FirstSchema
from cdc_assets.merge.intake.layouts import execute_steps, layout_of
from cdc_assets.merge.intake.planning import Planner
from cdc_assets.merge.plan.table_steps import created_with
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets.merge.verifying.canonical import digest, of_told
from cdc_assets.merge.verifying.putting import Lakes
from cdc_assets.operations.rebuild.tables import ID, READ_FROM_SOURCE, RebuildTables
from cdc_assets.operations.session import TableSession
from cdc_assets.registry import TableEntry
from cdc_assets.schema.comparing import Comparison, Key
from cdc_assets.schema.silent import CatalogLook
from cdc_assets.schema.types import TableSchema

_RECENT: Final = timedelta(hours=1)
"""The age of a shadow table's beginning where nothing else tells: a connector may send its last
changes again, and the log must still hold the changes after the beginning once all rows are
read."""

HELD: Final = f"{HELPERS}held"
"""Column: whether the shadow table's types can hold all of a row's values."""

_RANK: Final = f"{HELPERS}rank"
_WAS: Final = f"{HELPERS}was"

ColumnsOfSource = Callable[[TableSchema], frozenset[str]]
"""Returns those of some columns that the source has."""


class ShadowTable:
    """A shadow table that is read from its source, as the newest publish has left it.

    Args:
        tables: the lake table and the shadow table.
        generation: the number of the rebuild.
    """

    def __init__(self, tables: RebuildTables, generation: int) -> None:
        self._tables, self._lakes, self._generation = tables, tables.lakes, generation
        self._entry = tables.shadow_entry(generation)
        self._session = tables.session
        self._state = self._look()

    @property
    def first(self) -> FirstSchema:
        """The columns, and the layout of records."""
        return self._lakes.planner.tables(self._entry).plan(self._state).first

    @property
    def begun(self) -> ShadowProgress | None:
        """The progress; None before reading has begun."""
        published = self._state.published if self._state else None
        return published.carried.beside if published else None

    @property
    def progress(self) -> ShadowProgress:
        """The progress once reading has begun.

        Raises:
            ConflictError: if another process has dropped the shadow table.
        """
        if self.begun is None:
            raise self._moved()
        return self.begun

    @property
    def state(self) -> TableState:
        """The shadow table as this process has left it.

        Raises:
            ConflictError: if another process has dropped it.
        """
        if self._state is None:
            raise self._moved()
        return self._state

    @property
    def known_position(self) -> str:
        """The highest position that the lake table has applied; empty if that is unknown."""
        carried = self._published().carried
        return carried.read_at if carried.applied else ""

    # ── publishes ────────────────────────────────────────────────────────────────────────

    def begin(self, old: TableState, at_source: ColumnsOfSource, look: CatalogLook | None) -> None:
        """Makes the shadow table, if there is none, and publishes its beginning.

        Args:
            old: the lake table, as it was looked at.
            at_source: returns the columns that the source has.
            look: at the catalog, before anything is read.

        Raises:
            ConflictError: if another process was faster.
        """
        of, tables = self._lakes, self._lakes.planner.tables(self._entry)
        place = {READ_FROM_SOURCE: "true", ID: str(uuid.uuid4())}
        steps = created_with(tables.plan(self._state).steps, place)
        execute_steps(of.spark(), of.catalog, self._entry, steps)
        state = self._state = self._look()
        if state is None or state.published is not None or READ_FROM_SOURCE not in state.properties:
            raise self._moved()
        schema = tables.plan(state).first.schema
        if more := self._missing(old, schema, at_source):
            steps = tables.columns(schema, state, [more]).steps
            execute_steps(of.spark(), of.catalog, self._entry, steps)
            self._state = self._look()
        else:
            execute_steps(of.spark(), of.catalog, self._entry, tables.layout(schema, state).steps)
        begun = first_publish(of.planner, self._entry, old, self.first, self._session)
        self._remember(old, look, goes_on=bool(begun.carried.applied))
        self._publish(begun, begun.carried.beside or ShadowProgress(), None)

    def put(self, found: DataFrame, comparison: Comparison, end: Key | None) -> int:
        """Publishes the rows of a wave, and the next wave's beginning; returns their number.

        Args:
            found: the rows that were read, pinned.
            comparison: their columns.
            end: the key that the next wave begins with; None after the last one.

        Raises:
            TerminalError: if the lake cannot hold a value of them.
            ConflictError: if another process came first.
        """
        before = self._published()
        table = self._lakes.spark().table(sql.table(self._lakes.catalog, self._entry.target))
        with translated("put what was read", self._where):
            made = pinned(_made(found, comparison))
            counted = made.agg(F.count("*"), F.count_if(~F.col(HELD))).collect()[0]
            self._require_held(counted[1])
            position = bytes.fromhex(before.carried.read_at)
            names = frozenset(each.name for each in comparison.columns)
            values = (_value(e, names, position, self._entry.shard) for e in table.schema)
            rows = made.select(*values)
            self._publish(before, self.progress.after(counted[0], end), rows)
        return int(counted[0])

    def note(self, until: OffsetVector, old: TableState | None) -> int:
        """Publishes the topic's end once all rows that were read had been delivered.

        Args:
            until: the end.
            old: the lake table, whose rows are kept where the source has them no longer, marked as
                deleted, by the same publish; None if none are.

        Returns:
            The number of rows that are kept.

        Raises:
            TerminalError: if the lake cannot hold a value of them.
            ConflictError: if another process came first.
        """
        before, rows, count = self._published(), None, 0
        if old is not None and old.snapshot_id is not None:
            rows = self._kept(old, old.snapshot_id, bytes.fromhex(before.carried.read_at))
            with translated("look at the rows that are kept", self._where):
                count, held = rows.agg(F.count("*"), F.count_if(HELD)).collect()[0]
            self._require_held(count - held)
            rows = rows.drop(HELD)
        self._publish(before, replace(self.progress, until=until), rows)
        return int(count)

    def _kept(self, old: TableState, snapshot: int, position: bytes) -> DataFrame:
        spark, catalog = self._lakes.spark(), self._lakes.catalog
        with translated("find the rows that are kept", self._where):
            name = sql.table(catalog, old.name)
            head = spark.read.option("versionAsOf", str(snapshot)).table(name)
            names = old.head_columns.items()
            had = head.select(*(F.col(sql.quote(then)).alias(now) for now, then in names))
            had = had.where(sql.of_shard(self._entry.shard))
            new = spark.table(sql.table(catalog, self._entry.target))
            return rows_to_keep(had, new, self.first.schema.key, position)

    def _require_held(self, lost: int) -> None:
        if lost:
            what = f"{lost} rows have a value that the lake's type cannot hold"
            remedy = "give the columns wider types (tables.<schema.table>.columns)"
            raise TerminalError(what, where=self._where, remedy=remedy)

    def _publish(self, before: Published, progress: ShadowProgress, rows: DataFrame | None) -> None:
        of, state = self._lakes, self._state
        if state is None:
            raise self._moved()
        published = replace(
            before,
            attempt=str(uuid.uuid4()),
            run=self._session.host.run_id,
            kind=PublishKind.READ,
            published_at=self._session.clock(),
            carried=replace(before.carried, beside=progress),
        )
        publish_read(of, self._entry, state, published, rows)
        self._state = self._look()

    def _remember(self, old: TableState, look: CatalogLook | None, *, goes_on: bool) -> None:
        """Stores the source table that the old rows are from: the log may hold another's changes.

        The end of one of them is a position like those that the lake table has applied.
        """
        shard = self._entry.shard_value
        said = AtSource.of(old, shard)
        begun = said if goes_on else replace(said, barrier="")
        known = begun.read_anew(look, shard)
        statement = sql.set_properties(self._lakes.catalog, self._entry.target, known)
        self._tables.execute(statement, "remember the source's table", "spark: remember")

    # ── parts ────────────────────────────────────────────────────────────────────────────

    def _missing(
        self, old: TableState, schema: TableSchema, at_source: ColumnsOfSource
    ) -> TableSchema | None:
        """Returns the columns with those that only the lake table and the source have.

        The log's first records may be older than a column, whose values are read all the same.
        """
        known, own = columns_of(old), schema.of_source.as_sent
        if known is None:
            return None
        had = known.of_source.as_sent
        lacking = {each.name for each in had.columns} - {each.name for each in own.columns}
        lacking -= self._lakes.planner.tables(self._entry).withheld
        if not lacking:
            return None
        there = at_source(had)
        more = [each for each in had.columns if each.name in lacking & there]
        return replace(own, columns=(*own.columns, *more)) if more else None

    def _published(self) -> Published:
        if self._state is None or self._state.published is None:
            raise self._moved()
        return self._state.published

    def _look(self) -> TableState | None:
        return self._tables.shadow(self._generation)

    def _moved(self) -> ConflictError:
        what = "another process changed the table while it was read"
        return ConflictError(what, where=self._where, remedy="run the same command again")

    @property
    def _where(self) -> str:
        return f"table={self._entry.table} lake={self._entry.target}"


def _made(found: DataFrame, comparison: Comparison) -> DataFrame:
    """Returns the lake's values of the source's texts, and whether they are the same values."""
    values = {
        each.name: of_told(F.col(f"{TOLD}{n}"), each, lenient=True)
        for n, each in enumerate(comparison.columns)
    }
    made = found.select(DIGEST, *(value.alias(name) for name, value in values.items()))
    return made.withColumn(HELD, digest(comparison.columns) == F.col(DIGEST))


def _value(
    field: StructField, names: frozenset[str], position: bytes, shard: Shard | None
) -> Expression:
    value = F.lit(None)
    if field.name == sql.POSITION:
        value = F.lit(position)
    elif field.name in names:  # the source may have a column of a name that is ours elsewhere
        value = F.col(sql.quote(field.name))
    elif field.name == sql.DELETED:
        value = F.lit(False)
    elif shard is not None and field.name == shard.column:
        value = F.lit(shard.value)
    return value.cast(field.dataType).alias(field.name)


# ── rows that the source no longer has ───────────────────────────────────────────────────────


def rows_to_keep(old: DataFrame, new: DataFrame, key: Sequence[str], position: bytes) -> DataFrame:
    """Returns the lake table's rows whose keys the shadow table does not have.

    They are rows that the source no longer has: a table with ``deletes: soft`` keeps them, marked.
    The lake table has marked some of them; others were deleted since, or the log has lost their
    delete. They are put at the position that the shadow table was read at: any later record of such
    a key is newer, and is merged over its row.

    Args:
        old: the lake table; if it has several rows of a key, the newest one counts.
        new: the shadow table, with all rows that were read.
        key: the names of the key's columns, which both have.
        position: the position of the rows.

    Returns:
        The shadow table's columns, then ``HELD``. The time of a delete is empty unless the lake
        table has it.
    """
    had = {each.name: each for each in old.schema}

    def value(field: StructField) -> Expression:
        if field.name == sql.POSITION:
            return F.lit(position)
        if field.name == sql.DELETED:
            return F.lit(True)
        before = had.get(field.name)
        if before is None:
            return F.lit(None).cast(field.dataType)
        own = F.col(sql.quote(field.name))
        return own if before.dataType == field.dataType else own.try_cast(field.dataType)

    lost = (
        F.col(sql.quote(each.name)).isNotNull() & value(each).isNull()
        for each in new.schema
        if each.name in had
    )
    held = ~reduce(lambda a, b: a | b, lost, F.lit(False))
    values = (value(each).alias(each.name) for each in new.schema)
    made = old.select(*values, held.alias(HELD), F.col(sql.POSITION).alias(_WAS))
    keys = [F.col(sql.quote(name)) for name in key]
    gone = made.join(new.select(*keys), list(key), "left_anti")
    newest = Window.partitionBy(*keys).orderBy(F.col(_WAS).desc_nulls_last())
    single = gone.withColumn(_RANK, F.row_number().over(newest)).where(F.col(_RANK) == 1)
    return single.select(*(F.col(sql.quote(name)) for name in new.columns), HELD)


# ── publishes of tables that are read ────────────────────────────────────────────────────────


def publish_read(
    lakes: Lakes, entry: TableEntry, state: TableState, published: Published, rows: DataFrame | None
) -> None:
    """Publishes rows that were read from the source; none if there is only a record to publish.

    Raises:
        ConflictError: if another process came first.
        CdcError: as for any batch; nothing was published, or all of it.
    """
    spark, where = lakes.spark(), f"table={entry.table} lake={entry.target}"
    plan = lakes.planner.swap(entry, state, published)
    publisher = Publisher(spark, lakes.catalog, lakes.lake, plan)
    branch = Branch(publisher, partial(lakes.planner.require_same_topic, plan))
    with branch.dropped_on_failure(), translated("publish what was read", where):
        if rows is None:
            rows = spark.table(sql.table(lakes.catalog, entry.target)).limit(0)
        branch.write(rows, published.to_properties())
    branch.publish()


# ── the beginning ────────────────────────────────────────────────────────────────────────────


def first_publish(
    planner: Planner, entry: TableEntry, old: TableState, first: FirstSchema, session: TableSession
) -> Published:
    """Returns the record of the first publish of a table that is read from its source.

    Args:
        planner: knows the topic.
        entry: the table that is read.
        old: the lake table, looked at before anything is read.
        first: the columns and the layout of the table that is read.
        session: the means.
    """
    identity, marks = planner.identity(entry), planner.marks(entry)
    recent = planner.offsets_at(entry, session.clock() - _RECENT)
    offsets, carried = beginning_of(
        old, first.layout, identity, marks, marks.begin.merged_max(recent)
    )
    existing = (each.existing for each in first.schema.columns)
    set_aside = old.published.counts.get("quarantined", 0) if old.published else 0
    return Published(
        offsets=offsets,
        start=offsets,
        topic=entry.topic,
        topic_id=identity.topic_id,
        cluster_id=identity.cluster_id,
        attempt=str(uuid.uuid4()),
        run=session.host.run_id,
        kind=PublishKind.READ,
        published_at=session.clock(),
        carried=replace(carried, filled=tuple(each.id for each in existing if each)),
        counts={"records": 0, "quarantined": set_aside},
        shard=entry.shard_value,
    )


def beginning_of(
    old: TableState,
    layout: Layout,
    identity: TopicIdentity,
    marks: Watermarks,
    otherwise: OffsetVector,
) -> tuple[OffsetVector, Carried]:
    """Returns the offsets at which a shadow table begins that is read, and its carried state.

    Usually these are the lake table's offsets: all that it has merged is in the rows that will be
    read, and the highest position that it has applied is the position of these rows. Its offsets
    may have no meaning any more: the log lost the next ones, the topic is another one, positions
    are made otherwise, or the lake table lost its offsets. Then any offsets up to the log's present
    end serve: all changes before them are in the rows that will be read, and later ones are merged
    over rows that stand below every change.

    Args:
        old: the lake table, looked at before anything is read.
        layout: the layout of the shadow table.
        identity: the topic.
        marks: the topic's bounds.
        otherwise: the offsets if the lake table's have no meaning: not behind the end.
    """
    partitions, side = len(marks.end.offsets), SideMark()
    published = old.published
    position = _highest(published) if published else ""
    is_alike = layout_of(old.properties).scheme is layout.scheme
    if published and position and is_alike and _is_held(published, identity, marks):
        carried = Carried(
            applied=dict.fromkeys(marks.end.as_dict(), position),
            partitions=published.carried.partitions,
            partitions_seen=published.carried.partitions_seen,
            snapshot_starts=published.carried.snapshot_starts,
            max_truncate=published.carried.max_truncate,
            numbering=published.carried.numbering,
            side=side,
            read_at=position,
            read_from=published.offsets,
            own_from=_own_beginning(published, identity),
            beside=ShadowProgress(),
        )
        return published.offsets, carried
    lowest = encode((0,) * layout.scheme.numbers).hex().upper()
    carried = Carried(
        partitions=partitions,
        partitions_seen=partitions,
        # As with any first publish: a partition without an entry was added later.
        snapshot_starts=dict.fromkeys(range(partitions), ()),
        side=side,
        read_at=lowest,
        read_from=otherwise,
        own_from=_own_beginning(published, identity) if published else None,
        # What one partition has before it may be newer than a truncate that another one has behind.
        beside=ShadowProgress(doubts=int(partitions > 1)),
    )
    return otherwise, carried


def _own_beginning(published: Published, identity: TopicIdentity) -> OffsetVector | None:
    """Returns the lake table's beginning in the topic; None if it has all of the topic."""
    is_same = (published.cluster_id, published.topic_id) == (identity.cluster_id, identity.topic_id)
    return published.carried.own_beginning if is_same else None


def _highest(published: Published) -> str:
    said = published.carried
    return max([*said.applied.values(), said.max_tombstone, said.max_truncate, said.read_at])


def _is_held(published: Published, identity: TopicIdentity, marks: Watermarks) -> bool:
    """Returns whether the log still holds everything from the offsets of a publish on."""
    if (published.cluster_id, published.topic_id) != (identity.cluster_id, identity.topic_id):
        return False
    begin, end = marks.begin.as_dict(), marks.end.as_dict()
    offsets = published.offsets
    return all(at <= offsets.get(p) for p, at in begin.items()) and all(
        at <= end.get(p, 0) for p, at in offsets
    )
