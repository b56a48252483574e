"""What statements of a database do to its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from cdc_assets.changes.offsets import Coordinate


class TableChangeKind(StrEnum):
    """What happens to a table."""

    CREATED = "created"
    ALTERED = "altered"
    RENAMED = "renamed"
    TRUNCATED = "truncated"
    DROPPED = "dropped"
    THINNED = "thinned"  # rows of whole partitions go or come, of which no event tells
    UNREAD = "unread"  # the statement names it, and cannot be parsed


class ColumnChangeKind(StrEnum):
    """What happens to a column of a table that stays."""

    ADDED = "add"
    DROPPED = "drop"
    RENAMED = "rename"
    RETYPED = "change"


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """One column of a table that is altered; ``name`` is the former one if it is renamed."""

    kind: ColumnChangeKind
    name: str
    renamed_to: str | None = None

    def describe(self) -> str:
        """For people: a verb, and names."""
        return f"{self.kind} {self.name}" + (f" to {self.renamed_to}" if self.renamed_to else "")


@dataclass(frozen=True, slots=True)
class Relation:
    """A table by its schema (MySQL: its database) and name, as a statement writes them.

    Without a name all tables of the schema are meant.
    """

    schema: str
    name: str

    def includes(self, other: Relation) -> bool:
        """But for case: whether that counts depends on a server's files and settings."""
        is_of_schema = self.schema.casefold() == other.schema.casefold()
        return is_of_schema and (not self.name or self.name.casefold() == other.name.casefold())

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a statement does to one table.

    Attributes:
        kind: what it is.
        table: by the name that it had before.
        renamed_to: by which it is called afterwards.
        columns: those that change, in the statement's order. What else is altered (keys, indexes,
            defaults, comments) changes no rows.
        is_conditional: a table that is there already is not made (``IF NOT EXISTS``).
    """

    kind: TableChangeKind
    table: Relation
    renamed_to: Relation | None = None
    columns: tuple[ColumnChange, ...] = ()
    is_conditional: bool = False

    def describe(self) -> str:
        """One line for people."""
        columns = "; ".join(each.describe() for each in self.columns)
        match self.kind:
            case TableChangeKind.ALTERED:
                return columns or "no column is added, dropped, renamed or retyped"
            case TableChangeKind.RENAMED:
                return f"the table is called {self.renamed_to} now" + (columns and f"; {columns}")
            case TableChangeKind.THINNED:
                return "rows of whole partitions went or came, without a change for each"
            case TableChangeKind.UNREAD:
                return "the statement cannot be read"
            case TableChangeKind.CREATED | TableChangeKind.TRUNCATED | TableChangeKind.DROPPED:
                return f"the table was {self.kind}"
            case _:
                assert_never(self.kind)


@dataclass(frozen=True, slots=True)
class Statement:
    """What is known of a statement.

    Attributes:
        changes: what it does to tables, in its order; none for one that touches none.
        words: all names in it, without regard to case.
        is_read: false if it may change tables, and what it does to them cannot be told.
    """

    changes: tuple[TableChange, ...]
    words: frozenset[str]
    is_read: bool = True

    def of(self, table: Relation) -> Iterator[TableChange]:
        """What it does to a table, or to one that gets its name."""
        for each in self.changes:
            if each.table.includes(table) or (each.renamed_to and each.renamed_to.includes(table)):
                yield each
        if not self.is_read and table.name.casefold() in self.words:
            yield TableChange(TableChangeKind.UNREAD, table)


@dataclass(frozen=True, slots=True)
class Ddl:
    """One statement, as an event tells of it.

    Attributes:
        text: of the statement.
        statement: what is known of it.
        position: in the source's log, in the source's own terms.
        at: when the source executed it, aware; None if it does not tell.
        coordinate: of the record.
        tells_tables: the event names the tables that the statement changes, whether it can be read
            here or not.
        after: the columns that tables have afterwards, in order, as far as the event tells; none of
            a table that is dropped.
        place: number of the binlog's file, and position in it; None of another log.
        is_of_snapshot: nobody has executed it just then: the connector says how tables are made.
    """

    text: str
    statement: Statement
    position: str
    at: datetime | None
    coordinate: Coordinate
    tells_tables: bool = False
    after: Mapping[Relation, tuple[str, ...]] = field(
        default_factory=dict[Relation, tuple[str, ...]]
    )
    place: tuple[int, int] | None = None
    is_of_snapshot: bool = False

    def columns_of(self, table: Relation) -> tuple[str, ...] | None:
        """What a table has afterwards; None if the event does not tell."""
        return next((names for each, names in self.after.items() if each.includes(table)), None)
