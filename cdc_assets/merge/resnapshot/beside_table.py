"""The table that rows are read into beside the old one, and what each publish of it says.

Each publish carries how far it has come (`cdc_assets.lake.beside`), in the commit that completes
its rows. A process that dies anywhere leaves the table at one of them, and the next one goes on
from there; of two at once one conflicts.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from cdc_assets.changes.names import HELPERS, Shard
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.databases.statements import DIGEST, TOLD
from cdc_assets.effects import effect
from cdc_assets.errors import ConflictError, TerminalError
from cdc_assets.lake import Published, TableState
from cdc_assets.lake.at_source import AtSource
from cdc_assets.lake.beside import Beside
from cdc_assets.lake.columns import columns_of
from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.apply.publish import Publisher
from cdc_assets.merge.intake.describe import FirstSchema
from cdc_assets.merge.intake.layouts import execute_steps
from cdc_assets.merge.plan.table_steps import created_with
from cdc_assets.merge.rebuild import ID, READ_BESIDE
from cdc_assets.merge.resnapshot import kept
from cdc_assets.merge.resnapshot.beginning import beginning
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets.merge.verifying.canonical import digest, of_told
from cdc_assets.merge.verifying.putting import Lakes
from cdc_assets.registry import TableEntry
from cdc_assets.schema.comparing import Comparison, Key
from cdc_assets.schema.silent import CatalogLook
from cdc_assets.schema.types import TableSchema

_RECENT: Final = timedelta(hours=1)
"""So long ago a table begins where nothing else tells: a connector may send its last changes again,
and the log must still hold what comes after the beginning once all rows are read."""

_HELD: Final = f"{HELPERS}held"

ColumnsOfSource = Callable[[TableSchema], frozenset[str]]
"""Those of some columns that the source has."""


class BesideTable:
    """The table, as the newest publish has left it.

    Args:
        lakes: where it is.
        entry: it.
        run_id: recorded with each publish.
        clock: wall clock.
    """

    def __init__(
        self, lakes: Lakes, entry: TableEntry, run_id: str, clock: Callable[[], datetime]
    ) -> None:
        self._lakes = lakes
        self._entry = entry
        self._run_id = run_id
        self._clock = clock
        self._state = self._look()

    @property
    def first(self) -> FirstSchema:
        """Its columns, and how records arrive."""
        return self._lakes.planner.tables(self._entry).plan(self._state).first

    @property
    def beside(self) -> Beside | None:
        """The progress; None before it has begun."""
        published = self._state.published if self._state else None
        return published.carried.beside if published else None

    @property
    def progress(self) -> Beside:
        """The progress once it has begun.

        Raises:
            ConflictError: if it is not there any more.
        """
        if self.beside is None:
            raise self._moved()
        return self.beside

    @property
    def state(self) -> TableState:
        """The table as this process has left it.

        Raises:
            ConflictError: if it is not there any more.
        """
        if self._state is None:
            raise self._moved()
        return self._state

    @property
    def known_position(self) -> str:
        """The highest position that the old table has applied; empty if nothing tells it."""
        carried = self._published().carried
        return carried.read_at if carried.applied else ""

    # ── publishes ────────────────────────────────────────────────────────────────────────

    def begin(self, old: TableState, at_source: ColumnsOfSource, look: CatalogLook | None) -> None:
        """Makes it, if it is not there, and publishes where it begins.

        Args:
            old: the table whose place it is to take, as it was looked at.
            at_source: tells which columns the source has.
            look: at the catalog, before anything is read.

        Raises:
            ConflictError: if another process was faster.
        """
        of, tables = self._lakes, self._lakes.planner.tables(self._entry)
        place = {READ_BESIDE: "true", ID: str(uuid.uuid4())}
        steps = created_with(tables.plan(self._state).steps, place)
        execute_steps(of.spark(), of.catalog, self._entry, steps)
        state = self._state = self._look()
        if state is None or state.published is not None or READ_BESIDE not in state.properties:
            raise self._moved()
        schema = tables.plan(state).first.schema
        if more := self._missing(old, schema, at_source):
            steps = tables.columns(schema, state, [more]).steps
            execute_steps(of.spark(), of.catalog, self._entry, steps)
            self._state = self._look()
        identity, marks = of.planner.identity(self._entry), of.planner.marks(self._entry)
        recent = of.planner.offsets_at(self._entry, self._clock() - _RECENT)
        layout = self.first.layout
        offsets, carried = beginning(old, layout, identity, marks, marks.begin.merged_max(recent))
        self._remember(old, look, goes_on=bool(carried.applied))
        existing = (each.existing for each in self.first.schema.columns)
        set_aside = old.published.counts.get("quarantined", 0) if old.published else 0
        begun = Published(
            offsets=offsets,
            start=offsets,
            topic=self._entry.topic,
            topic_id=identity.topic_id,
            cluster_id=identity.cluster_id,
            attempt="",
            run=self._run_id,
            kind=PublishKind.READ,
            published_at=self._clock(),
            carried=replace(carried, filled=tuple(each.id for each in existing if each)),
            counts={"records": 0, "quarantined": set_aside},
            shard=self._entry.shard_value,
        )
        self._publish(begun, carried.beside or Beside(), None)

    def put(self, found: DataFrame, comparison: Comparison, end: Key | None) -> int:
        """Publishes the rows of a wave, and where the next one begins; returns their number.

        Args:
            found: what was read, pinned.
            comparison: the columns that were.
            end: the key that the next wave begins with; None after the last one.

        Raises:
            TerminalError: if the lake cannot hold a value of them.
            ConflictError: if another process came first.
        """
        before = self._published()
        table = self._lakes.spark().table(sql.table(self._lakes.catalog, self._entry.target))
        with translated("put what was read", self._where):
            made = pinned(_made(found, comparison))
            counted = made.agg(F.count("*"), F.count_if(~F.col(_HELD))).collect()[0]
            self._require_held(counted[1])
            position = bytes.fromhex(before.carried.read_at)
            names = frozenset(each.name for each in comparison.columns)
            values = (_value(e, names, position, self._entry.shard) for e in table.schema)
            rows = made.select(*values)
            self._publish(before, self.progress.after(counted[0], end), rows)
        return int(counted[0])

    def note(self, until: OffsetVector, old: TableState | None) -> int:
        """Publishes what the topic held once all that was read had been delivered.

        Args:
            until: that.
            old: the table whose rows are kept where the source has them no longer, marked as
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
                count, held = rows.agg(F.count("*"), F.count_if(kept.HELD)).collect()[0]
            self._require_held(count - held)
            rows = rows.drop(kept.HELD)
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
            return kept.rows_to_keep(had, new, self.first.schema.key, position)

    def _require_held(self, lost: int) -> None:
        if lost:
            what = f"{lost} rows have a value that the lake's type cannot hold"
            remedy = "give the columns wider types (tables.<schema.table>.columns)"
            raise TerminalError(what, where=self._where, remedy=remedy)

    def _publish(self, before: Published, beside: Beside, rows: DataFrame | None) -> None:
        of, state = self._lakes, self._state
        if state is None:
            raise self._moved()
        published = replace(
            before,
            attempt=str(uuid.uuid4()),
            run=self._run_id,
            kind=PublishKind.READ,
            published_at=self._clock(),
            carried=replace(before.carried, beside=beside),
        )
        plan = of.planner.swap(self._entry, state, published)
        publisher = Publisher(of.spark(), of.catalog, of.lake, plan)
        branch = Branch(publisher, partial(of.planner.require_same_topic, plan))
        with branch.dropped_on_failure(), translated("publish what was read", self._where):
            if rows is None:
                rows = of.spark().table(sql.table(of.catalog, self._entry.target)).limit(0)
            branch.write(rows, published.to_properties())
        branch.publish()
        self._state = self._look()

    def _remember(self, old: TableState, look: CatalogLook | None, *, goes_on: bool) -> None:
        """Remembers which source table the old rows are from: the log may hold changes of another.

        Where one of them ends is a position like those that the old one has applied.
        """
        shard = self._entry.shard_value
        said = AtSource.of(old, shard)
        begun = said if goes_on else replace(said, barrier="")
        told = begun.read_anew(look, shard)
        statement = sql.set_properties(self._lakes.catalog, self._entry.target, told)
        with translated("remember the source's table", self._where), effect("spark: remember"):
            self._lakes.spark().sql(statement)

    # ── parts ────────────────────────────────────────────────────────────────────────────

    def _missing(
        self, old: TableState, schema: TableSchema, at_source: ColumnsOfSource
    ) -> TableSchema | None:
        """Returns the columns with those that the old table and the source have beside them.

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
        return self._lakes.lake.state(self._entry.target, self._entry.shard_value)

    def _moved(self) -> ConflictError:
        what = "another process changed the table while it was read"
        return ConflictError(what, where=self._where, remedy="run the same command again")

    @property
    def _where(self) -> str:
        return f"table={self._entry.table} lake={self._entry.target}"


def _made(found: DataFrame, comparison: Comparison) -> DataFrame:
    """Returns the lake's values of what the source has told, and whether they are that."""
    values = {
        each.name: of_told(F.col(f"{TOLD}{n}"), each, lenient=True)
        for n, each in enumerate(comparison.columns)
    }
    made = found.select(DIGEST, *(value.alias(name) for name, value in values.items()))
    return made.withColumn(_HELD, digest(comparison.columns) == F.col(DIGEST))


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
