"""The contract for reading rows of a source's tables, to be compared with the lake.

Every statement is one of a read-only transaction with a time-out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from cdc_assets.errors import ConfigError
from cdc_assets.schema.comparing import Compared, Comparison, Form, Key, Sum, Uncompared
from cdc_assets.schema.types import Column, TableSchema

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Range:
    """Keys from one on, below another; None for no bound. ``bounds`` cut it into buckets."""

    start: Key | None
    end: Key | None
    bounds: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """Rows of some keys at one moment.

    Attributes:
        until: a position in the database's log; every change that they show is before it.
        rows: by key, the texts of all compared columns; missing keys are absent.
        told: by key, texts from which the lake's values can be made; missing keys are absent.
    """

    until: str
    rows: Mapping[Key, tuple[str | None, ...]]
    told: Mapping[Key, tuple[str | None, ...]]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A connector's progress up to a position.

    Attributes:
        is_done: whether it has delivered everything up to there.
        who: the connector, for people.
        is_hopeless: whether no waiting will show this.
    """

    is_done: bool
    who: str
    is_hopeless: bool = False


class ConnectorOffsets(Protocol):
    """A connector as Kafka Connect knows it."""

    @property
    def name(self) -> str:
        """The name, for people."""
        ...

    def offsets(self) -> Sequence[Mapping[str, Any]]:
        """Returns its committed offsets: Kafka acknowledged all records from before them.

        Raises:
            UnreachableError: if Connect does not answer.
        """
        ...


class SourceRows(Protocol):
    """The rows of one table."""

    @property
    def comparison(self) -> Comparison:
        """The compared columns."""
        ...

    @property
    def is_ordered(self) -> bool:
        """Whether the database finds a range of keys without reading the whole table."""
        ...

    def place(self) -> str:
        """Returns the end of its log: everything that was read earlier is before it."""
        ...

    def sums(self, within: Range) -> Mapping[int, Sum]:
        """Returns count and checksum of each bucket that has rows."""
        ...

    def digests(self, within: Sequence[Range]) -> Iterator[tuple[Key, str]]:
        """Yields key and digest of each row of some ranges."""
        ...

    def is_past(self, position: str) -> bool:
        """Returns whether every commit from now on gets a higher position, hexadecimal."""
        ...

    def moment(self) -> str:
        """Returns the present moment, for `is_over`."""
        ...

    def is_over(self, moment: str) -> bool:
        """Returns whether all transactions that were open at a moment have ended.

        All readers then see what was committed before the moment. A connector may see a commit
        before readers do: PostgreSQL lets them wait for standbys.
        """
        ...

    def found(self, keys: Sequence[Key]) -> Found:
        """Returns the rows of some keys."""
        ...

    def total(self) -> tuple[str, Sum]:
        """Returns count and checksum of all rows, and a position that they are before."""
        ...

    def delivery(self, until: str) -> Delivery:
        """Returns whether Kafka has everything up to a position."""
        ...

    def nudge(self) -> None:
        """Writes to the log, so that an idle connector reports its position."""
        ...

    def close(self) -> None:
        """Ends the connection."""
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """The parameters for reading a table.

    Attributes:
        dsn: of its database.
        table: schema and name there.
        schema: the lake's columns, without that of a shard.
        where: for errors.
        publication: of the connector.
        slot: of the connector; None for any of the database.
        statement_seconds: limit for a statement.
        source: its name in the configuration, for errors.
        connector: finds the connector; None where it is unknown.
        nudge: whether to write something to the log, so that an idle connector reports its
            position; or the statement that does so.
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
    """Pairs the compared columns with their columns at the source.

    Args:
        known: columns of the source, by name.
        schema: of the lake.
        form_of: returns the form of a column's texts, or the reason why there are none.
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
