"""Rows of a source's tables, read to be compared with the lake: what each database does for it.

Every statement is one of a read-only transaction with a time-out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from cdc_assets.changes.names import TableName
from cdc_assets.errors import ConfigError, TerminalError
from cdc_assets.schema.comparing import Compared, Comparison, Form, Key, Sum, Uncompared
from cdc_assets.schema.types import Column, TableSchema

S = TypeVar("S")

GRACE_SECONDS: Final = 30.0
"""So much longer than a statement may take its answer is waited for."""


@dataclass(frozen=True, slots=True)
class Range:
    """Keys from one on, below another; None for no bound. ``bounds`` cut it into buckets."""

    start: Key | None
    end: Key | None
    bounds: tuple[Key, ...] = ()


def edges(within: Sequence[Range]) -> tuple[tuple[Key, ...], int]:
    """Returns the keys at which ranges begin and end, for a table that is read as a whole.

    Args:
        within: ascending, none overlaps another.

    Returns:
        The keys, ascending, and the number, 0 or 1, of the first bucket between them that is in a
        range: from there on every second one is.
    """
    found: list[Key] = []
    for each in within:
        if each.start is not None:
            if found and found[-1] == each.start:
                found.pop()
            else:
                found.append(each.start)
        if each.end is not None:
            found.append(each.end)
    return tuple(found), int(within[0].start is not None)


@dataclass(frozen=True, slots=True)
class Found:
    """Rows of some keys at one moment.

    Attributes:
        until: a place in the database's log that everything they show lies before.
        rows: by key, the texts of all compared columns; of a key that is not there, nothing.
        told: likewise, what the lake's values can be made of.
    """

    until: str
    rows: Mapping[Key, tuple[str | None, ...]]
    told: Mapping[Key, tuple[str | None, ...]]

    @classmethod
    def of(
        cls,
        until: str,
        rows: Iterable[Sequence[Any]],
        comparison: Comparison,
        keys: Iterable[Key],
    ) -> Found:
        """Sorts rows by key: those of other keys, which a database's equality finds, are left out.

        Args:
            until: see above.
            rows: of each the texts of the key, then those of ``rows``, then those of ``told``.
            comparison: how many texts these are.
            keys: those that are asked for.
        """
        width, columns = len(comparison.key), len(comparison.columns)
        asked = frozenset(keys)
        mine = {key: row for row in rows if (key := tuple(row[:width])) in asked}
        return cls(
            until,
            {key: tuple(row[width : width + columns]) for key, row in mine.items()},
            {key: tuple(row[width + columns :]) for key, row in mine.items()},
        )


@dataclass(frozen=True, slots=True)
class Delivery:
    """Whether a connector has delivered everything up to a place.

    Attributes:
        is_done: it has.
        who: it is, for people.
        is_hopeless: that will not be known, however long it is waited for.
    """

    is_done: bool
    who: str
    is_hopeless: bool = False


class ConnectorOffsets(Protocol):
    """A connector as Kafka Connect knows it."""

    @property
    def name(self) -> str:
        """For people."""
        ...

    def offsets(self) -> Sequence[Mapping[str, Any]]:
        """Returns the connector's committed offsets: Kafka acknowledged everything before them.

        Raises:
            UnreachableError: if Connect does not answer.
        """
        ...


class SourceRows(Protocol):
    """The rows of one table."""

    @property
    def comparison(self) -> Comparison:
        """The columns of the rows that are compared."""
        ...

    @property
    def is_ordered(self) -> bool:
        """Whether the database finds a range of keys without reading the whole table."""
        ...

    @property
    def finds_keys(self) -> bool:
        """Whether the database finds single keys without reading the whole table."""
        ...

    def estimate(self) -> int:
        """Returns about how many rows there are, by the database's statistics."""
        ...

    def place(self) -> str:
        """Returns the end of its log: whatever was read before lies before it."""
        ...

    def sums(self, within: Range) -> Mapping[int, Sum]:
        """Returns count and checksum of each bucket that has rows."""
        ...

    def digests(self, within: Sequence[Range]) -> Iterator[tuple[Key, str]]:
        """Returns key and digest of each row of some ranges: ascending, none overlaps another."""
        ...

    def is_past(self, position: str) -> bool:
        """Returns whether whatever is committed from now on gets a higher position, hexadecimal."""
        ...

    def moment(self) -> str:
        """Returns the present, by which `is_over` tells whether all see what came before."""
        ...

    def is_over(self, moment: str) -> bool:
        """Returns whether no transaction is open any more that was at a moment.

        A connector may see a commit before readers do, which PostgreSQL lets wait for standbys.
        """
        ...

    def found(self, keys: Sequence[Key]) -> Found:
        """Returns the rows of some keys."""
        ...

    def total(self) -> tuple[str, Sum]:
        """Returns count and checksum of all rows, and the place that they lie before."""
        ...

    def delivery(self, until: str) -> Delivery:
        """Returns whether Kafka has everything up to a place."""
        ...

    def nudge(self) -> None:
        """Writes something to the log that makes a connector at rest say how far it is."""
        ...

    def close(self) -> None:
        """Ends the connection."""
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """Access to a table.

    Attributes:
        dsn: of its database.
        table: schema and name there.
        schema: the lake's columns, without that of a shard.
        where: for errors.
        publication: of the connector.
        slot: likewise; None for any of the database.
        statement_seconds: a statement may take.
        source: its name in the configuration, for errors.
        connector: finds it; None where nobody knows it.
        nudge: what makes a connector at rest say how far it is; a statement, or whether there is
            anything.
    """

    dsn: str
    table: tuple[str, str]
    schema: TableSchema
    where: str
    publication: str | None = None
    slot: str | None = None
    statement_seconds: float = 60.0
    source: str = ""
    connector: Callable[[], ConnectorOffsets | None] = lambda: None
    nudge: bool | str = False


def table_of(
    access: Access, read: Callable[[str, Iterable[TableName]], Mapping[TableName, S]]
) -> S:
    """Returns a table as its database's catalog has it.

    Raises:
        CdcError: as reading the catalog does.
        TerminalError: if there is no such table.
    """
    name = TableName("", *access.table)
    table = read(access.dsn, [name]).get(name)
    if table is None:
        what = "the source's database has no such table"
        raise TerminalError(what, where=access.where, remedy="was it dropped, or renamed?")
    return table


def rows_of(kind: str, access: Access) -> SourceRows:
    """Returns the rows of a table.

    Raises:
        CdcError: if the database does not answer, or the table cannot be compared at all.
    """
    if kind == "postgres":
        from cdc_assets.databases.postgres.rows import PostgresRows

        return PostgresRows.of(access)
    if kind in {"mysql", "mariadb"}:
        from cdc_assets.databases.mysql.rows import MysqlRows

        return MysqlRows.of(access)
    what = f"rows of {kind} are not compared with the lake"
    raise ConfigError(what, where=access.where, remedy="those of PostgreSQL, MySQL, MariaDB are")


def paired(
    known: Mapping[str, S],
    schema: TableSchema,
    form_of: Callable[[S, Column], Form | str],
    may_be_key: Callable[[S, Compared], bool],
) -> tuple[dict[str, S], Comparison]:
    """Returns the columns that are compared, each with its column at the source.

    Args:
        known: columns of the source, by name.
        schema: of the lake.
        form_of: what the texts of a column are, or why there are none.
        may_be_key: whether both sides order a key column alike.
    """
    sources: dict[str, S] = {}
    compared: list[Compared] = []
    left_out: list[Uncompared] = []
    for column in schema.columns:
        source = known.get(column.sent_as)
        if source is None:
            why = "the source does not have it"
            left_out.append(Uncompared(column.name, why, is_at_source=False))
            continue
        form = form_of(source, column)
        if not isinstance(form, Form):
            left_out.append(Uncompared(column.name, form))
        else:
            compared.append(Compared(column, form))
            sources[column.name] = source
    by_name = {each.name: each for each in compared}
    key = tuple(by_name[name] for name in schema.key if name in by_name)
    is_usable = len(key) == len(schema.key) and all(
        may_be_key(sources[each.name], each) for each in key
    )
    own = key if is_usable else ()
    return sources, Comparison(tuple(compared), own, tuple(left_out), bool(schema.key))
