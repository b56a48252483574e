"""What a lake table lacks, as steps of a plan: compared with the table as it is.

No step says that the one before it was done. A table that was made or altered in part, by a run
that was killed or by two runs at once, lacks what it lacks, and the next plan has just that. How
a column arrives is recorded before the column is added, so that a column which is there is
always described; each has a property of its own, so that two writers cannot take each other's
away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from cdc_assets.changes.names import LakeName
from cdc_assets.lake.state import LakeColumn, TableState
from cdc_assets.merge.statements import sql
from cdc_assets.schema.evolution import Evolution, evolution, evolved
from cdc_assets.schema.iceberg import from_iceberg, may_identify
from cdc_assets.schema.stored import column_from_json, column_to_json
from cdc_assets.schema.types import Column, ColumnType, TableSchema, Wire

LEFT_OUT: Final = "cdc-assets.left-out."
"""Property of a column that the table is not to have."""

COLUMN: Final = "cdc-assets.column."
"""Property of a column that was added or adopted after the table was made."""


@dataclass(frozen=True, slots=True)
class CreateNamespace:
    """The namespace, if it is not there."""


@dataclass(frozen=True, slots=True)
class CreateTable:
    """The table with its columns and properties, if it is not there."""

    schema: TableSchema
    own_columns: Mapping[str, tuple[str, str]]
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SetIdentifier:
    """The key columns as Iceberg's identifier fields."""

    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CreateSide:
    """The side table with these columns, and its namespace, if they are not there."""

    name: LakeName
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DescribeColumns:
    """How columns arrive."""

    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class LeaveOut:
    """Columns of the source that the table is not to have, though records may."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AddColumns:
    """Optional columns; all of them in one commit."""

    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """A wider type for a column."""

    column: Column


TableStep = (
    CreateNamespace
    | CreateTable
    | SetIdentifier
    | CreateSide
    | DescribeColumns
    | LeaveOut
    | AddColumns
    | WidenColumn
)


def describe(step: TableStep) -> str:
    """One line for plans."""
    match step:
        case CreateNamespace():
            return "create the namespace"
        case CreateTable(schema):
            return f"create the table with {len(schema.columns)} columns"
        case SetIdentifier(key):
            return f"set identifier fields {', '.join(key)}"
        case CreateSide(name):
            return f"create the side table {name}"
        case DescribeColumns(columns):
            return f"record how {_names(columns)} arrive"
        case LeaveOut(names):
            return f"leave out {', '.join(names)}"
        case AddColumns(columns):
            return f"add {', '.join(f'{each.name} {each.type}' for each in columns)}"
        case WidenColumn(column):
            return f"widen {column.name} to {column.type}"
        case _:
            assert_never(step)


def statements(step: TableStep, catalog: str, target: LakeName) -> Iterator[str]:
    """The SQL of a step. Each may be sent twice, or by two writers at once."""
    match step:
        case CreateNamespace():
            yield sql.create_namespace(catalog, target)
        case CreateTable(schema, own_columns, properties):
            yield sql.create_table(catalog, target, schema, own_columns, properties)
        case SetIdentifier(key):
            yield sql.set_identifier(catalog, target, key)
        case CreateSide(name, columns):
            yield sql.create_namespace(catalog, name)
            yield sql.create_side_table(catalog, name, columns, {"format-version": "2"})
        case DescribeColumns(columns):
            said = {COLUMN + each.name: column_to_json(each) for each in columns}
            yield sql.set_properties(catalog, target, said)
        case LeaveOut(names):
            yield sql.set_properties(catalog, target, {LEFT_OUT + name: "true" for name in names})
        case AddColumns(columns):
            yield sql.add_columns(catalog, target, columns)
        case WidenColumn(column):
            yield sql.widen_column(catalog, target, column)
        case _:
            assert_never(step)


def identifier(state: TableState | None, schema: TableSchema) -> tuple[SetIdentifier, ...]:
    """The step that is missing, if Iceberg takes these columns for identifiers.

    It does not take floating-point numbers, nor columns that may be NULL, which those of a
    table that was replaced as a whole may be.
    """
    key = tuple(name for name in schema.names if name in schema.key)
    done = state is not None and state.key == key
    optional = state is not None and any(
        not each.required for each in state.columns if each.name in key
    )
    if (
        done
        or optional
        or not key
        or not all(may_identify(schema.column(name).type) for name in key)
    ):
        return ()
    return (SetIdentifier(schema.key),)


# ── columns ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """How a table comes to hold what records have.

    Attributes:
        steps: in order.
        schema: what records are decoded to, after the steps.
        changes: those that the source has made; the other steps complete earlier ones.
    """

    steps: tuple[TableStep, ...]
    schema: TableSchema
    changes: tuple[Evolution, ...]


def described(schema: TableSchema, state: TableState) -> TableSchema:
    """The schema that was recorded when the table was made, and what was since."""
    later = {
        name.removeprefix(COLUMN): column_from_json(text)
        for name, text in state.properties.items()
        if name.startswith(COLUMN)
    }
    known = [later.pop(each.name, each) for each in schema.columns]
    gone = (n.removeprefix(LEFT_OUT) for n in state.properties if n.startswith(LEFT_OUT))
    left_out = dict.fromkeys([*schema.left_out, *sorted(gone)])
    columns = (*known, *(later[name] for name in sorted(later)))
    return replace(schema, columns=columns, left_out=tuple(left_out))


def plan_columns(
    stored: TableSchema, columns: Sequence[LakeColumn] | None, records: Sequence[TableSchema]
) -> ColumnPlan:
    """What the table lacks.

    A column that is described and not there was left out by a run that died: it is added. One
    that is there and not described is somebody else's, until records have it: then it is
    adopted, if its type fits.

    Args:
        stored: of `described`: the columns whose form on the wire is known.
        columns: the table's, as they are now, without ours; None if it is yet to be made.
        records: the schemas that the batch's records have, in their order.
    """
    actual: dict[str, ColumnType | None] = (
        {each.name: each.type for each in stored.columns}
        if columns is None
        else {each.name: from_iceberg(each.type) for each in columns}
    )
    arriving = {each.name: each for record in records for each in record.columns}
    table = replace(stored, columns=tuple(_as_it_is(stored, actual)))
    changes = [_foreign(actual, stored, arriving)]
    for record in records:
        changes.append(evolution(table, record))
        table = evolved(table, changes[-1])
    known = frozenset(stored.names)
    columns_then = (
        each if each.name in known else replace(arriving[each.name], type=each.type, required=False)
        for each in table.columns
        if each.name in known or each.name in arriving
    )
    after = replace(table, columns=tuple(columns_then))
    made = tuple(each for each in changes if not each.is_empty)
    return ColumnPlan(tuple(_column_steps(after, actual, known)), after, made)


def _as_it_is(stored: TableSchema, actual: Mapping[str, ColumnType | None]) -> Iterator[Column]:
    """The columns of the table, then those that are described and not there."""
    known = {each.name: each for each in stored.columns}
    for name, type_ in actual.items():
        if name in known:
            yield replace(known[name], type=type_ or known[name].type)
        elif type_ is not None:
            yield Column(name, type_, Wire.STRING)
    yield from (each for each in stored.columns if each.name not in actual)


def _foreign(
    actual: Mapping[str, ColumnType | None], stored: TableSchema, arriving: Mapping[str, Column]
) -> Evolution:
    """Columns of the records that somebody has made in the lake, of a type that is not ours."""
    known = frozenset(stored.names)
    return Evolution(
        incompatible=tuple(
            f"column {name}: the lake has one of another kind that was not made by cdc_assets"
            for name, type_ in actual.items()
            if type_ is None and name in arriving and name not in known
        )
    )


def _column_steps(
    after: TableSchema, actual: Mapping[str, ColumnType | None], known: frozenset[str]
) -> Iterator[TableStep]:
    if new := tuple(each for each in after.columns if each.name not in known):
        yield DescribeColumns(new)
    if missing := tuple(each for each in after.columns if each.name not in actual):
        yield AddColumns(tuple(replace(each, required=False) for each in missing))
    for each in after.columns:
        if actual.get(each.name) not in {None, each.type}:
            yield WidenColumn(each)


def _names(columns: Sequence[Column]) -> str:
    return ", ".join(each.name for each in columns)
