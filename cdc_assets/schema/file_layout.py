"""Describes how the files of a lake table are laid out: partitions, order, and properties.

Terms are Iceberg's transforms of one column each, written as Spark's SQL writes them:
``day(created_at)``, ``bucket(16, id)``. https://iceberg.apache.org/spec/#partition-transforms
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from cdc_assets.errors import TerminalError
from cdc_assets.schema.types import ColumnType, Decimal, Primitive, TableSchema


class Transform(StrEnum):
    """A transform, spelled as in Iceberg's metadata."""

    IDENTITY = "identity"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"
    BUCKET = "bucket"
    TRUNCATE = "truncate"

    @property
    def is_of_time(self) -> bool:
        """Whether it is a unit of time."""
        return self in _TIMES

    @property
    def has_number(self) -> bool:
        """Whether it has a number of buckets, or a width."""
        return self in {Transform.BUCKET, Transform.TRUNCATE}


_TIMES: Final = (Transform.YEAR, Transform.MONTH, Transform.DAY, Transform.HOUR)
_SPELLED: Final = {
    **{each.value: each for each in Transform},
    **{f"{each.value}s": each for each in _TIMES},
}
_INSTANTS: Final = frozenset({Primitive.TIMESTAMP, Primitive.TIMESTAMPTZ})
_CUT: Final = frozenset({Primitive.INT, Primitive.LONG, Primitive.STRING, Primitive.BINARY})
_FLOATING: Final = frozenset({Primitive.FLOAT, Primitive.DOUBLE})
_MOST: Final = 2**31 - 1

_NAME: Final = r"`(?:[^`]|``)+`|[^\s(),`]+"
_TERM: Final = re.compile(
    rf"\s*(?:(?P<name>{_NAME})|(?P<transform>\w+)\s*\(\s*(?:(?P<number>\d+)\s*,\s*)?"
    rf"(?P<of>{_NAME})\s*(?:,\s*(?P<after>\d+)\s*)?\))\s*"
)
_SORTED: Final = re.compile(
    r"(?P<term>.*?)(?:\s+(?P<way>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*",
    re.IGNORECASE | re.DOTALL,
)


class DeleteMode(StrEnum):
    """What a batch does to a data file that has rows to be removed: marks them, or copies others.

    Spelled as in Iceberg's table properties.
    """

    MERGE_ON_READ = "merge-on-read"
    COPY_ON_WRITE = "copy-on-write"

    @property
    def properties(self) -> dict[str, str]:
        """The properties of a table in this mode."""
        return dict.fromkeys(_MODES, self.value)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> DeleteMode:
        """Returns the mode of a table by its properties; Iceberg's default is to copy."""
        is_marked = properties.get(_MODES[0], "").lower() == cls.MERGE_ON_READ
        return cls.MERGE_ON_READ if is_marked else cls.COPY_ON_WRITE


_MODES: Final = ("write.merge.mode", "write.delete.mode", "write.update.mode")


@dataclass(frozen=True, slots=True)
class Term:
    """A transform of a column; ``number`` is a bucket's or a truncation's, else 0."""

    transform: Transform
    column: str
    number: int = 0

    def __str__(self) -> str:
        if self.transform is Transform.IDENTITY:
            return self.column
        number = f"{self.number}, " if self.transform.has_number else ""
        return f"{self.transform}({number}{self.column})"

    @property
    def field_name(self) -> str:
        """The name that Iceberg gives to a partition field of the term."""
        match self.transform:
            case Transform.IDENTITY:
                return self.column
            case Transform.BUCKET:
                return f"{self.column}_bucket_{self.number}"
            case Transform.TRUNCATE:
                return f"{self.column}_trunc_{self.number}"
            case _:
                return f"{self.column}_{self.transform}"


@dataclass(frozen=True, slots=True)
class SortTerm:
    """A term that rows of a file are sorted by; NULL is the least value unless it comes last."""

    term: Term
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        way = "desc" if self.descending else "asc"
        return f"{self.term} {way} nulls {'first' if self.nulls_first else 'last'}"


@dataclass(frozen=True, slots=True)
class FileLayout:
    """The layout of a table's files.

    Attributes:
        partition_by: the partition's fields; None to leave a table's own alone.
        sort_by: the order of rows within a file; None to leave a table's own alone.
        properties: of the table, by Iceberg's names.
        format_version: of Iceberg; None for that of the lake.
        delete_mode: None to leave a table's own alone; new tables mark rows as deleted.
    """

    partition_by: tuple[Term, ...] | None = None
    sort_by: tuple[SortTerm, ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    format_version: int | None = None
    delete_mode: DeleteMode | None = None

    @classmethod
    def left_alone(cls, properties: Mapping[str, str]) -> FileLayout:
        """Returns the layout that leaves everything to a table with these properties."""
        return cls(delete_mode=DeleteMode.of(properties))

    @property
    def copies(self) -> bool:
        """Whether files with removed rows are copied without these."""
        return self.delete_mode is DeleteMode.COPY_ON_WRITE

    @property
    def terms(self) -> tuple[Term, ...]:
        """All terms."""
        return (*(self.partition_by or ()), *(each.term for each in self.sort_by or ()))


AS_IT_IS: Final = FileLayout()
"""The layout that leaves everything to the table."""


def parse_term(text: str) -> Term:
    """Parses a term.

    Raises:
        TerminalError: if it is none.
    """
    found = _TERM.fullmatch(text)
    if found is None:
        raise _no_term(text)
    if found["name"]:
        return Term(Transform.IDENTITY, _unquoted(found["name"]))
    transform = _SPELLED.get(found["transform"].lower())
    number = found["number"] or found["after"]
    if transform is None or (found["number"] and found["after"]):
        raise _no_term(text)
    if transform.has_number != (number is not None):
        raise _no_term(text)
    if number is not None and not 0 < int(number) <= _MOST:
        raise _no_term(text)
    return Term(transform, _unquoted(found["of"]), int(number or 0))


def parse_sort(text: str) -> SortTerm:
    """Parses a term with its direction; as in Spark, NULL comes first unless it is descending.

    Raises:
        TerminalError: if it is none.
    """
    found = _SORTED.fullmatch(text)
    if found is None:
        raise _no_term(text)
    descending = (found["way"] or "").lower() == "desc"
    nulls = (found["nulls"] or ("last" if descending else "first")).lower()
    return SortTerm(parse_term(found["term"]), descending, nulls == "first")


def _no_term(text: str) -> TerminalError:
    what = f"{text!r} is no column and no transform of one"
    remedy = (
        "write a column, or year(c), month(c), day(c), hour(c), bucket(16, c), truncate(10, c); "
        "in sort_by asc or desc and nulls first or nulls last may follow. A name with spaces, "
        "commas or brackets stands in back-ticks"
    )
    return TerminalError(what, remedy=remedy)


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def require_parts(terms: Sequence[Term]) -> None:
    """Requires terms that Iceberg accepts next to each other in one partition.

    Raises:
        TerminalError: if two of them are alike, or are units of time of one column.
    """
    kinds = [
        (each.column, "time" if each.transform.is_of_time else each.transform) for each in terms
    ]
    twice = next((str(each) for each, kind in zip(terms, kinds, strict=True)
                  if kinds.count(kind) > 1), None)  # fmt: skip
    if twice is not None:
        what = f"{twice} is in the partition twice, or with another unit of time of its column"
        raise TerminalError(what, remedy="keep the finest of them")


def fitted(
    layout: FileLayout, schema: TableSchema, own: Mapping[str, ColumnType], where: str
) -> FileLayout:
    """Returns the layout with the table's present names of its columns.

    A column may be given by its name in the lake, by a former one, or by a name in records.

    Args:
        layout: as it is configured.
        schema: the table's columns.
        own: the types of our own columns of the table.
        where: coordinates for the error.

    Raises:
        TerminalError: if a column does not exist, or is of a type that its transform cannot have.
    """
    names = schema.by_every_name | {name: name for name in own}
    types = {**{each.name: each.type for each in schema.columns}, **own}

    def named(term: Term, *, parts: bool) -> Term:
        name = names.get(term.column)
        if name is None:
            what = f"the layout names a column {term.column}, which the table does not have"
            remedy = f"name one of these in tables.<schema.table>.layout: {', '.join(types)}"
            raise TerminalError(what, where=where, remedy=remedy)
        if not _takes(term.transform, types[name]) or (parts and types[name] in _FLOATING):
            what = f"the layout's {term}: {name} is of type {types[name]}"
            remedy = "choose another transform or column in tables.<schema.table>.layout"
            raise TerminalError(what, where=where, remedy=remedy)
        return replace(term, column=name)

    parts, order = layout.partition_by, layout.sort_by
    if parts is not None:
        parts = tuple(named(each, parts=True) for each in parts)
    if order is not None:
        order = tuple(replace(each, term=named(each.term, parts=False)) for each in order)
    return replace(layout, partition_by=parts, sort_by=order)


def _takes(transform: Transform, type_: ColumnType) -> bool:
    """Returns whether Iceberg has the transform of a type."""
    if not isinstance(type_, Primitive | Decimal):
        return False
    match transform:
        case Transform.IDENTITY:
            return True
        case Transform.HOUR:
            return type_ in _INSTANTS
        case Transform.YEAR | Transform.MONTH | Transform.DAY:
            return type_ in _INSTANTS or type_ is Primitive.DATE
        case Transform.BUCKET:
            return type_ not in _FLOATING and type_ is not Primitive.BOOLEAN
        case Transform.TRUNCATE:
            return isinstance(type_, Decimal) or type_ in _CUT
