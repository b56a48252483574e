"""The steps that give a lake table what it lacks: as values, in words, as SQL, and executed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, assert_never

from cdc_assets.changes.names import LakeName
from cdc_assets.effects import effect
from cdc_assets.lake.columns import COLUMN, DROPPED, LEFT_OUT
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.registry import TableEntry
from cdc_assets.schema.file_layout import SortTerm, Term
from cdc_assets.schema.stored import column_to_json
from cdc_assets.schema.types import Column, TableSchema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE_COMMENT: Final = "comment"
"""The table property that engines take for the table's comment."""


@dataclass(frozen=True, slots=True)
class CreateNamespace:
    """A new namespace, unless it exists."""


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A new table with its columns and properties, unless it exists."""

    schema: TableSchema
    own_columns: Mapping[str, tuple[str, str]]
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SetIdentifier:
    """Key columns to be Iceberg's identifier fields."""

    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CreateSide:
    """A new side table with these columns, and its namespace, unless they exist."""

    name: LakeName
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DescribeColumns:
    """Columns whose form on the wire is to be recorded."""

    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class RememberSource:
    """Properties that describe the source's table, or its records, as they were last seen."""

    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LeaveOut:
    """Columns of the source that the table must not have, though records may."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AddColumns:
    """Optional columns, all added in one commit."""

    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """A wider type for a column of the table or, if one is named, of its side table."""

    column: Column
    side: LakeName | None = None


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """A new name for a column, which keeps its values and its field id."""

    was: str
    name: str


@dataclass(frozen=True, slots=True)
class DropColumns:
    """Columns to be dropped from the table, by all names that they had in it.

    Older snapshots still have them.
    """

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LayOut:
    """Another layout for files that are written from now on.

    Attributes:
        dropped: fields of the partition, by their names.
        added: fields of the partition: name and term.
        sort_by: the order of rows; None for no change.
        properties: of the table.
    """

    dropped: tuple[str, ...] = ()
    added: tuple[tuple[str, Term], ...] = ()
    sort_by: tuple[SortTerm, ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Comment:
    """The source's present comments: on columns, by name, and on the table; None for no change."""

    columns: Mapping[str, str]
    table: str | None = None


ColumnStep = (
    DescribeColumns | LeaveOut | AddColumns | WidenColumn | RenameColumn | DropColumns | Comment
)
TableStep = (
    CreateNamespace
    | CreateTable
    | SetIdentifier
    | CreateSide
    | RememberSource
    | LayOut
    | ColumnStep
)


def created_with(
    steps: Iterable[TableStep], properties: Mapping[str, str]
) -> tuple[TableStep, ...]:
    """Returns the steps with more properties of the table from its creation on, if it is new."""
    return tuple(
        replace(each, properties={**each.properties, **properties})
        if isinstance(each, CreateTable)
        else each
        for each in steps
    )


def describe(step: TableStep) -> str:
    """Returns one line for plans."""
    match step:
        case CreateNamespace():
            return "create the namespace"
        case CreateTable(schema):
            return f"create the table with {len(schema.columns)} columns"
        case SetIdentifier(key):
            return f"set identifier fields {', '.join(key)}"
        case CreateSide(name):
            return f"create the side table {name}"
        case RememberSource():
            return "remember what the source's table is like"
        case LayOut():
            return "; ".join(_laid_out(step))
        case _:
            return _describe(step)


def _describe(step: ColumnStep) -> str:
    match step:
        case DescribeColumns(columns):
            return f"record how {_names(columns)} arrive"
        case LeaveOut(names):
            return f"leave out {', '.join(names)}"
        case AddColumns(columns):
            return f"add {', '.join(f'{each.name} {each.type}' for each in columns)}"
        case WidenColumn(column, side):
            of = f" of the side table {side}" if side else ""
            return f"widen {column.name}{of} to {column.type}"
        case RenameColumn(was, name):
            return f"rename {was} to {name}"
        case DropColumns(names):
            return f"drop {', '.join(names)}"
        case Comment(columns, table):
            of = [*(["the table"] if table is not None else []), *columns]
            return f"comment on {', '.join(of)}"
        case _:
            assert_never(step)


def statements(step: TableStep, catalog: str, target: LakeName) -> Iterator[str]:
    """Yields the SQL of a step. Each statement may be sent twice, or by two writers at once."""
    match step:
        case CreateNamespace():
            yield sql.create_namespace(catalog, target)
        case CreateTable(schema, own_columns, properties):
            parted_by = sql.CURRENT if sql.CURRENT in own_columns else ""
            yield sql.create_table(catalog, target, schema, own_columns, properties, parted_by)
        case SetIdentifier(key):
            yield sql.set_identifier(catalog, target, key)
        case CreateSide(name, columns):
            yield sql.create_namespace(catalog, name)
            yield sql.create_side_table(catalog, name, columns, {"format-version": "2"})
        case RememberSource(properties):
            yield sql.set_properties(catalog, target, properties)
        case LayOut():
            yield from _laying_out(step, catalog, target)
        case _:
            yield from _statements(step, catalog, target)


def _statements(step: ColumnStep, catalog: str, target: LakeName) -> Iterator[str]:
    match step:
        case DescribeColumns(columns):
            said = {COLUMN + each.name: column_to_json(each) for each in columns}
            again = {DROPPED + each.name: "false" for each in columns}
            yield sql.set_properties(catalog, target, said | again)
        case LeaveOut(names):
            yield sql.set_properties(catalog, target, {LEFT_OUT + name: "true" for name in names})
        case AddColumns(columns):
            yield sql.add_columns(catalog, target, columns)
        case WidenColumn(column, side):
            yield sql.widen_column(catalog, side or target, column)
        case RenameColumn(was, name):
            yield sql.rename_column(catalog, target, was, name)
        case DropColumns(names):
            yield sql.set_properties(catalog, target, {DROPPED + name: "true" for name in names})
            yield sql.drop_columns(catalog, target, names)
        case Comment(columns, table):
            if columns:
                yield sql.comment_on_columns(catalog, target, columns)
            if table is not None:
                yield sql.set_properties(catalog, target, {TABLE_COMMENT: table})
        case _:
            assert_never(step)


def _laying_out(step: LayOut, catalog: str, target: LakeName) -> Iterator[str]:
    yield from (sql.drop_partition_field(catalog, target, name) for name in step.dropped)
    for name, term in step.added:
        yield sql.add_partition_field(catalog, target, term, name)
    if step.sort_by is not None:
        yield sql.write_ordered(catalog, target, step.sort_by)
    if step.properties:
        yield sql.set_properties(catalog, target, step.properties)


def _laid_out(step: LayOut) -> Iterator[str]:
    if step.dropped:
        yield f"partition new files no longer by {', '.join(step.dropped)}"
    if step.added:
        yield f"partition new files by {', '.join(str(term) for _, term in step.added)}"
    if step.sort_by is not None:
        yield f"sort new files by {', '.join(map(str, step.sort_by)) or 'nothing'}"
    if step.properties:
        yield f"set {', '.join(f'{n} = {each}' for n, each in sorted(step.properties.items()))}"


def _names(columns: Sequence[Column]) -> str:
    return ", ".join(each.name for each in columns)


def execute_steps(
    spark: SparkSession, catalog: str, entry: TableEntry, steps: Sequence[TableStep]
) -> None:
    """Runs the steps that the table still needs.

    Raises:
        ConflictError: if another writer has just done so.
    """
    for step in steps:
        with translated("make or change the table", f"table={entry.table} lake={entry.target}"):
            for statement in statements(step, catalog, entry.target):
                with effect(f"spark: {type(step).__name__}"):
                    spark.sql(statement)
