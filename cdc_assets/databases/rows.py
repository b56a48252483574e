"""Reads the rows of a source's table: to compare them with the lake, or to read a table again.

Every statement runs in a read-only transaction with a time-out. A table is read again by Spark, in
waves of its keys. A wave is a range of keys in a few parts that are read at once; each part shows
its keys as of one moment after the wave was asked for. Whether that is the same moment for all
parts depends on the database. No reader takes a lock that another reader or writer waits for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from cdc_assets.changes.names import TableName
from cdc_assets.databases.dialect import Given, null_in_key
from cdc_assets.databases.statements import Range, Statements
from cdc_assets.errors import TerminalError
from cdc_assets.schema.comparing import Comparison, Key, Sum
from cdc_assets.schema.row_condition import RowCondition
from cdc_assets.schema.types import TableSchema

S = TypeVar("S")

GRACE_SECONDS: Final = 30.0
"""How much longer than a statement may take its answer is waited for."""


@dataclass(frozen=True, slots=True)
class SourceKeyRows:
    """Rows of some keys at one moment.

    Attributes:
        until: a place in the database's log after everything that they show.
        rows: by key, the texts of all compared columns; of a key that is not there, nothing.
        lake_texts: likewise, the texts of the lake's values.
    """

    until: str
    rows: Mapping[Key, tuple[str | None, ...]]
    lake_texts: Mapping[Key, tuple[str | None, ...]]

    @classmethod
    def of(
        cls,
        until: str,
        rows: Iterable[Sequence[Any]],
        comparison: Comparison,
        keys: Iterable[Key],
    ) -> SourceKeyRows:
        """Sorts rows by key: those of other keys, which a database's equality finds, are left out.

        Args:
            until: see above.
            rows: of each the texts of the key, then of ``rows``, then of ``lake_texts``.
            comparison: how many texts these are.
            keys: the keys that are asked for.
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
class DeliveryState:
    """Whether a connector has delivered everything up to a place.

    Attributes:
        is_done: whether it has.
        who: the connector, for people.
        is_hopeless: whether that will not be known, however long it is waited for.
    """

    is_done: bool
    who: str
    is_hopeless: bool = False


class ConnectorOffsets(Protocol):
    """A connector as Kafka Connect knows it."""

    @property
    def name(self) -> str:
        """The connector's name, for people."""
        ...

    def offsets(self) -> Sequence[Mapping[str, Any]]:
        """Returns the connector's committed offsets: Kafka acknowledged everything before them.

        Raises:
            UnreachableError: if Connect does not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """Access to a table.

    Attributes:
        login: the DSN of its database, or fetches it for each connection.
        table: schema and name there.
        schema: the lake's columns, without that of a shard.
        where: for errors.
        publication: of the connector.
        slot: likewise; None for any of the database.
        statement_seconds: the longest time that a statement may take.
        source: its name in the configuration, for errors.
        connector: finds the connector; None where nobody knows it.
        nudge: what makes a connector at rest say how far it is; a statement, or whether there is
            anything.
        condition: on the rows that count, in the lake's names of columns; None for all.
    """

    login: str | Callable[[], str]
    table: tuple[str, str]
    schema: TableSchema
    where: str
    publication: str | None = None
    slot: str | None = None
    statement_seconds: float = 60.0
    source: str = ""
    connector: Callable[[], ConnectorOffsets | None] = lambda: None
    nudge: bool | str = False
    condition: RowCondition | None = None

    @property
    def dsn(self) -> str:
        """The DSN to connect with now."""
        return self.login if isinstance(self.login, str) else self.login()

    @property
    def answer_seconds(self) -> float:
        """How long a statement's answer is waited for."""
        return self.statement_seconds + GRACE_SECONDS

    def timed_out(self, address: str) -> TerminalError:
        """Returns the error of a statement that took too long, on a database at an address."""
        what = f"a statement took longer than {self.statement_seconds:g} s"
        remedy = "compare fewer rows at once (verify.chunk_rows), or raise verify.statement_seconds"
        return TerminalError(what, where=f"database {address} {self.where}", remedy=remedy)


@dataclass(frozen=True, slots=True)
class Driver:
    """A JDBC driver: the name of its class, and the artifact with it."""

    name: str
    artifact: str


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


class SourceRows(ABC):
    """The rows of one table, by an open connection.

    Attributes:
        access: how the connection was made.
        statements: the statements over the table.
        comparison: the columns of the rows that are compared.
    """

    def __init__(self, access: Access, statements: Statements) -> None:
        self.access = access
        self.statements = statements
        self.comparison = statements.comparison

    # ── what a database does ──────────────────────────────────────────────────────────────

    @abstractmethod
    def answer(self, statement: str, given: Given) -> Sequence[tuple[Any, ...]]:
        """Returns a statement's answer."""

    @abstractmethod
    def streamed(self, statement: str, given: Given) -> Iterator[tuple[Any, ...]]:
        """Yields a statement's answer; the server sends some rows at a time."""

    @abstractmethod
    def literal(self, statement: str, given: Given) -> str:
        """Returns a statement with the values of its parameters."""

    @abstractmethod
    def at_once(self, read: Callable[[], S]) -> tuple[str, S]:
        """Reads in one transaction, by one snapshot.

        Returns:
            A place in the log after everything that the snapshot shows, and the answer.
        """

    @abstractmethod
    def estimate(self) -> int:
        """Returns about how many rows there are, by the database's statistics."""

    @abstractmethod
    def place(self) -> str:
        """Returns the end of the database's log, which is after everything that was read before."""

    @abstractmethod
    def is_past(self, position: str) -> bool:
        """Returns whether whatever is committed from now on gets a higher position, hexadecimal."""

    @abstractmethod
    def moment(self) -> str:
        """Returns the present, by which `is_over` tells whether all see what came before."""

    @abstractmethod
    def is_over(self, moment: str) -> bool:
        """Returns whether no transaction is open any more that was at a moment.

        A connector may see a commit before readers do, which PostgreSQL lets wait for standbys.
        """

    @abstractmethod
    def delivery(self, until: str) -> DeliveryState:
        """Returns whether Kafka has everything up to a place."""

    @abstractmethod
    def nudge(self) -> None:
        """Writes something to the log that makes a connector at rest say how far it is."""

    @abstractmethod
    def close(self) -> None:
        """Ends the connection."""

    @abstractmethod
    def reader_options(self) -> Mapping[str, str]:
        """Returns the options of Spark's JDBC reader, except for the query; secrets among them.

        Raises:
            ConfigError: if Spark cannot reach the database as the configuration does.
        """

    def shared_snapshot(self) -> AbstractContextManager[Mapping[str, str]]:
        """Yields further options by which all readers of a wave see one snapshot."""
        return nullcontext({})

    # ── the same for all databases ────────────────────────────────────────────────────────

    @property
    def is_ordered(self) -> bool:
        """Whether the database finds a range of keys without reading the whole table."""
        return self.statements.is_ordered

    @property
    def finds_keys(self) -> bool:
        """Whether the database finds single keys without reading the whole table."""
        return self.statements.finds_keys

    def sums(self, within: Range) -> Mapping[int, Sum]:
        """Returns count and checksum of each bucket that has rows."""
        found: dict[int, Sum] = {}
        for number, count, first, second, unknown in self.answer(*self.statements.sums(within)):
            self._digested(None if unknown else "")
            found[int(number)] = Sum(int(count), int(first), int(second))
        return found

    def total(self) -> tuple[str, Sum]:
        """Returns count and checksum of all rows, and the place that they lie before."""
        until, sums = self.at_once(lambda: self.sums(Range(None, None)))
        return until, sums.get(0, Sum())

    def digests(self, within: Sequence[Range]) -> Iterator[tuple[Key, str]]:
        """Returns key and digest of each row of some ranges: ascending, none overlaps another."""
        for row in self.streamed(*self.statements.digests(within)):
            yield tuple(row[:-1]), self._digested(row[-1])

    def found(self, keys: Sequence[Key]) -> SourceKeyRows:
        """Returns the rows of some keys."""
        until, rows = self.at_once(
            lambda: [
                row
                for some in self.statements.in_statements(keys)
                for row in self.answer(*self.statements.found(some))
            ]
        )
        return SourceKeyRows.of(until, rows, self.comparison, keys)

    def bounds(self, within: Range, every: int, count: int) -> tuple[Key, ...]:
        """Returns each ``every``-th key of a range, at most ``count`` of them.

        Raises:
            TerminalError: if one has NULL: no row is below it, and none from it on.
        """
        if self.statements.numbers_rows:
            found = [*map(tuple, self.answer(*self.statements.bounds(within, every, count)))]
        else:
            found = self._bounds_one_by_one(within, every, count)
        if any(None in key for key in found):
            fault = null_in_key()
            raise TerminalError(fault.what, where=self.access.where, remedy=fault.remedy)
        return tuple(found)

    def _bounds_one_by_one(self, within: Range, every: int, count: int) -> list[Key]:
        found: list[Key] = []
        while len(found) < count:
            rows = self.answer(*self.statements.after(within, every))
            if not rows:
                break
            found.append(tuple(rows[0]))
            within = Range(found[-1], within.end)
        return found

    def reading(self) -> TableReading:
        """Returns the reading of the whole table in waves.

        Raises:
            ConfigError: as `reader_options`.
        """
        return TableReading(self)

    def require_keys(self) -> None:
        """Closes the connection, and refuses the table, if a row's key does not identify it.

        Raises:
            TerminalError: if there is such a row.
        """
        for statement, fault in self.statements.faulty_keys():
            if self.answer(*statement):
                self.close()
                raise TerminalError(fault.what, where=self.access.where, remedy=fault.remedy)

    def _digested(self, digest: str | None) -> str:
        if digest is None:
            what = f"a row is too long for the database to digest it ({self.statements.longest})"
            raise TerminalError(what, where=self.access.where, remedy="raise it on the server")
        return digest


@dataclass(frozen=True, slots=True)
class Wave:
    """A range of keys that is to be read; open until its block ends.

    Attributes:
        end: the key that the next wave begins with; None for the last one.
        parts: for each part, the options of Spark's JDBC reader; secrets among them.
    """

    end: Key | None
    parts: Sequence[Mapping[str, str]] = field(repr=False)


class TableReading:
    """Reads a table in waves.

    Attributes:
        omitted: places of the columns whose values an update may leave out of its event.
    """

    def __init__(self, rows: SourceRows) -> None:
        self.omitted = rows.statements.omitted
        self._rows = rows
        rows.reader_options()  # refuses now what Spark cannot read

    @contextmanager
    def wave(self, start: Key | None, rows: int, parts: int) -> Iterator[Wave]:
        """Yields a wave: so many parts of so many rows, from a key on; None for the first wave."""
        options = self._rows.reader_options()
        with self._rows.shared_snapshot() as more:
            within, end = ranges(start, self._rows.bounds(Range(start, None), rows, parts), parts)
            yield Wave(end, [{**options, **more, "query": self._query(w)} for w in within])

    @contextmanager
    def parts(self, within: Sequence[Sequence[Range]]) -> Iterator[Wave]:
        """Yields a wave of these parts, each of which has the rows of some ranges."""
        options = self._rows.reader_options()
        with self._rows.shared_snapshot() as more:
            queries = (" UNION ALL ".join(map(self._query, each)) for each in within)
            yield Wave(None, [{**options, **more, "query": query} for query in queries])

    def estimate(self) -> int:
        """Returns about how many rows there are."""
        return self._rows.estimate()

    def _query(self, within: Range) -> str:
        return self._rows.literal(*self._rows.statements.whole(within))


def ranges(start: Key | None, bounds: Sequence[Key], parts: int) -> tuple[list[Range], Key | None]:
    """Returns a wave's parts, and where the next one begins; None if there is none.

    Args:
        start: where the wave begins.
        bounds: where its parts end, as many as there are.
        parts: as many were asked for; fewer bounds are those of the last wave.
    """
    end = bounds[-1] if len(bounds) == parts else None
    starts = (start, *(bounds if end is None else bounds[:-1]))
    ends = (*bounds, None) if end is None else tuple(bounds)
    return [Range(*pair) for pair in zip(starts, ends, strict=True)], end
