"""Plans the steps that give the lake's tables their columns, layout and properties."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import SparkSession

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.names import LakeName
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TerminalError
from cdc_assets.formats.layout import Layout
from cdc_assets.lake import Lake, TableState
from cdc_assets.lake.columns import SCHEMA, as_made, columns_of, dropped
from cdc_assets.lake.properties import MIXED, MODE, WHERE
from cdc_assets.lake.side import side_lost, side_of
from cdc_assets.merge.intake.describe import FirstSchema, TypeSource
from cdc_assets.merge.plan.column_plan import ColumnPlan, identifier, plan_columns
from cdc_assets.merge.plan.layout_plan import LayoutPlan, plan_layout
from cdc_assets.merge.plan.table_steps import (
    CreateNamespace,
    CreateSide,
    CreateTable,
    RememberSource,
    RenameColumn,
    TableStep,
    WidenColumn,
    execute_steps,
)
from cdc_assets.merge.statements.own_columns import own_columns
from cdc_assets.merge.statements.sql import CURRENT
from cdc_assets.merge.tables import ends, ledger, tombstones
from cdc_assets.merge.tables.tombstones import first_name
from cdc_assets.registry import TableEntry
from cdc_assets.schema.file_layout import DeleteMode, FileLayout, fitted
from cdc_assets.schema.iceberg import from_iceberg
from cdc_assets.schema.overrides import mark_of, with_marks
from cdc_assets.schema.policy import Reaction
from cdc_assets.schema.promotions import fits
from cdc_assets.schema.readers import mode_for
from cdc_assets.schema.row_condition import RowCondition, require_same_columns
from cdc_assets.schema.row_condition import fitted as matching
from cdc_assets.schema.stored import to_json
from cdc_assets.schema.types import Column, ColumnType, Primitive, TableSchema

_GUESSED: Final = "cdc-assets.layout-guessed"
"""Property of a table that was there before its first record: whether none has come since."""
_DELETES: Final = "cdc-assets.deletes"
_WRITTEN: Final = {
    "write.distribution-mode": "none",  # batches arrive hashed by key; no second shuffle
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
}


_WAYS_OUT: Final = (
    "give the column a type that holds both (tables.<schema.table>.columns), continue in another "
    "column (on_incompatible: new_column), allow the change (schema_changes), or rebuild the table "
    "(cdc-assets rebuild TABLE)"
)
_PRIMITIVES: Final = frozenset(Primitive)
_UNSORTED: Final = {"write.spark.fanout.enabled": "true"}
"""Property for batches not sorted by partition: they have a shard's one, or a history's two."""


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The schema for decoding a table's records, and the steps that the lake still needs."""

    first: FirstSchema
    steps: tuple[TableStep, ...]


class LakeTables:
    """The planner of one source table's lake table. The planner changes nothing."""

    def __init__(
        self, config: ReplicationConfig, lake: Lake, types: TypeSource, entry: TableEntry
    ) -> None:
        self._config = config.lake
        source = config.source(entry.table.source)
        self._policy = source.policy(entry.table)
        overrides = source.overrides(entry.table)
        self._deletes, self._mode = overrides.deletes, source.mode_of(entry.table)
        self._own = own_columns(self._mode, soft=self._deletes == "soft")
        self._excluded, self._masked = overrides.excluded, overrides.masked
        self._files, self._rows = overrides.layout.files, overrides.condition
        self._chosen_by = overrides.condition_text
        self._salted = overrides.salts()
        self._lake = lake
        self._types = types
        self._entry = entry

    def plan(self, state: TableState | None) -> TablePlan:
        """Plans the table's schema and the steps that the table still needs.

        Raises:
            TerminalError: of `TypeSource.first_schema`; if the table does not say how its
                records are decoded, or the configuration wants other deletes or another mode
                than it was created with; if the side table that it needs is gone.
        """
        if self._entry.shard and self._mode is not Mode.MIRROR:
            what = f"tables that are merged into one (merge_into) cannot have mode: {self._mode}"
            remedy = "leave its mode out, or leave the table out of merge_into"
            raise TerminalError(what, where=self._where, remedy=remedy)
        if self._entry.shard and self._rows is not None:
            what = "tables that are merged into one (merge_into) cannot have a condition on rows"
            remedy = "leave tables.<schema.table>.where out, or leave the table out of merge_into"
            raise TerminalError(what, where=self._where, remedy=remedy)
        first = self._stored(state) if state else self._first()
        shown = self._shown(first) if first.is_guessed and state else None
        if state and self._entry.shard and state.published is None:
            joining = self._types.first_schema(self._entry)
            has_own = self._types.has_schemas(self._entry, joining.layout)
            first.require_alike(joining, self._where, has_schemas=has_own)
        self.condition(first.schema)
        if state is None:
            self._fitted(first.schema)
        steps = self._mixed(state) if state else (CreateNamespace(), self._create(first))
        if shown is not None:
            remembered = RememberSource({**shown.layout.to_properties(), _GUESSED: ""})
            first, steps = shown, (*steps, remembered)
        if self._mode is Mode.CHANGELOG:  # a key has many rows, and nothing is looked up
            return TablePlan(first, steps)
        if self._mode is Mode.HISTORY:  # a key has many rows
            self._require_key(first.schema)
            return TablePlan(first, (*steps, *self._side(state, first.schema)))
        missing = (*steps, *identifier(state, first.schema), *self._side(state, first.schema))
        return TablePlan(first, missing)

    def condition(self, schema: TableSchema) -> RowCondition | None:
        """Returns the condition on the rows that the table gets; None for all rows.

        Raises:
            TerminalError: if it does not fit the columns.
        """
        return None if self._rows is None else matching(self._rows, schema, self._where)

    def _mixed(self, state: TableState) -> tuple[TableStep, ...]:
        """Returns the step that notes that older rows were chosen by another condition."""
        if state.properties.get(WHERE, "") in {MIXED, self._chosen_by}:
            return ()
        return (RememberSource({WHERE: MIXED}),)

    @property
    def salts(self) -> dict[str, str]:
        """The salts of masked columns, by their marks."""
        return {mark_of(salt): salt for salt in self._salted.values()}

    def _first(self) -> FirstSchema:
        found = self._types.first_schema(self._entry)
        return replace(found, schema=with_marks(found.schema, self._salted))

    def _shown(self, guessed: FirstSchema) -> FirstSchema | None:
        """Returns the layout that the first records show; None as long as there are none.

        Raises:
            TerminalError: if the rows were read for records of another kind; as `first_schema`.
        """
        found = self._types.first_schema(self._entry)
        if found.is_guessed:
            return None
        was, now = guessed.layout.scheme, found.layout.scheme
        if was is not now or guessed.schema.key != found.schema.key:
            what = (
                f"the table was read from its source before its first record, for positions of "
                f"{was} and the key {', '.join(guessed.schema.key)}; its records have positions of "
                f"{now} and the key {', '.join(found.schema.key)}"
            )
            remedy = f"have it read again: cdc-assets reset --table {self._entry.table}"
            raise TerminalError(what, where=self._where, remedy=remedy)
        return replace(guessed, layout=found.layout, is_guessed=False)

    def _require_key(self, schema: TableSchema) -> None:
        if schema.key:
            return
        what = "the table has no key, and versions are those of a key's row: no mode: history"
        remedy = f"name a key (tables.{self._entry.table.qualified}.primary_key), or take changelog"
        raise TerminalError(what, where=self._where, remedy=remedy, page="history-without-key")

    def columns(
        self,
        stored: TableSchema,
        state: TableState | None,
        records: Sequence[TableSchema],
        *,
        by_catalog: bool = False,
    ) -> ColumnPlan:
        """Plans the steps that the table still needs to hold the columns of these records.

        Args:
            stored: of `plan`.
            state: of the table; None if it is to be created with the stored columns.
            records: schemas of the batch's records.
            by_catalog: whether the schemas are the catalog's, as the records carry none.

        Raises:
            TerminalError: if that would lose something, or the configuration forbids changes; if
                another program has dropped or renamed a column of the lake.
        """
        if state is not None:
            self._require_kept(stored, state)
        columns = [c for c in state.columns if c.name not in self._own] if state else None
        at = state.snapshot_id if state else None
        named = [with_marks(_with_ids(each, f"{at or ''}"), self._salted) for each in records]
        gone = dropped(state) if state else ()
        plan = plan_columns(stored, columns, named, self._policy, gone, by_catalog=by_catalog)
        for change in plan.changes:
            if change.refused:
                what = f"the source's columns have changed: {'; '.join(map(str, change.refused))}"
                page = change.refused[0].page
                raise TerminalError(what, where=self._where, remedy=_WAYS_OUT, page=page)
        if plan.changes:
            self._types.require_usable(self._entry, plan.schema)
        if self._rows is not None:
            names = {each.was: each.name for each in plan.steps if isinstance(each, RenameColumn)}
            require_same_columns(self._rows, stored, plan.schema, names, self._where)
        steps = (*self._with_side(state, plan), *plan.steps)
        layout = self.layout(plan.schema, state, steps)
        return replace(plan, steps=(*steps, *layout.steps), files=layout.files)

    def _require_kept(self, stored: TableSchema, state: TableState) -> None:
        """Fails if another program has dropped or renamed a column since the newest publish.

        The column would be added again, empty in all rows but those that change. What we drop, we
        note before; and what we rename is described by its new name.

        Raises:
            TerminalError: if one has.
        """
        there, known = {each.name for each in state.columns}, {*stored.names, *self._own}
        had = state.published_columns
        gone = [n for n in had if n in known - there and had[n] not in known]
        if not gone:
            return
        renamed = [f"{name} (renamed to {now})" for name in gone if (now := had[name])]
        dropped = [f"{name} (dropped)" for name in gone if not had[name]]
        what = "another program has changed columns of the lake table: "
        what += ", ".join([*renamed, *dropped])
        remedy = (
            "give renamed ones their names back; for dropped ones: cdc-assets rebuild TABLE. Names "
            "in the lake are configured (tables.<schema.table>.columns: {name: {rename: …}})"
        )
        raise TerminalError(what, where=self._where, remedy=remedy, page="lake-columns-changed")

    def layout(
        self, schema: TableSchema, state: TableState | None, steps: Sequence[TableStep] = ()
    ) -> LayoutPlan:
        """Plans the layout of the table's files.

        Args:
            schema: the columns.
            state: of the table; None if it is yet to be created.
            steps: that are carried out before.

        Raises:
            TerminalError: if the configured layout does not fit the columns, or the table.
        """
        renamed = {each.was: each.name for each in steps if isinstance(each, RenameColumn)}
        columns = {
            *schema.names,
            *self._own,
            *(each.name for each in (state.columns if state else ())),
        }
        own = CURRENT if CURRENT in self._own else schema.shard_column
        fixed = (own,) if own else ()
        files, now = self._fitted(schema), state.format_version if state else None
        mode = self._mode_of(files.format_version or now or self._version)
        wide = [e.column for e in steps if isinstance(e, WidenColumn) and e.side is None]
        return plan_layout(replace(files, delete_mode=mode), state, fixed, columns, renamed, wide)

    @property
    def _version(self) -> int:
        """The format version of a new table."""
        return self._files.format_version or self._config.format_version

    def _mode_of(self, version: int) -> DeleteMode | None:
        """Returns the configured delete mode, or that of the readers; None without either."""
        return self._files.delete_mode or mode_for(self._config.readers, version)

    def _fitted(self, schema: TableSchema) -> FileLayout:
        own = {name: Primitive(t) for name, (t, _) in self._own.items() if t in _PRIMITIVES}
        return fitted(self._files, schema, own, self._where)

    def with_absent(
        self,
        table: TableSchema,
        dropped: Sequence[str],
        given_up: Sequence[str],
        state: TableState | None,
    ) -> TableSchema:
        """Returns the schema with columns that may be missing from now on, or without them.

        Args:
            table: the schema.
            dropped: columns that the source has dropped.
            given_up: columns that the configuration gives up.
            state: of the table; None if it is yet to be created.

        Raises:
            TerminalError: if the configuration forbids changes, or a column that the lake would
                drop is used by its layout.
        """
        marked = table.with_absent([*dropped, *given_up])
        if marked != table and dropped and self._policy.drop is Reaction.STRICT:
            what = f"the source's columns have changed: {', '.join(dropped)} dropped"
            remedy = "set schema_changes: evolve to leave them empty in the rows that change"
            raise TerminalError(what, where=self._where, remedy=remedy, page="columns-changed")
        if self._policy.drops_columns and self._policy.drop is Reaction.EVOLVE:
            self._require_unbound(table, [n for n in dropped if n not in table.key], state)
            kept = (c for c in marked.columns if c.name not in dropped or c.name in table.key)
            return replace(marked, columns=tuple(kept))
        return marked

    def _require_unbound(
        self, table: TableSchema, dropped: Sequence[str], state: TableState | None
    ) -> None:
        """Fails if Iceberg needs a column that is to be dropped: old files are partitioned by it.

        Raises:
            TerminalError: if it does.
        """
        bound = {*(each.column for each in self._fitted(table).terms)}
        bound |= state.bound if state else frozenset()
        if used := [name for name in dropped if name in bound]:
            what = f"the source has dropped {', '.join(used)}, by which the lake table is laid out"
            remedy = (
                "keep it in the lake (tables.<schema.table>.dropped_columns: keep), or take it out "
                "of the layout and have the table dropped and merged again: "
                "cdc-assets reset --table TABLE"
            )
            raise TerminalError(what, where=self._where, remedy=remedy)

    @property
    def _where(self) -> str:
        return f"table={self._entry.table} lake={self._entry.target}"

    def _create(self, first: FirstSchema) -> CreateTable:
        schema = first.schema
        if self._mode is Mode.CHANGELOG:  # the row of a truncate has no key
            schema = replace(schema, key=())
        return CreateTable(schema, self._own, self._properties(first))

    def _side(
        self, state: TableState | None, schema: TableSchema
    ) -> tuple[CreateSide | WidenColumn, ...]:
        """Returns the steps that the side table of deletes or events still needs.

        Raises:
            TerminalError: if it is missing, and the table needs entries that were in it.
        """
        published = state.published if state else None
        mark = published.carried.side if published else None
        name = side_of(self._entry.stem, mark)
        if self._lake.has_side(name):
            return tuple(self._narrow(name, state, schema))
        if published and (mark.snapshot if mark else published.carried.max_tombstone):
            raise side_lost(name, f"table={self._entry.table}")
        columns = tombstones.columns(schema) if schema.key else ledger.COLUMNS
        if self._mode is Mode.HISTORY:
            columns = ends.columns(schema)
        return (CreateSide(name, columns),)

    def _narrow(
        self, name: LakeName, state: TableState | None, schema: TableSchema
    ) -> Iterator[WidenColumn]:
        """Yields the steps for the side table's key columns that are narrower than the table's.

        These are left by another shard that has widened the table, or by an older release. The
        side table is looked at only where there are shards, and where the key is not of the types
        that the table was made with.
        """
        made = as_made(state) if state else None
        if made is None or not (self._entry.shard or _key_types(made) != _key_types(schema)):
            return
        side = self._lake.side(name)
        types = side.types if side else {}
        for column in map(_in_side, map(schema.column, schema.key)):
            there = from_iceberg(types.get(column.name, ""))
            if there is not None and there != column.type and fits(there, column.type):
                yield WidenColumn(column, name)

    def _with_side(self, state: TableState | None, plan: ColumnPlan) -> Iterator[WidenColumn]:
        """Yields the steps that widen the side table's key columns before the table's own.

        A run that dies in between leaves the table narrow, and the next plan has both again.
        """
        wide = {each.column for each in plan.steps if isinstance(each, WidenColumn)}
        mine = [each for each in map(plan.schema.column, plan.schema.key) if each in wide]
        published = state.published if state else None
        name = side_of(self._entry.stem, published.carried.side if published else None)
        if not mine or self._mode is Mode.CHANGELOG or (state and not self._lake.has_side(name)):
            return
        yield from (WidenColumn(_in_side(column), name) for column in mine)

    def _stored(self, state: TableState) -> FirstSchema:
        """Returns the schema and layout recorded when the table was created or changed."""
        said = state.properties
        columns = columns_of(state)
        if columns is None:
            what = "the lake table does not say how its records are decoded: it is not ours"
            remedy = "drop it, or give this table another target in the configuration"
            raise TerminalError(what, where=self._where, remedy=remedy)
        if said[_DELETES] != self._deletes:
            what = f"the table was made with deletes: {said[_DELETES]}, which cannot be changed"
            remedy = f"configure deletes: {said[_DELETES]}, or: cdc-assets rebuild TABLE"
            raise TerminalError(what, where=self._where, remedy=remedy, page="fixed-at-creation")
        mode = said.get(MODE) or Mode.MIRROR.value
        if mode != self._mode.value:
            what = f"the table was made with mode: {mode}, which cannot be changed"
            way = "reset --table" if mode == Mode.HISTORY else "rebuild"
            remedy = f"configure mode: {mode}, or: cdc-assets {way} TABLE"
            raise TerminalError(what, where=self._where, remedy=remedy, page="fixed-at-creation")
        if not columns.key and said.get(WHERE, "") != self._chosen_by:
            what = "the table has no key, and was made with another condition on rows (where)"
            remedy = "configure where as before, or: cdc-assets rebuild TABLE"
            raise TerminalError(what, where=self._where, remedy=remedy, page="fixed-at-creation")
        stored = self._withholding(columns)
        wanted = self._entry.shard.column if self._entry.shard else None
        if stored.shard_column != wanted:
            what = (
                f"the lake table tells shards apart by {stored.shard_column or 'nothing'}, and is "
                f"to by {wanted or 'nothing'}"
            )
            remedy = "give this table another target in the configuration (merge_into)"
            raise TerminalError(what, where=self._where, remedy=remedy)
        is_guessed = said.get(_GUESSED) == "true"
        return FirstSchema(stored, Layout.of(said), is_guessed=is_guessed)

    @property
    def withheld(self) -> frozenset[str]:
        """Columns that the lake must not have, or only as digests."""
        return self._masked | {*self._excluded}

    def _withholding(self, stored: TableSchema) -> TableSchema:
        """Leaves out the excluded columns, also if they appear later.

        Raises:
            TerminalError: if the lake already has an excluded column, or has other columns masked
                than the configuration.
        """
        remedy = "configure these columns as before, or rebuild the table: cdc-assets rebuild TABLE"
        sent = {each.sent_as for each in stored.of_source.columns}
        masked = {stored.column(name).sent_as for name in stored.masked}
        if there := [name for name in self._excluded if name in sent]:
            what = f"the configuration excludes columns that the lake has: {', '.join(there)}"
            raise TerminalError(what, where=self._where, remedy=remedy)
        if other := sorted(masked ^ (self._masked & sent)):
            what = f"the table was made with other columns masked: {', '.join(other)} differ"
            raise TerminalError(what, where=self._where, remedy=remedy)
        marked = with_marks(stored, self._salted)
        pairs = zip(stored.columns, marked.columns, strict=True)
        if other := sorted(was.sent_as for was, now in pairs if was != now):
            what = f"the table was made with another salt, or none, of: {', '.join(other)}"
            raise TerminalError(what, where=self._where, remedy=remedy, page="salt-changed")
        more = tuple(name for name in self._excluded if name not in stored.left_out)
        return replace(stored, left_out=(*stored.left_out, *more))

    def _properties(self, first: FirstSchema) -> dict[str, str]:
        table, version = self._entry.table, self._version
        facts = {
            "cdc-assets.source": table.source,
            "cdc-assets.source-table": table.qualified,
            "cdc-assets.topic": self._entry.topic,
        }
        return {
            **(self._mode_of(version) or DeleteMode.MERGE_ON_READ).properties,
            **_WRITTEN,
            **self._files.properties,
            "format-version": str(version),
            **(_UNSORTED if self._entry.shard else facts),
            **(_UNSORTED if self._mode is Mode.HISTORY else {}),
            SCHEMA: to_json(first.schema),
            **first.layout.to_properties(),
            **({_GUESSED: "true"} if first.is_guessed else {}),
            _DELETES: self._deletes,
            **({} if self._mode is Mode.MIRROR else {MODE: self._mode.value}),
            **({WHERE: self._chosen_by} if self._chosen_by else {}),
        }


def _in_side(column: Column) -> Column:
    return replace(column, name=first_name(column))


def _key_types(schema: TableSchema) -> list[ColumnType]:
    return [schema.column(name).type for name in schema.key]


def _with_ids(record: TableSchema, at: str) -> TableSchema:
    """Adds an id to each column's addition, from the column's name and the preceding snapshot."""
    columns = (
        replace(c, existing=replace(c.existing, id=f"{at}.{c.name}")) if c.existing else c
        for c in record.columns
    )
    return replace(record, columns=tuple(columns))


def lay_out(
    spark: SparkSession, catalog: str, entry: TableEntry, tables: LakeTables, state: TableState
) -> None:
    """Gives a table its configured layout, for the files that are written from now on.

    Raises:
        TerminalError: if the layout does not fit the table.
        ConflictError: if another writer has just done so.
    """
    steps = tables.layout(tables.plan(state).first.schema, state).steps
    execute_steps(spark, catalog, entry, steps)
