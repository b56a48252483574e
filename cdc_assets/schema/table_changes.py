"""The changes of a lake table's columns: as values, in words, and carried out on a schema."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from cdc_assets.schema.types import Column, ColumnType, TableSchema


@dataclass(frozen=True, slots=True)
class Added:
    """A new column, optional, added after the others.

    Attributes:
        column: without a value for older rows if they stay empty.
        stays_empty: whether older rows may have a value at the source, which nothing tells.
    """

    column: Column
    stays_empty: bool = False


@dataclass(frozen=True, slots=True)
class Widened:
    """A column with its new type."""

    column: Column


@dataclass(frozen=True, slots=True)
class RenamedColumn:
    """A column under its new name, and its old name in the lake."""

    column: Column
    was: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """A new column for values that no longer fit into an existing one, which stays unchanged."""

    column: Column
    was: str


@dataclass(frozen=True, slots=True)
class LeftOutColumn:
    """A new column of the source that the lake does not get."""

    name: str


@dataclass(frozen=True, slots=True)
class KeptType:
    """A column whose values now have another type, and are stored in the old one or rejected."""

    name: str
    type: ColumnType
    arriving: ColumnType


Change = Added | Widened | RenamedColumn | Replaced | LeftOutColumn | KeptType


@dataclass(frozen=True, slots=True)
class Refused:
    """A change that is impossible or forbidden.

    Attributes:
        why: the reason, for people.
        page: id of its entry on the page of errors.
    """

    why: str
    page: str = "columns-changed"

    def __str__(self) -> str:
        return self.why


@dataclass(frozen=True, slots=True)
class EvolutionPlan:
    """The changes that a table needs to hold new records.

    Attributes:
        changes: in order.
        refused: those that cannot be made.
    """

    changes: tuple[Change, ...] = ()
    refused: tuple[Refused, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the source's columns are those of the lake."""
        return not (self.changes or self.refused)

    def lines(self) -> tuple[str, ...]:
        """Returns the changes and refusals, for people."""
        return (*map(_described, self.changes), *(f"refused: {each}" for each in self.refused))

    def after(self, table: TableSchema) -> TableSchema:
        """Returns the table's columns after the changes."""
        return evolved(table, self.changes)


def _with_value(column: Column) -> str:
    """Mentions that there is a value; the value itself is the database's and may be a secret."""
    return ", with a value in older rows" if column.existing else ""


def _described(change: Change) -> str:
    match change:
        case Added(column, stays_empty):
            empty = ", empty in older rows: nothing tells what they have" if stays_empty else ""
            return f"add {column.name} {column.type}{_with_value(column)}{empty}"
        case Widened(column):
            return f"widen {column.name} to {column.type}"
        case RenamedColumn(column, was):
            return f"rename {was} to {column.name}"
        case Replaced(column, was):
            return f"add {column.name} {column.type} for what does not fit into {was}"
        case LeftOutColumn(name):
            return f"leave out {name}"
        case KeptType(name, type_, arriving):
            return f"keep {name} {type_}, though values are {arriving}"
        case _:
            assert_never(change)


def evolved(table: TableSchema, changes: Iterable[Change]) -> TableSchema:
    """Returns the schema after these changes; added columns come last."""
    for change in changes:
        match change:
            case Added(column) | Replaced(column):
                table = replace(table, columns=(*table.columns, column))
            case Widened(column):
                table = _with(table, column.name, column)
            case RenamedColumn(column, was):
                key = tuple(column.name if name == was else name for name in table.key)
                table = replace(_with(table, was, column), key=key)
            case LeftOutColumn(name):
                table = replace(table, left_out=(*table.left_out, name))
            case KeptType():
                pass
            case _:
                assert_never(change)
    return table


def _with(table: TableSchema, name: str, column: Column) -> TableSchema:
    columns = (column if each.name == name else each for each in table.columns)
    return replace(table, columns=tuple(columns))
