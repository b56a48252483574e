"""Describes what a database's statements do to its tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from typing import assert_never

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.errors import printable


class TableChangeKind(StrEnum):
    """The effect of a statement on a table."""

    CREATED = "created"
    ALTERED = "altered"
    RENAMED = "renamed"
    TRUNCATED = "truncated"
    DROPPED = "dropped"
    THINNED = "thinned"  # rows of whole partitions go or come, without events
    DEDUPLICATED = "deduplicated"  # rows that do not fit a new unique key go, without events
    UNREAD = "unread"  # the statement names the table, and cannot be parsed


class ColumnChangeKind(StrEnum):
    """The effect of a statement on a column of a table that stays."""

    ADDED = "add"
    DROPPED = "drop"
    RENAMED = "rename"
    RETYPED = "change"


@dataclass(frozen=True, slots=True)
class Given:
    """The value that a statement gives to the rows that are there when it adds a column.

    Attributes:
        text: as the database writes it; None for NULL, or for what the type implies.
        is_implied: whether it is what the type implies where NULL is not allowed.
    """

    text: str | None = None
    is_implied: bool = False


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """The change of one column of an altered table.

    Attributes:
        kind: the kind of change.
        name: of the column; the old one if it is renamed.
        renamed_to: the new one then.
        given: the value of older rows in a new column; None if the statement does not tell it.
        definition: the type of one that is retyped, as text; empty if it is unknown.
    """

    kind: ColumnChangeKind
    name: str
    renamed_to: str | None = None
    given: Given | None = None
    definition: str = ""

    def describe(self) -> str:
        """Describes the change for people: a verb, and names."""
        name, now = printable(self.name), printable(self.renamed_to or "")
        return f"{self.kind} {name}" + (f" to {now}" if now else "")


@dataclass(frozen=True, slots=True)
class Relation:
    """A table by its schema (MySQL: its database) and name, as a statement writes them.

    An empty name means all tables of the schema.
    """

    schema: str
    name: str

    def includes(self, other: Relation) -> bool:
        """Compares without case: whether case counts depends on a server's files and settings."""
        is_of_schema = self.schema.casefold() == other.schema.casefold()
        return is_of_schema and (not self.name or self.name.casefold() == other.name.casefold())

    def __str__(self) -> str:
        return printable(f"{self.schema}.{self.name}")


@dataclass(frozen=True, slots=True)
class TableChange:
    """The effect of a statement on one table.

    Attributes:
        kind: the kind of effect.
        table: by its name before.
        renamed_to: by its name afterwards, if that differs.
        columns: the changed columns, in the statement's order. Other alterations (keys, indexes,
            defaults, comments) change no rows.
        is_conditional: whether an existing table is left alone (``IF NOT EXISTS``).
        cascades: names of added foreign keys that change rows of the table with their parent's.
        dropped_keys: names of dropped foreign keys.
    """

    kind: TableChangeKind
    table: Relation
    renamed_to: Relation | None = None
    columns: tuple[ColumnChange, ...] = ()
    is_conditional: bool = False
    cascades: tuple[str, ...] = ()
    dropped_keys: tuple[str, ...] = ()

    def describe(self) -> str:
        """Describes the effect in one line for people."""
        columns = "; ".join(each.describe() for each in self.columns)
        match self.kind:
            case TableChangeKind.ALTERED:
                return columns or "no column is added, dropped, renamed or retyped"
            case TableChangeKind.RENAMED:
                return f"the table is called {self.renamed_to} now" + (columns and f"; {columns}")
            case TableChangeKind.THINNED:
                return "rows of whole partitions went or came, without a change for each"
            case TableChangeKind.DEDUPLICATED:
                return "rows that share a new unique key's values went, without a change for each"
            case TableChangeKind.UNREAD:
                return "the statement cannot be read"
            case TableChangeKind.CREATED | TableChangeKind.TRUNCATED | TableChangeKind.DROPPED:
                return f"the table was {self.kind}"
            case _:
                assert_never(self.kind)


@dataclass(frozen=True, slots=True)
class Statement:
    """The parsed contents of a statement.

    Attributes:
        changes: effects on tables, in the statement's order; none if it touches no table.
        words: all names in it, case-folded.
        is_read: false if it may change tables that are not among them: any that it names.
    """

    changes: tuple[TableChange, ...]
    words: frozenset[str]
    is_read: bool = True

    def of(self, table: Relation) -> Iterator[TableChange]:
        """Yields the effects on a table, or on one that gets its name."""
        for each in self.changes:
            if each.table.includes(table) or (each.renamed_to and each.renamed_to.includes(table)):
                yield each
        if not self.is_read and table.name.casefold() in self.words:
            yield TableChange(TableChangeKind.UNREAD, table)


@dataclass(frozen=True, slots=True)
class Ddl:
    """One statement, as reported by an event.

    Attributes:
        text: of the statement.
        statement: the parsed contents.
        position: in the source's log, in the source's own terms.
        at: when the source executed it, aware; None if not reported.
        coordinate: of the record.
        tells_tables: whether the event names the tables that the statement changes, even if it
            cannot be parsed here.
        after: the columns that tables have afterwards, in order, as far as the event lists them;
            none for a dropped table.
        place: number of the binlog's file, and position in it; None for another log.
        is_of_snapshot: whether it was not executed just then: the connector reports how tables are
            made.
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

    @property
    def identity(self) -> str:
        """16 hexadecimal digits that no other statement has, however often it is sent.

        Empty without a position: the same statement may be executed again.
        """
        if not self.position:
            return ""
        after = sorted((each.schema, each.name, *names) for each, names in self.after.items())
        text = json.dumps([self.position, str(self.at), self.text, after])
        return blake2b(text.encode(), digest_size=8).hexdigest()

    def columns_of(self, table: Relation) -> tuple[str, ...] | None:
        """Returns a table's columns afterwards; None if the event does not list them."""
        return next((names for each, names in self.after.items() if each.includes(table)), None)
