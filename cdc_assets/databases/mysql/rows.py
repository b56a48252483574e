"""Rows of a table of MySQL or MariaDB, counted, digested and read: see `cdc_assets.databases.rows`.

How far readers are is asked in two ways. MariaDB says where in its binlog a consistent snapshot
stands. MySQL does not: there all transactions that write and were open have to be over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

import pymysql
from pymysql.cursors import SSCursor

from cdc_assets.changes.position import Scheme, decode, epoch_bits
from cdc_assets.databases.mysql.catalog import read_tables
from cdc_assets.databases.mysql.comparing import finds_keys, form_of, is_indexed, may_be_key
from cdc_assets.databases.mysql.connection import connected, translated, without_cryptography
from cdc_assets.databases.mysql.dsn import parse_dsn
from cdc_assets.databases.mysql.places import Place, has_delivered, is_same_log, place_of
from cdc_assets.databases.mysql.statements import Given, Statements, texts_of
from cdc_assets.databases.reading import TableReading
from cdc_assets.databases.rows import (
    GRACE_SECONDS,
    Access,
    ConnectorOffsets,
    Delivery,
    Found,
    Range,
    paired,
    table_of,
)
from cdc_assets.errors import ConfigError, TerminalError
from cdc_assets.schema.comparing import Comparison, Key, Sum, tree

KEYS_IN_STATEMENT: Final = 200
_PLACED: Final = Scheme.MARIADB.numbers
"""A position with a place in a binlog has at least so many numbers."""

_TIMED_OUT: Final = frozenset({1969, 3024})
_REFUSED: Final = frozenset({1044, 1045, 1142, 1227})
_NO_SYNTAX: Final = 1064
SESSION: Final = {
    "time_zone": "'+00:00'",
    "sql_mode": "''",
    "collation_connection": "utf8mb4_bin",
    "max_sort_length": "16384",  # bytes of the longest key
}
"""As the connector's values are written: instants in UTC, zero dates as they are."""

READ_ONLY: Final = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"

_CONSISTENT: Final = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
_ENDS: Final = ("SHOW BINLOG STATUS", "SHOW BINARY LOG STATUS", "SHOW MASTER STATUS")
"""MariaDB; MySQL from 8.2 on; before."""

_GTIDS: Final = "SELECT BINLOG_GTID_POS(%(file)s, %(position)s)"
_SNAPSHOT: Final = "SHOW STATUS LIKE 'binlog_snapshot_%%'"
_OPEN: Final = "SELECT trx_id FROM information_schema.INNODB_TRX WHERE trx_rows_modified > 0"
"""One that is about to commit is among them until others see it. Up to 0.1 s old."""
_ESTIMATE: Final = """
SELECT TABLE_ROWS FROM information_schema.TABLES
WHERE TABLE_SCHEMA = %(schema)s AND TABLE_NAME = %(name)s
"""
_CHARSETS: Final = """
SELECT COLUMN_NAME, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = %(schema)s AND TABLE_NAME = %(name)s
"""


class MysqlRows:
    """See `SourceRows`. Make one by `of`."""

    def __init__(
        self,
        connection: pymysql.Connection[Any],
        access: Access,
        comparison: Comparison,
        statements: Statements,
        *,
        finds_keys: bool,
    ) -> None:
        self.comparison = comparison
        self.is_ordered = statements.is_ordered
        self.finds_keys = finds_keys
        self._connection = connection
        self._access = access
        self._address = parse_dsn(access.dsn).address
        self._statements = statements
        self._is_recognised = False
        self._is_mariadb = bool(self._asked("SELECT VERSION() LIKE '%%MariaDB%%'")[0][0])
        self._asked(f"SET SESSION {' = '.join(self._limit)}")

    @classmethod
    def of(cls, access: Access) -> MysqlRows:
        """Looks the table up, and opens a connection that reads it.

        Raises:
            UnreachableError: if the database does not answer.
            TerminalError: if it refuses, or is none whose rows can be compared.
        """
        table = table_of(access, read_tables)
        known = {each.name: each for each in table.columns}
        sources, comparison = paired(known, access.schema, form_of, may_be_key)
        connection = _opened(access)
        with _failing(access):
            charsets = _charsets(connection, access)
        texts = texts_of(comparison, sources, charsets, table.facts)
        first = sources[comparison.key[0].name] if comparison.key else None
        is_ordered = first is not None and is_indexed(first)
        statements = Statements(access.table, comparison, texts, is_ordered)
        finds = first is not None and finds_keys(first)
        rows = cls(connection, access, comparison, statements, finds_keys=finds)
        rows._require_days()
        return rows

    def place(self) -> str:
        """See `SourceRows`."""
        return str(self._end())

    def sums(self, within: Range) -> Mapping[int, Sum]:
        """See `SourceRows`."""
        given: Given = {}
        bucket = self._statements.bucket(tree(within.bounds), given)
        return self._added_up(bucket, self._statements.within(within, given), given)

    def digests(self, within: Sequence[Range]) -> Iterator[tuple[Key, str]]:
        """See `SourceRows`; the server sends rows as they are read."""
        given: Given = {}
        statement = self._statements.digests(within, given)
        with _failing(self._access), self._connection.cursor(SSCursor) as cursor:
            cursor.execute(statement, given)
            for row in cursor.fetchall_unbuffered():
                yield tuple(row[:-1]), self._whole(row[-1])

    def is_past(self, position: str) -> bool:
        """See `SourceRows`: MariaDB's next transaction has the place of the snapshot before it."""
        numbers = decode(bytes.fromhex(position))
        if not self._is_mariadb or len(numbers) < _PLACED:
            return True
        file = numbers[0] & ((1 << epoch_bits(Scheme.MARIADB)) - 1)
        return self._end().number != (file, numbers[1])

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
        rows: list[tuple[Any, ...]] = []
        each = KEYS_IN_STATEMENT if self.finds_keys else max(len(keys), 1)
        with self._snapshot():
            for n in range(0, len(keys), each):
                given: Given = {}
                statement = self._statements.found(keys[n : n + each], given)
                rows += self._asked(statement, given)
            until = self._end()
        return Found.of(str(until), rows, self.comparison, keys)

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
        if done and not self._is_read_by(place):
            who = (
                f"connector {connector.name}, which reads another server than database "
                f"{self._address} (it is at {place}, which is none of its places),"
            )
            return Delivery(False, who)
        return Delivery(done, f"connector {connector.name}, which is at {place},")

    def _is_read_by(self, connector: Place) -> bool:
        """Returns whether a connector of MariaDB reads this binlog; looked at until it does."""
        if self._is_mariadb and not self._is_recognised:
            here = {"file": connector.file, "position": connector.position}
            gtids = self._asked(_GTIDS, here)[0][0]
            self._is_recognised = is_same_log(connector, str(gtids or ""))
        return self._is_recognised or not self._is_mariadb

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

    # ── to be read in waves ──────────────────────────────────────────────────────────────

    def reading(self) -> TableReading:
        """Returns the reading of the whole table in waves."""
        from cdc_assets.databases.mysql.reading import MysqlReading

        return MysqlReading(self, self._access)

    def bounds(self, start: Key | None, every: int, count: int) -> tuple[Key, ...]:
        """Returns each so manieth key from one on, at most so many of them."""
        found: list[Key] = []
        while len(found) < count:
            given: Given = {}
            rows = self._asked(self._statements.after(start, every, given), given)
            if not rows:
                break
            start = tuple(rows[0])
            found.append(start)
        return tuple(found)

    def whole(self, within: Range) -> str:
        """Returns a statement for a range's rows, as `databases.reading` names columns."""
        given: Given = {}
        statement = self._statements.whole(within, given)
        with self._connection.cursor() as cursor:
            return cursor.mogrify(statement, given)

    def estimate(self) -> int:
        """See `SourceRows`."""
        schema, name = self._access.table
        rows = self._asked(_ESTIMATE, {"schema": schema, "name": name})
        return int(rows[0][0] or 0) if rows else 0

    def session(self) -> Mapping[str, str]:
        """Variables of each session that reads the table, as SQL has their values."""
        name, value = self._limit
        return {**SESSION, name: value}

    def is_encrypted(self) -> bool:
        """Returns whether the connection is."""
        return any(value for _, value in self._asked("SHOW SESSION STATUS LIKE 'Ssl_cipher'"))

    # ── asking ───────────────────────────────────────────────────────────────────────────

    @property
    def _limit(self) -> tuple[str, str]:
        """The variable that bounds what a statement takes, and its value."""
        seconds = self._access.statement_seconds
        if self._is_mariadb:
            return "max_statement_time", f"{seconds:.3f}"
        return "max_execution_time", f"{seconds * 1000:.0f}"

    def _require_days(self) -> None:
        """Refuses keys of which the lake has another date, that of another row perhaps."""
        statement = self._statements.lacking_days()
        if statement and self._asked(statement):
            what = (
                "the key of a row has a date without a month or a day, in whose place connectors "
                "write another date: rows cannot be told apart"
            )
            remedy = "give these rows a date; connectors cannot tell them apart either"
            self.close()
            raise TerminalError(what, where=self._access.where, remedy=remedy)

    def _added_up(self, bucket: str, condition: str, given: Given) -> dict[int, Sum]:
        statement = self._statements.sums(bucket, condition)
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
        """Returns the place in MariaDB's binlog of the transaction's snapshot."""
        said = {name.lower(): value for name, value in self._asked(_SNAPSHOT)}
        return Place(said.get("binlog_snapshot_file", ""),
                     int(said.get("binlog_snapshot_position", 0)))  # fmt: skip

    def _end(self) -> Place:
        """Returns the end of the binlog."""
        rows = next(filter(None, map(self._status, _ENDS)), ())
        if not rows:
            what = "the server writes no binlog: it is not the one that a connector reads"
            raise TerminalError(what, where=f"database {self._address}", remedy="name that one")
        return Place(str(rows[0][0]), int(rows[0][1]))

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
    """Returns the error that a person is shown."""
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
    seconds = access.statement_seconds + GRACE_SECONDS
    with _failing(access):
        connection = connected(server, server.tls.arguments(), seconds)
        connection.autocommit(True)
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION {', '.join(f'{n} = {v}' for n, v in SESSION.items())}")
            cursor.execute(READ_ONLY)
    return connection


def _charsets(connection: pymysql.Connection[Any], access: Access) -> dict[str, tuple[str, str]]:
    """Returns character set and collation of each column."""
    schema, name = access.table
    with connection.cursor() as cursor:
        cursor.execute(_CHARSETS, {"schema": schema, "name": name})
        return {name: (charset or "", own or "") for name, charset, own in cursor.fetchall()}
