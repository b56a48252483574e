"""Describes which rows of a source's table the lake gets: a condition on single columns.

A condition is three-valued, as in SQL: a row is kept if the condition is TRUE, not if it is FALSE
or NULL. Spark evaluates it on the lake's values when changes are merged
(`cdc_assets.merge.statements.sql`), the database evaluates it on the same values when rows are read
from it (`cdc_assets.databases.statements`). So it has only what both compute alike: comparisons
with constants. Texts are compared by their bytes, whatever the collation at the source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Final, assert_never

from cdc_assets.errors import TerminalError
from cdc_assets.schema.types import MAX_DECIMAL_DIGITS, Column, Decimal, Primitive, TableSchema

_LONG: Final = range(-(2**63), 2**63)
_ESCAPED: Final = re.compile(r"(?:[^\\]|\\[\\%_])*", re.DOTALL)
_NANOS: Final = re.compile(r"[.,]\d{7}")
_KEYWORDS: Final = {"date": "DATE ", "timestamp": "TIMESTAMP "}


class Kind(StrEnum):
    """The kind of a constant, by how it is written."""

    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant: how it is written, and its text, of a fitted condition the lake's."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        if self.kind in {Kind.NUMBER, Kind.BOOLEAN}:
            return self.text
        return _KEYWORDS.get(self.kind, "") + "'" + self.text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Compare:
    """A column compared with a constant: ``=``, ``<>``, ``<``, ``<=``, ``>``, ``>=``."""

    column: str
    operator: str
    value: Constant


@dataclass(frozen=True, slots=True)
class OneOf:
    """A column that equals one of some constants."""

    column: str
    values: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """A text that matches a pattern, whose escape is the backslash."""

    column: str
    pattern: Constant


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column without a value."""

    column: str


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition; NULL stays NULL."""

    of: RowCondition


@dataclass(frozen=True, slots=True)
class AllOf:
    """Conditions that hold together."""

    parts: tuple[RowCondition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Conditions of which one holds."""

    parts: tuple[RowCondition, ...]


Leaf = Compare | OneOf | Like | IsNull
RowCondition = Leaf | Not | AllOf | AnyOf


def in_sql(condition: RowCondition, leaf: Callable[[Leaf], str]) -> str:
    """Returns SQL of a condition, whose leaves are written by ``leaf``."""
    match condition:
        case AllOf(parts):
            return " AND ".join(f"({in_sql(each, leaf)})" for each in parts)
        case AnyOf(parts):
            return " OR ".join(f"({in_sql(each, leaf)})" for each in parts)
        case Not(of):
            return f"NOT ({in_sql(of, leaf)})"
        case _:
            return leaf(condition)


def leaf_in_sql(
    leaf: Leaf, value: str, constant: Callable[[Constant], str], like: Callable[[Constant], str]
) -> str:
    """Returns SQL of a leaf.

    Args:
        leaf: the leaf.
        value: SQL for the column's value.
        constant: returns SQL for a constant.
        like: returns SQL that compares the column with a pattern.
    """
    match leaf:
        case Compare(_, operator, of):
            return f"{value} {operator} {constant(of)}"
        case OneOf(_, values):
            return f"{value} IN ({', '.join(map(constant, values))})"
        case Like(_, pattern):
            return like(pattern)
        case IsNull():
            return f"{value} IS NULL"
        case _:
            assert_never(leaf)


def text_of(condition: RowCondition) -> str:
    """Returns a condition as text; of equal conditions the same."""

    def leaf(each: Leaf) -> str:
        name = '"' + each.column.replace('"', '""') + '"'
        return leaf_in_sql(each, name, str, lambda pattern: f"{name} LIKE {pattern}")

    return in_sql(condition, leaf)


def leaves(condition: RowCondition) -> Iterator[Leaf]:
    """Yields the leaves of a condition."""
    match condition:
        case AllOf(parts) | AnyOf(parts):
            for each in parts:
                yield from leaves(each)
        case Not(of):
            yield from leaves(of)
        case _:
            yield condition


def columns_of(condition: RowCondition) -> frozenset[str]:
    """Returns the names of a condition's columns."""
    return frozenset(each.column for each in leaves(condition))


def fitted(condition: RowCondition, schema: TableSchema, where: str) -> RowCondition:
    """Returns the condition with the lake's present names of its columns and texts of its values.

    A column may be given by its name in the lake, by a former one, or by a name in records.

    Args:
        condition: as it is configured.
        schema: the table's columns.
        where: coordinates for the error.

    Raises:
        TerminalError: if the lake does not have a column's values any more, or has them only as
            digests, or if they cannot be compared with the constant.
    """
    names = schema.of_source.by_every_name

    def leaf(each: Leaf) -> Leaf:
        name = names.get(each.column)
        if name is None:
            what = f"the condition on rows names a column {each.column}, which the table has not"
            remedy = f"name columns of the lake table: {', '.join(schema.of_source.names)}"
            raise TerminalError(what, where=where, remedy=f"{_WHERE}: {remedy}")
        column = schema.column(name)
        if column.absent:
            what = f"the source has dropped {name}, on which the condition on rows depends"
            remedy = f"take it out of {_WHERE}, and rebuild the table: cdc-assets rebuild TABLE"
            raise TerminalError(what, where=where, remedy=remedy)
        if name in schema.masked:
            what = f"the condition on rows names {name}, of which the lake has only digests"
            raise TerminalError(what, where=where, remedy=f"take it out of {_WHERE}")
        return _typed(each, column, where)

    return _mapped(condition, leaf)


def require_same_columns(
    condition: RowCondition,
    was: TableSchema,
    now: TableSchema,
    renamed: Mapping[str, str],
    where: str,
) -> None:
    """Requires that each name in the condition is still the name of the same column.

    Args:
        condition: as it is configured.
        was: the columns by which the table's rows were chosen.
        now: the columns from now on.
        renamed: the new names, by the old, of columns that are renamed.
        where: coordinates for the error.

    Raises:
        TerminalError: if a further column has got a name that was another column's; as `fitted`.
    """
    said = leaves(condition)
    before, after = leaves(fitted(condition, was, where)), leaves(fitted(condition, now, where))
    for name, old, new in zip(said, before, after, strict=True):
        known = renamed.get(old.column, old.column)
        if known != new.column:
            what = f"the condition on rows names {name.column}, which is another column by now: "
            what += f"the table's rows were chosen by {known}"
            remedy = f"name {known} in {_WHERE}, or rebuild the table: cdc-assets rebuild TABLE"
            raise TerminalError(what, where=where, remedy=remedy)


_WHERE: Final = "tables.<schema.table>.where"


def _mapped(condition: RowCondition, leaf: Callable[[Leaf], Leaf]) -> RowCondition:
    match condition:
        case AllOf(parts):
            return AllOf(tuple(_mapped(each, leaf) for each in parts))
        case AnyOf(parts):
            return AnyOf(tuple(_mapped(each, leaf) for each in parts))
        case Not(of):
            return Not(_mapped(of, leaf))
        case _:
            return leaf(condition)


def _typed(leaf: Leaf, column: Column, where: str) -> Leaf:
    """Returns a leaf whose constants are texts of values of the column's type."""

    def constant(of: Constant) -> Constant:
        text = _value(of, column)
        if text is None:
            what = f"the condition on rows compares {column.name}, of type {column.type}, with {of}"
            raise TerminalError(what, where=where, remedy=f"{_WHERE}: {_expected(column)}")
        return replace(of, text=text)

    match leaf:
        case Compare(_, operator, of):
            return Compare(column.name, operator, constant(of))
        case OneOf(_, values):
            return OneOf(column.name, tuple(map(constant, values)))
        case Like(_, pattern):
            return Like(column.name, constant(pattern))
        case IsNull():
            return IsNull(column.name)
        case _:
            assert_never(leaf)


def _value(of: Constant, column: Column) -> str | None:
    """Returns the text of a constant as a value of a column; None if it cannot be one."""
    match column.type, of.kind:
        case Decimal(), Kind.NUMBER:
            return _digits(of.text, column.type)
        case Primitive.INT | Primitive.LONG, Kind.NUMBER:
            text = _digits(of.text, Decimal(MAX_DECIMAL_DIGITS, 0))
            return text if text is not None and int(text) in _LONG else None
        case Primitive.STRING, Kind.TEXT:
            return of.text if "\0" not in of.text else None
        case Primitive.BOOLEAN, Kind.BOOLEAN:
            return of.text
        case Primitive.DATE, Kind.TEXT | Kind.DATE:
            return _day(of.text)
        case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ, Kind.TEXT | Kind.DATE | Kind.TIMESTAMP:
            return _moment(of.text, has_zone=column.type is Primitive.TIMESTAMPTZ)
        case _:
            return None


def _digits(text: str, type_: Decimal) -> str | None:
    found = re.fullmatch(r"(-?)0*(\d+)(?:\.(\d*?)0*)?", text)
    if found is None:
        return None
    sign, whole, part = found[1], found[2], found[3] or ""
    if len(part) > type_.scale or len(whole) > MAX_DECIMAL_DIGITS - type_.scale:
        return None
    return f"{sign}{whole}{'.' if part else ''}{part}"


def _day(text: str) -> str | None:
    try:
        return date.fromisoformat(text).isoformat() if len(text) == len("2024-01-01") else None
    except ValueError:
        return None


def _moment(text: str, *, has_zone: bool) -> str | None:
    if _NANOS.search(text):  # which Python cuts off
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    if at.tzinfo is not None:
        if not has_zone:
            return None
        at = at.astimezone(UTC).replace(tzinfo=None)
    return at.isoformat(" ", "microseconds")


def _expected(column: Column) -> str:
    match column.type:
        case Decimal(_, scale):
            return f"write a number with at most {scale} digits after the point"
        case Primitive.INT | Primitive.LONG:
            return "write a whole number of 64 bits"
        case Primitive.STRING:
            return "write a text in single quotes"
        case Primitive.BOOLEAN:
            return "write TRUE or FALSE, or the column alone"
        case Primitive.DATE:
            return "write DATE '2024-12-31'"
        case Primitive.TIMESTAMP:
            return "write TIMESTAMP '2024-12-31 23:59:59', with at most microseconds"
        case Primitive.TIMESTAMPTZ:
            return "write TIMESTAMP '2024-12-31 23:59:59+00:00'; without an offset it is UTC"
        case _:
            return "such a column can be compared with NULL only (IS NULL, IS NOT NULL)"


def require_pattern(pattern: str) -> None:
    """Requires a pattern of LIKE that all engines read alike.

    Raises:
        TerminalError: if a backslash stands before anything but itself, a % or an underscore.
    """
    if _ESCAPED.fullmatch(pattern) is None:
        what = "a pattern of LIKE has a backslash that escapes nothing"
        raise TerminalError(what, remedy=r"write \\, \% or \_")
