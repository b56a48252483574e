"""Compares a table that another tool made with the table that its source needs.

Nothing here asks anybody: a look at the table comes in, and refusals or changes come out. Every
change adds something or permits more, and is left out once it is done; so a table that was changed
in part, by a run that was killed, gets the rest from the next run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cdc_assets.changes.names import LakeName
from cdc_assets.errors import TerminalError
from cdc_assets.lake import TableState
from cdc_assets.lake.columns import SCHEMA
from cdc_assets.lake.foreign import ForeignTable
from cdc_assets.lake.state import LakeColumn
from cdc_assets.merge.plan.layout_plan import require_readable
from cdc_assets.merge.plan.plan import OWN_BRANCH
from cdc_assets.merge.plan.table_steps import CreateTable
from cdc_assets.merge.statements import sql
from cdc_assets.schema.iceberg import from_iceberg
from cdc_assets.schema.promotions import fits
from cdc_assets.schema.stored import to_json
from cdc_assets.schema.types import Column, TableSchema

_VERSION = "format-version"
_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "binary": ("binary",), "boolean": ("boolean",), "timestamp": ("timestamptz",),
    "int": ("int",), "string": ("string",),
}  # fmt: skip
"""Iceberg's spellings of the types of our own columns, by Spark's."""


@dataclass(frozen=True, slots=True)
class AdoptionChange:
    """A change of the table's description: no row changes.

    Attributes:
        words: for plans.
        statement: in SQL; may be executed twice.
    """

    words: str
    statement: str


@dataclass(frozen=True, slots=True)
class Fit:
    """The result of the comparison.

    Attributes:
        refusals: the reasons why the table cannot be taken over, each with its remedy.
        schema: the source's columns, with the types that the lake's have.
        properties: the properties that make the table ours.
        changes: the changes of its columns.
        extra: the names of the columns that the source does not have: they are kept.
    """

    refusals: tuple[str, ...]
    schema: TableSchema
    properties: Mapping[str, str]
    changes: tuple[AdoptionChange, ...]
    extra: tuple[str, ...]


def compared(
    state: TableState, foreign: ForeignTable, required: CreateTable, catalog: str, table: str
) -> Fit:
    """Compares a table with the one that would be created for the source's table.

    Args:
        state: the table, as it is.
        foreign: the parts of it that only matter here.
        required: the step that would create the table.
        catalog: the name of the lake's catalog.
        table: ``schema.table`` of the source, for remedies.
    """
    there = {each.name: each for each in state.columns}
    own, schema = required.own_columns, _as_it_is(required.schema, there)
    names = {*schema.names, *own}
    extra = tuple(name for name in there if name not in names)
    refusals = (
        *_of_columns(required.schema, there, table),
        *_of_own(own, there),
        *_of_key(schema, there),
        *_of_extra(schema, extra, foreign),
        *_of_partitions(state, schema, there),
        *_of_refs(foreign.refs),
    )
    version = max(int(required.properties[_VERSION]), state.format_version or 1)
    said = {**required.properties, SCHEMA: to_json(schema), _VERSION: str(version)}
    changes = tuple(_changes(state, required, schema, extra, catalog))
    return Fit(refusals, schema, said, changes, extra)


def _as_it_is(schema: TableSchema, there: Mapping[str, LakeColumn]) -> TableSchema:
    """Returns the columns with the lake's types, where these hold all values of the source's."""

    def column(each: Column) -> Column:
        type_ = from_iceberg(there[each.name].type) if each.name in there else None
        return replace(each, type=type_) if type_ and fits(each.type, type_) else each

    return replace(schema, columns=tuple(map(column, schema.columns)))


# ── refusals ─────────────────────────────────────────────────────────────────────────────────


def _of_columns(schema: TableSchema, there: Mapping[str, LakeColumn], table: str) -> Iterator[str]:
    """Yields the columns whose types hold no values of the source's, and ambiguous names."""
    folded = {name.casefold(): name for name in there}
    for each in schema.columns:
        found = there.get(each.name)
        if found is None and (other := folded.get(each.name.casefold())):
            yield (
                f"column {each.name}: the table has {other}, which differs in its case: rename it "
                f"there, or here (tables.{table}.columns.{each.sent_as}.rename)"
            )
        if found is None:
            continue
        type_ = from_iceberg(found.type)
        if type_ is None:
            yield (
                f"column {each.name}: the table has it as {found.type}, which is not supported: "
                "rename the column there, and it is added and read from the source"
            )
        elif not (fits(each.type, type_) or fits(type_, each.type)):
            yield (
                f"column {each.name}: the table has it as {type_}, and the source as {each.type}: "
                f"set tables.{table}.columns.{each.sent_as}: {type_} if that is a possible type; "
                "else rename the column there, and it is added and read from the source"
            )


def _of_own(own: Mapping[str, tuple[str, str]], there: Mapping[str, LakeColumn]) -> Iterator[str]:
    for name, (type_, _) in own.items():
        found = there.get(name)
        if found is not None and found.type not in _SPELLINGS[type_]:
            yield f"column {name}: the table has one of this name, which is ours: rename it there"


def _of_key(schema: TableSchema, there: Mapping[str, LakeColumn]) -> Iterator[str]:
    missing = [name for name in schema.key if name not in there]
    if not schema.key:
        yield (
            "the source's table has no key, by which rows could be compared: name one "
            "(tables.<schema.table>.primary_key)"
        )
    if missing:
        yield (
            f"the table does not have {', '.join(missing)} of the source's key, so nothing tells "
            "which row is which: let it be replicated into a new table"
        )


def _of_extra(schema: TableSchema, extra: Sequence[str], foreign: ForeignTable) -> Iterator[str]:
    """Yields excluded columns that the table has, and partitions by columns that are not filled."""
    for name in extra:
        if name in schema.left_out:
            yield f"column {name}: the configuration excludes it: drop it in the table"
    own = {*schema.names}
    for field, column in foreign.partitioned_by.items():
        if column not in own:
            yield (
                f"it is partitioned by {field}, of the column {column}, which the source does not "
                "have: ALTER TABLE … DROP PARTITION FIELD there, or let the table be replicated "
                "into a new one"
            )


def _of_partitions(
    state: TableState, schema: TableSchema, there: Mapping[str, LakeColumn]
) -> Iterator[str]:
    """Yields columns that would become wider, though the table is partitioned by their values."""
    wide = [each for each in schema.columns if each.name in there
            and from_iceberg(there[each.name].type) not in {None, each.type}]  # fmt: skip
    try:
        require_readable(state, [each.term for each in state.partition], wide)
    except TerminalError as error:
        way = "rewrite the table by other partitions, or let it be replicated into a new one"
        yield f"{error.what}: {way}"


def _of_refs(refs: Sequence[str]) -> Iterator[str]:
    if ours := [each for each in refs if OWN_BRANCH.fullmatch(each)]:
        yield f"it has branches whose names are those of batches: drop {', '.join(ours)}"


# ── changes ──────────────────────────────────────────────────────────────────────────────────


def _changes(
    state: TableState,
    required: CreateTable,
    schema: TableSchema,
    extra: Sequence[str],
    catalog: str,
) -> Iterator[AdoptionChange]:
    """Yields the changes that the table's columns still need, in their order."""
    name, there = state.name, {each.name: each for each in state.columns}
    if foreign := [each for each in state.key if each not in schema.key]:
        statement = sql.drop_identifier(catalog, name, foreign)
        yield AdoptionChange(f"no identifier field: {', '.join(foreign)}", statement)
    for each in state.columns:
        if each.required and each.name not in schema.key:
            statement = sql.make_optional(catalog, name, each.name)
            yield AdoptionChange(f"let {each.name} be NULL", statement)
    for column in schema.columns:
        found = there.get(column.name)
        if found is not None and from_iceberg(found.type) != column.type:
            statement = sql.widen_column(catalog, name, column)
            yield AdoptionChange(f"widen {column.name} to {column.type}", statement)
    yield from _additions(name, there, required, schema, catalog)


def _additions(
    name: LakeName,
    there: Mapping[str, LakeColumn],
    required: CreateTable,
    schema: TableSchema,
    catalog: str,
) -> Iterator[AdoptionChange]:
    if missing := [each for each in schema.columns if each.name not in there]:
        words = ", ".join(f"{each.name} {each.type}" for each in missing)
        yield AdoptionChange(f"add {words}", sql.add_columns(catalog, name, missing))
    if own := {n: each for n, each in required.own_columns.items() if n not in there}:
        yield AdoptionChange(f"add {', '.join(own)}", sql.add_own_columns(catalog, name, own))
