"""Rows of a table of MySQL or MariaDB, counted, digested and read: see `cdc_assets.databases.rows`.

How far readers are is asked in two ways. MariaDB says where in its binlog a consistent snapshot
stands. MySQL does not: there all transactions that write and were open have to be over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pymysql
from pymysql.cursors import SSCursor

from cdc_assets.changes.names import TableName
from cdc_assets.databases.facts import Facts
from cdc_assets.databases.mysql.catalog import (
    connected,
    read_tables,
    translated,
    without_cryptography,
)
from cdc_assets.databases.mysql.comparing import (
    canonical,
    equal,
    form_of,
    framed,
    is_indexed,
    may_be_key,
    of_text,
    ordered,
    quote,
    told,
)
from cdc_assets.databases.mysql.dsn import parse_dsn
from cdc_assets.databases.mysql.places import Place, has_delivered, place_of
from cdc_assets.databases.mysql.types import MysqlColumn
from cdc_assets.databases.rows import Access, ConnectorOffsets, Delivery, Found, Range, paired
from cdc_assets.errors import ConfigError, TerminalError
from cdc_assets.schema.comparing import (
    BucketTree,
    Comparison,
    Key,
    Sum,
    tree,
)

KEYS_IN_STATEMENT: Final = 200
_GRACE_SECONDS: Final = 30.0
"""So much longer than a statement may take its answer is waited for."""

_TIMED_OUT: Final = frozenset({1969, 3024})
_REFUSED: Final = frozenset({1044, 1045, 1142, 1227})
_NO_SYNTAX: Final = 1064
_SETTINGS: Final = (
    "SET SESSION time_zone = '+00:00', sql_mode = '', collation_connection = utf8mb4_bin",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION TRANSACTION READ ONLY",
)
"""As the connector's values are written: instants in UTC, zero dates as they are."""

_CONSISTENT: Final = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
_ENDS: Final = ("SHOW BINLOG STATUS", "SHOW BINARY LOG STATUS", "SHOW MASTER STATUS")
"""MariaDB; MySQL from 8.2 on; before."""

_SNAPSHOT: Final = "SHOW STATUS LIKE 'binlog_snapshot_%%'"
_OPEN: Final = "SELECT trx_id FROM information_schema.INNODB_TRX WHERE trx_rows_modified > 0"
"""One that is about to commit is among them until others see it. Up to 0.1 s old."""
_CHARSETS: Final = """
SELECT COLUMN_NAME, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = %(schema)s AND TABLE_NAME = %(name)s
"""
_SUMS: Final = """
SELECT bucket, COUNT(*), SUM(CAST(CONV(SUBSTR(digest, 1, 15), 16, 10) AS UNSIGNED)),
       SUM(CAST(CONV(SUBSTR(digest, 16, 15), 16, 10) AS UNSIGNED)), SUM(digest IS NULL)
FROM (SELECT {bucket} AS bucket, {digest} AS digest FROM {table} AS t WHERE {condition}
      LIMIT 18446744073709551615) AS r
GROUP BY bucket
"""
"""LIMIT keeps the digest from being written into all of its uses."""


@dataclass(frozen=True, slots=True)
class _Texts:
    """SQL for each column, by the lake's names; ``in_order`` and what follows have the key's."""

    canonical: Mapping[str, str]
    told: Mapping[str, str]
    in_order: tuple[str, ...]
    from_text: tuple[str, ...]
    equal: tuple[str, ...]


class MysqlRows:
    """See `SourceRows`. Make one by `of`."""

    def __init__(
        self,
        connection: pymysql.Connection[Any],
        access: Access,
        comparison: Comparison,
        texts: _Texts,
        *,
        is_ordered: bool,
    ) -> None:
        self.comparison = comparison
        self.is_ordered = is_ordered
        self._connection = connection
        self._access = access
        self._address = parse_dsn(access.dsn).address
        self._texts = texts
        self._table = ".".join(quote(part) for part in access.table)
        self._is_mariadb = bool(self._asked("SELECT VERSION() LIKE '%%MariaDB%%'")[0][0])
        self._limit()

    @classmethod
    def of(cls, access: Access) -> MysqlRows:
        """Look the table up, and open a connection that reads it.

        Raises:
            UnreachableError: if the database does not answer.
            TerminalError: if it refuses, or is none whose rows can be compared.
        """
        name = TableName("", *access.table)
        table = read_tables(access.dsn, [name]).get(name)
        if table is None:
            what = "the source's database has no such table"
            raise TerminalError(what, where=access.where, remedy="was it dropped, or renamed?")
        known = {each.name: each for each in table.columns}
        sources, comparison = paired(known, access.schema, form_of, may_be_key)
        connection = _opened(access)
        with _failing(access):
            charsets = _charsets(connection, access)
        texts = _texts(comparison, sources, charsets, table.facts)
        first = comparison.key[0].name if comparison.key else ""
        is_ordered = bool(first) and is_indexed(sources[first])
        return cls(connection, access, comparison, texts, is_ordered=is_ordered)

    def place(self) -> str:
        """See `SourceRows`."""
        return str(self._end())

    def sums(self, within: Range) -> Mapping[int, Sum]:
        """See `SourceRows`."""
        given: dict[str, str] = {}
        bucket = self._bucket(tree(within.bounds), given)
        condition = self._within(within.start, within.end, given)
        return self._added_up(bucket, condition, given)

    def digests(self, within: Sequence[Range]) -> Iterator[tuple[Key, str]]:
        """See `SourceRows`; the server sends rows as they are read."""
        given: dict[str, str] = {}
        keys = ", ".join(self._texts.canonical[each.name] for each in self.comparison.key)
        conditions = [f"({self._within(each.start, each.end, given)})" for each in within]
        statement = (
            f"SELECT {keys}, {self._digest} FROM {self._table} AS t"  # noqa: S608 - quoted names
            f" WHERE {' OR '.join(conditions)}"
        )
        with _failing(self._access), self._connection.cursor(SSCursor) as cursor:
            cursor.execute(statement, given)
            for row in cursor.fetchall_unbuffered():
                yield tuple(row[:-1]), self._whole(row[-1])

    def moment(self) -> str:
        """See `SourceRows`: the end of the binlog; of MySQL the transactions that are open."""
        return str(self._end()) if self._is_mariadb else ",".join(sorted(self._open()))

    def is_over(self, moment: str) -> bool:
        """See `SourceRows`: a commit is in the binlog, and with connectors, before it is seen."""
        if not self._is_mariadb:
            return self._open().isdisjoint(moment.split(","))
        with self._snapshot():
            return self._seen().reaches(Place.parse(moment))

    def found(self, keys: Sequence[Key]) -> Found:
        """See `SourceRows`: one transaction, whose snapshot is not newer than the place."""
        names = [each.name for each in self.comparison.columns]
        columns = [self._texts.canonical[n] for n in names] + [self._texts.told[n] for n in names]
        own = [self._texts.canonical[each.name] for each in self.comparison.key]
        width, asked = len(own), frozenset(keys)
        found: dict[Key, tuple[str | None, ...]] = {}
        tells: dict[Key, tuple[str | None, ...]] = {}
        with self._snapshot():
            for n in range(0, len(keys), KEYS_IN_STATEMENT):
                given: dict[str, str] = {}
                some = keys[n : n + KEYS_IN_STATEMENT]
                condition = " OR ".join(self._equals(key, given) for key in some)
                statement = (
                    f"SELECT {', '.join([*own, *columns])} FROM {self._table} AS t"  # noqa: S608 - quoted names
                    f" WHERE {condition}"
                )
                for row in self._asked(statement, given):
                    key = tuple(row[:width])
                    if key in asked:  # an equality of a collation finds others, too
                        found[key] = tuple(row[width : width + len(names)])
                        tells[key] = tuple(row[width + len(names) :])
            until = self._end()
        return Found(str(until), found, tells)

    def total(self) -> tuple[str, Sum]:
        """See `SourceRows`."""
        with self._snapshot():
            sums = self._added_up("0", "TRUE", {})
            until = self._end()
        return str(until), sums.get(0, Sum())

    def delivery(self, until: str) -> Delivery:
        """See `SourceRows`: by what Kafka Connect has committed for the connector."""
        connector = self._connector
        if connector is None:
            who = f"no connector is known (sources.{self._access.source}.connect)"
            return Delivery(False, who, is_hopeless=True)
        place = next((place_of(each) for each in connector.offsets()), None)
        if place is None:
            return Delivery(False, f"connector {connector.name}, which takes its snapshot,")
        done = has_delivered(place, Place.parse(until), self._end())
        return Delivery(done, f"connector {connector.name}, which is at {place},")

    @cached_property
    def _connector(self) -> ConnectorOffsets | None:
        return self._access.connector()

    def nudge(self) -> None:
        """See `SourceRows`: the configured statement, in a transaction of its own."""
        statement = self._access.nudge
        if not isinstance(statement, str):
            what = "verify.nudge: nothing tells what may be written to the binlog"
            remedy = "write the statement, such as REPLACE INTO ops.heartbeat VALUES (1, now())"
            raise ConfigError(what, where=self._access.where, remedy=remedy)
        server = parse_dsn(self._access.dsn)
        with _failing(self._access), connected(server, server.tls.arguments()) as connection:
            with connection.cursor() as cursor:
                cursor.execute(statement)
            connection.commit()

    def close(self) -> None:
        """See `SourceRows`."""
        self._connection.close()

    # ── parts of statements ──────────────────────────────────────────────────────────────

    @property
    def _digest(self) -> str:
        texts = (framed(self._texts.canonical[each.name]) for each in self.comparison.columns)
        return f"MD5(CONCAT({', '.join(texts)}))"

    def _bucket(self, of: BucketTree, given: dict[str, str]) -> str:
        if isinstance(of, int):
            return str(of)
        below, above = self._bucket(of.below, given), self._bucket(of.above, given)
        return f"CASE WHEN {self._before(of.bound, given)} THEN {below} ELSE {above} END"

    def _within(self, start: Key | None, end: Key | None, given: dict[str, str]) -> str:
        conditions: list[str] = []
        first = self._texts.in_order[0]
        if start is not None:
            conditions.append(f"{first} >= {self._bounds(start, given)[0]}")
            conditions.append(f"NOT ({self._before(start, given)})")
        if end is not None:
            conditions.append(f"{first} <= {self._bounds(end, given)[0]}")
            conditions.append(self._before(end, given))
        return " AND ".join(f"({each})" for each in conditions) or "TRUE"

    def _before(self, bound: Key, given: dict[str, str]) -> str:
        """Column by column: for a comparison of rows no index is used."""
        pairs = list(zip(self._texts.in_order, self._bounds(bound, given), strict=True))
        column, value = pairs.pop()
        condition = f"{column} < {value}"
        for column, value in reversed(pairs):
            condition = f"({column} < {value} OR ({column} = {value} AND {condition}))"
        return condition

    def _bounds(self, key: Key, given: dict[str, str]) -> list[str]:
        return [
            made.replace("{}", _given(text, given))
            for made, text in zip(self._texts.from_text, key, strict=True)
        ]

    def _equals(self, key: Key, given: dict[str, str]) -> str:
        pairs = zip(self._texts.equal, key, strict=True)
        same = (made.replace("{}", _given(text, given)) for made, text in pairs)
        return f"({' AND '.join(same)})"

    # ── asking ───────────────────────────────────────────────────────────────────────────

    def _limit(self) -> None:
        seconds = self._access.statement_seconds
        if self._is_mariadb:
            self._asked("SET SESSION max_statement_time = %(seconds)s", {"seconds": seconds})
        else:
            millis = {"millis": int(seconds * 1000)}
            self._asked("SET SESSION max_execution_time = %(millis)s", millis)

    def _added_up(self, bucket: str, condition: str, given: dict[str, str]) -> dict[int, Sum]:
        statement = _SUMS.format(
            bucket=bucket, digest=self._digest, table=self._table, condition=condition
        )
        found: dict[int, Sum] = {}
        for number, count, first, second, unknown in self._asked(statement, given):
            self._whole(None if unknown else "")
            found[int(number)] = Sum(int(count), int(first), int(second))
        return found

    def _whole(self, digest: str | None) -> str:
        if digest is None:
            what = "a row is too long for the database to digest it (max_allowed_packet)"
            raise TerminalError(what, where=self._access.where, remedy="raise it on the server")
        return digest

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        self._asked(_CONSISTENT)
        try:
            yield
        finally:
            self._asked("COMMIT")

    def _open(self) -> frozenset[str]:
        return frozenset(str(number) for (number,) in self._asked(_OPEN))

    def _seen(self) -> Place:
        """Where in the binlog the transaction's snapshot stands, of MariaDB."""
        said = {name.lower(): value for name, value in self._asked(_SNAPSHOT)}
        return Place(said.get("binlog_snapshot_file", ""),
                     int(said.get("binlog_snapshot_position", 0)))  # fmt: skip

    def _end(self) -> Place:
        """Of the binlog."""
        rows = next(filter(None, map(self._status, _ENDS)), ())
        if not rows:
            what = "the server writes no binlog: it is not the one that a connector reads"
            raise TerminalError(what, where=f"database {self._address}", remedy="name that one")
        gtids = self._asked("SELECT @@global.gtid_binlog_pos")[0][0] if self._is_mariadb else ""
        return Place(str(rows[0][0]), int(rows[0][1]), str(gtids).replace("\n", ""))

    def _status(self, statement: str) -> tuple[tuple[Any, ...], ...]:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall()
        except pymysql.Error as error:
            number = error.args[0] if error.args else 0
            if number == _NO_SYNTAX:
                return ()
            if number in _REFUSED:
                what = "the user may not ask where the binlog ends"
                remedy = "GRANT BINLOG MONITOR (MariaDB), or REPLICATION CLIENT and PROCESS (MySQL)"
                raise TerminalError(
                    what, where=f"database {self._address}", remedy=remedy
                ) from None
            raise failure(error, self._access) from None

    def _asked(
        self, statement: str, given: Mapping[str, Any] | None = None
    ) -> tuple[tuple[Any, ...], ...]:
        with _failing(self._access), self._connection.cursor() as cursor:
            cursor.execute(statement, given or {})
            return cursor.fetchall()


def failure(error: pymysql.Error, access: Access) -> Exception:
    """What a person is told."""
    address = parse_dsn(access.dsn).address
    if error.args and error.args[0] in _TIMED_OUT:
        what = f"a statement took longer than {access.statement_seconds:g} s"
        remedy = "compare fewer rows at once (verify.chunk_rows), or raise verify.statement_seconds"
        return TerminalError(what, where=f"database {address} {access.where}", remedy=remedy)
    return translated(error, address)


@contextmanager
def _failing(access: Access) -> Iterator[None]:
    try:
        yield
    except pymysql.Error as error:
        raise failure(error, access) from None
    except RuntimeError:  # PyMySQL without its optional package
        raise without_cryptography(parse_dsn(access.dsn).address) from None


def _opened(access: Access) -> pymysql.Connection[Any]:
    server = parse_dsn(access.dsn)
    seconds = access.statement_seconds + _GRACE_SECONDS
    with _failing(access):
        connection = connected(server, server.tls.arguments(), seconds)
        connection.autocommit(True)
        with connection.cursor() as cursor:
            for statement in _SETTINGS:
                cursor.execute(statement)
    return connection


def _charsets(connection: pymysql.Connection[Any], access: Access) -> dict[str, tuple[str, str]]:
    """Character set and collation of each column."""
    schema, name = access.table
    with connection.cursor() as cursor:
        cursor.execute(_CHARSETS, {"schema": schema, "name": name})
        return {name: (charset or "", own or "") for name, charset, own in cursor.fetchall()}


def _given(text: str, given: dict[str, str]) -> str:
    name = f"p{len(given)}"
    given[name] = text
    return f"%({name})s"


def _texts(
    comparison: Comparison,
    sources: Mapping[str, MysqlColumn],
    charsets: Mapping[str, tuple[str, str]],
    facts: Mapping[str, Facts],
) -> _Texts:
    places = {name: f"t.{quote(source.name)}" for name, source in sources.items()}
    defaults = {n: facts[s.name].existing if s.name in facts else None for n, s in sources.items()}
    key = [(sources[each.name], each, places[each.name]) for each in comparison.key]
    columns = [(each.name, sources[each.name], each) for each in comparison.columns]
    return _Texts(
        {n: canonical(source, c, places[n], defaults[n]) for n, source, c in columns},
        {n: told(source, c, places[n], defaults[n]) for n, source, c in columns},
        tuple(ordered(source, place) for source, _, place in key),
        tuple(of_text(source, c) for source, c, _ in key),
        tuple(equal(source, c, place, charsets[source.name]) for source, c, place in key),
    )
