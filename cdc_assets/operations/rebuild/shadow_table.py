"""Writes the rows of a shadow table that is read from its source, and its progress with them.

Each publish carries the progress (`cdc_assets.lake.shadow_progress`), in the commit that completes
its rows. A process that dies anywhere leaves the shadow table at one of them, and the next process
continues from there; of two at once one conflicts.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from cdc_assets.changes.names import HELPERS, Shard
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.databases.statements import DIGEST, Range
from cdc_assets.errors import (
    CdcError,
    ConflictError,
    OutcomeUnknownError,
    TerminalError,
    UnreachableError,
)
from cdc_assets.formats.flat import any_of
from cdc_assets.lake import Published, TableState
from cdc_assets.lake.at_source import AtSource
from cdc_assets.lake.carried import SideMark
from cdc_assets.lake.columns import columns_of
from cdc_assets.lake.shadow_progress import ShadowProgress
from cdc_assets.lake.side import side_of
from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.apply.publish import Publisher
from cdc_assets.merge.intake.describe import FirstSchema
from cdc_assets.merge.plan.table_steps import created_with, execute_steps
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.verifying.canonical import digest, of_lake_texts
from cdc_assets.merge.verifying.putting import Lakes
from cdc_assets.operations.rebuild.beginning import first_publish
from cdc_assets.operations.rebuild.tables import ID, READ_FROM_SOURCE, RebuildTables
from cdc_assets.operations.resnapshot.reading import outside_of, require_sound
from cdc_assets.registry import TableEntry
from cdc_assets.schema.comparing import Comparison
from cdc_assets.schema.silent import CatalogLook
from cdc_assets.schema.types import TableSchema

HELD: Final = f"{HELPERS}held"
"""Column: whether the shadow table's types can hold all of a row's values."""

_OUTSIDE: Final = f"{HELPERS}outside"
_SOUND: Final = f"{HELPERS}sound"
_UNSOUND: Final = "a row that was read is not the lake's"
_RANK: Final = f"{HELPERS}rank"
_WAS: Final = f"{HELPERS}was"

ColumnsOfSource = Callable[[TableSchema], frozenset[str]]
"""Returns those of some columns that the source has."""


@dataclass(frozen=True, slots=True)
class BegunRead:
    """The source's table when reading begins.

    Attributes:
        look: at the catalog; None if the source has none.
        columns: names of the columns that are read.
        about: an estimate of the number of rows.
    """

    look: CatalogLook | None
    columns: tuple[str, ...]
    about: int


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
        self._seconds = 0.0  # that the newest wave of this process took

    @property
    def first(self) -> FirstSchema:
        """The columns, and the layout of records."""
        return self._lakes.planner.tables(self._entry).plan(self._state).first

    @property
    def begun(self) -> ShadowProgress | None:
        """The progress; None before reading has begun."""
        return self._state.reading if self._state else None

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
    def columns_read(self) -> tuple[str, ...]:
        """Names of the columns with which reading began; none if an older version has begun."""
        said = json.loads(self.state.properties.get(READ_FROM_SOURCE, "[]"))
        return tuple(said) if isinstance(said, list) else ()

    @property
    def known_position(self) -> str:
        """The highest position that the lake table has applied; empty if that is unknown."""
        carried = self._published().carried
        return carried.read_at if carried.applied else ""

    # ── publishes ────────────────────────────────────────────────────────────────────────

    def begin(self, old: TableState, at_source: ColumnsOfSource, read: BegunRead) -> None:
        """Makes the shadow table, if there is none, and publishes its beginning.

        Args:
            old: the lake table, as it was looked at; see `TableState.absent` if there is none.
            at_source: returns the columns that the source has.
            read: the source before anything is read.

        Raises:
            ConflictError: if another process was faster.
        """
        of, tables = self._lakes, self._lakes.planner.tables(self._entry)
        place = {READ_FROM_SOURCE: json.dumps(read.columns), ID: str(uuid.uuid4())}
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
        self._remember(old, read.look, goes_on=bool(begun.carried.applied))
        progress = begun.carried.shadow or ShadowProgress()
        self._publish(begun, replace(progress, about=read.about), None)

    def put(self, found: DataFrame, comparison: Comparison, within: Range, most: int) -> None:
        """Publishes the rows of a wave, and the next wave's beginning.

        The write itself reads the source, and fails with the first row that is not sound.

        Args:
            found: the rows, which are read here.
            comparison: their columns.
            within: the keys of the wave; no end is that of the last one.
            most: a bound for the number of rows.

        Raises:
            TerminalError: if the lake cannot hold a value of them, or a row is not sound.
            ConflictError: if another process came first.
        """
        before, began = self._published(), time.monotonic()
        table = self._lakes.spark().table(sql.table(self._lakes.catalog, self._entry.target))
        made = _made(found, comparison, within)
        sound = F.when(~F.col(_SOUND), F.raise_error(F.lit(_UNSOUND)))
        position = sound.otherwise(F.lit(bytes.fromhex(before.carried.read_at)))
        names = frozenset(each.name for each in comparison.columns)
        rows = made.select(*(_value(e, names, position, self._entry.shard) for e in table.schema))
        progress = self.progress.after(most, within.end, self._seconds)
        try:
            self._publish(before, progress, rows)
        except (ConflictError, UnreachableError, OutcomeUnknownError):
            raise
        except CdcError:
            self._require_sound(found, comparison, within)
            raise
        self._seconds = time.monotonic() - began

    def _require_sound(self, found: DataFrame, comparison: Comparison, within: Range) -> None:
        """Reads the rows of a wave once more, to count those that are not sound.

        Raises:
            TerminalError: if there is one.
        """
        require_sound(found, comparison, [within], self._where)
        with translated("look at what was read", self._where):
            made = _made(found, comparison, within)
            ((lost,),) = made.agg(F.count_if(~F.col(_SOUND))).collect()
        self._require_held(lost)

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
        said = self.progress
        self._publish(
            before, replace(said, until=until, seconds=said.seconds + self._seconds), rows
        )
        return int(count)

    def finish(self) -> None:
        """Publishes that the table is whole: from now on it is merged like any other table.

        Raises:
            ConflictError: if another process came first.
        """
        before = self._published()
        mark = before.carried.side or SideMark()
        side = SideMark(mark.snapshot, str(side_of(self._entry.stem, mark)))
        counts = {"records": 0, "quarantined": before.counts.get("quarantined", 0)}
        carried = replace(before.carried, side=side)
        whole = replace(before, start=before.offsets, counts=counts, carried=carried)
        self._publish(whole, None, None)

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

    def _publish(
        self, before: Published, progress: ShadowProgress | None, rows: DataFrame | None
    ) -> None:
        of, state = self._lakes, self._state
        if state is None:
            raise self._moved()
        published = replace(
            before,
            attempt=str(uuid.uuid4()),
            run=self._session.host.run_id,
            kind=PublishKind.READ,
            published_at=self._session.clock(),
            carried=replace(before.carried, shadow=progress),
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
        known = begun.for_reading(look, shard)
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


def _made(found: DataFrame, comparison: Comparison, within: Range) -> DataFrame:
    """Returns the lake's values of the source's texts, and whether each row is sound.

    A sound row is one of the wave's, and its values are the same as at the source.
    """
    outside = outside_of(comparison, [within]).alias(_OUTSIDE)
    made = found.select(DIGEST, outside, *of_lake_texts(comparison.columns))
    same = F.coalesce(digest(comparison.columns) == F.col(DIGEST), F.lit(False))
    return made.withColumn(_SOUND, same & ~F.col(_OUTSIDE))


def _value(
    field: StructField, names: frozenset[str], position: Expression, shard: Shard | None
) -> Expression:
    value = F.lit(None)
    if field.name == sql.POSITION:
        value = position
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
    held = ~any_of(lost)
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
