"""Reads the rows of a table of MySQL or MariaDB: see `cdc_assets.databases.rows`.

How far readers are is asked in two ways. MariaDB says where in its binlog a consistent snapshot
stands. MySQL does not: there all transactions that write and were open have to be over.

Each part of a wave is read by one statement, which shows its keys as of the moment at which it
began; no snapshot is shared.

Spark reads by MariaDB's JDBC driver. The URL is one of MySQL: by it Spark quotes names as MySQL
does. With ``jdbc:mariadb:`` Spark 4.1 writes them in double quotes, which are texts there. All else
is given as properties of the driver:
https://mariadb.com/docs/connectors/mariadb-connector-j/about-mariadb-connector-j
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

import pymysql
from pymysql.cursors import SSCursor

from cdc_assets.changes.position import Scheme, decode, epoch_bits
from cdc_assets.databases.dialect import Given
from cdc_assets.databases.mysql.catalog import read_tables
from cdc_assets.databases.mysql.connection import (
    WHERE,
    Dsn,
    Tls,
    TlsMode,
    connected,
    parse_dsn,
    translated,
    without_cryptography,
)
from cdc_assets.databases.mysql.dialect import MysqlDialect, MysqlSource
from cdc_assets.databases.mysql.server import BinlogPosition, has_delivered, is_same_log, place_of
from cdc_assets.databases.rows import (
    Access,
    ConnectorOffsets,
    DeliveryState,
    Driver,
    SourceRows,
    table_of,
)
from cdc_assets.databases.statements import Statements, paired
from cdc_assets.errors import ConfigError, TerminalError

T = TypeVar("T")

_PLACED: Final = Scheme.MARIADB.numbers
"""A position with a place in a binlog has at least so many numbers."""

_TIMED_OUT: Final = frozenset({1969, 3024})
_REFUSED: Final = frozenset({1044, 1045, 1142, 1227})
_NO_SYNTAX: Final = 1064
_SESSION: Final = {
    "time_zone": "'+00:00'",
    "sql_mode": "''",
    "collation_connection": "utf8mb4_bin",
    "max_sort_length": "16384",  # bytes of the longest key
    "sql_select_limit": "18446744073709551615",  # a lower one cuts answers off without an error
}
"""As the connector's values are written: instants in UTC, zero dates as they are."""

_READ_ONLY: Final = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"

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

DRIVER: Final = Driver("org.mariadb.jdbc.Driver", "org.mariadb.jdbc:mariadb-java-client")
FETCH: Final = 5_000
"""So many rows come at a time, and are held by a task."""

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_CONNECT_MILLIS: Final = "10000"


class MysqlRows(SourceRows):
    """See `SourceRows`. Make one by `of`."""

    def __init__(
        self, connection: pymysql.Connection[Any], access: Access, statements: Statements
    ) -> None:
        super().__init__(access, statements)
        self._connection = connection
        self._address = parse_dsn(access.dsn).address
        self._is_recognised = False
        self._is_mariadb = bool(self.answer("SELECT VERSION() LIKE '%%MariaDB%%'")[0][0])
        self.answer(f"SET SESSION {' = '.join(self._limit)}")

    @classmethod
    def of(cls, access: Access) -> MysqlRows:
        """Looks the table up, and opens a connection that reads it.

        Raises:
            UnreachableError: if the database does not answer.
            TerminalError: if it refuses, or is none whose rows can be compared.
        """
        table, dialect = table_of(access, read_tables), MysqlDialect()
        connection = _opened(access)
        with _failing(access):
            charsets = _charsets(connection, access)
        known = {
            each.name: MysqlSource(each, table.facts[each.name].existing, *charsets[each.name])
            for each in table.columns
        }
        sources, comparison = paired(known, access.schema, dialect)
        of = Statements(dialect, access.table, comparison, sources, access.condition)
        rows = cls(connection, access, of)
        rows.require_keys()
        return rows

    def answer(self, statement: str, given: Given | None = None) -> Sequence[tuple[Any, ...]]:
        """See `SourceRows`."""
        with _failing(self.access), self._connection.cursor() as cursor:
            cursor.execute(statement, given or {})
            return cursor.fetchall()

    def streamed(self, statement: str, given: Given) -> Iterator[tuple[Any, ...]]:
        """See `SourceRows`."""
        with _failing(self.access), self._connection.cursor(SSCursor) as cursor:
            cursor.execute(statement, given)
            yield from cursor.fetchall_unbuffered()

    def literal(self, statement: str, given: Given) -> str:
        """See `SourceRows`."""
        with self._connection.cursor() as cursor:
            return cursor.mogrify(statement, given)

    def at_once(self, read: Callable[[], T]) -> tuple[str, T]:
        """See `SourceRows`: the place is read last, for tables that a snapshot does not cover."""
        with self._snapshot():
            found = read()
            return self.place(), found

    def estimate(self) -> int:
        """See `SourceRows`."""
        schema, name = self.access.table
        rows = self.answer(_ESTIMATE, {"schema": schema, "name": name})
        return int(rows[0][0] or 0) if rows else 0

    def place(self) -> str:
        """See `SourceRows`."""
        return str(self._end())

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
            return self._seen().reaches(BinlogPosition.parse(moment))

    def delivery(self, until: str) -> DeliveryState:
        """See `SourceRows`: by what Kafka Connect has committed for the connector."""
        connector = self._connector
        if connector is None:
            who = f"no connector is known (sources.{self.access.source}.connect)"
            return DeliveryState(False, who, is_hopeless=True)
        place = next((place_of(each) for each in connector.offsets()), None)
        if place is None:
            return DeliveryState(False, f"connector {connector.name}, which takes its snapshot,")
        done = has_delivered(place, BinlogPosition.parse(until), self._end())
        if done and not self._is_read_by(place):
            who = (
                f"connector {connector.name}, which reads another server than database "
                f"{self._address} (it is at {place}, which is none of its places),"
            )
            return DeliveryState(False, who)
        return DeliveryState(done, f"connector {connector.name}, which is at {place},")

    def _is_read_by(self, connector: BinlogPosition) -> bool:
        """Returns whether a connector of MariaDB reads this binlog; looked at until it does."""
        if self._is_mariadb and not self._is_recognised:
            here = {"file": connector.file, "position": connector.position}
            gtids = self.answer(_GTIDS, here)[0][0]
            self._is_recognised = is_same_log(connector, str(gtids or ""))
        return self._is_recognised or not self._is_mariadb

    @cached_property
    def _connector(self) -> ConnectorOffsets | None:
        return self.access.connector()

    def nudge(self) -> None:
        """See `SourceRows`: the configured statement, in a transaction of its own."""
        statement = self.access.nudge
        if not isinstance(statement, str):
            what = "verify.nudge: it is unknown what may be written to the binlog"
            remedy = "write the statement, such as REPLACE INTO ops.heartbeat VALUES (1, now())"
            raise ConfigError(what, where=self.access.where, remedy=remedy)
        server = parse_dsn(self.access.dsn)
        with _failing(self.access), connected(server, server.tls.arguments()) as connection:
            with connection.cursor() as cursor:
                cursor.execute(statement)
            connection.commit()

    def close(self) -> None:
        """See `SourceRows`."""
        self._connection.close()

    def reader_options(self) -> Mapping[str, str]:
        """See `SourceRows`."""
        server, where = parse_dsn(self.access.dsn), self.access.where
        is_encrypted = any(
            value for _, value in self.answer("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        )
        name, value = self._limit
        session = {**_SESSION, name: value}
        return {
            **reader_options(server, where, is_encrypted=is_encrypted),
            "sessionVariables": ",".join(f"{n}={v}" for n, v in session.items()),
            "sessionInitStatement": _READ_ONLY,
            "socketTimeout": f"{self.access.answer_seconds * 1000:.0f}",
        }

    @property
    def _limit(self) -> tuple[str, str]:
        """The variable that bounds what a statement takes, and its value."""
        seconds = self.access.statement_seconds
        if self._is_mariadb:
            return "max_statement_time", f"{seconds:.3f}"
        return "max_execution_time", f"{seconds * 1000:.0f}"

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        self.answer(_CONSISTENT)
        try:
            yield
        finally:
            self.answer("COMMIT")

    def _open(self) -> frozenset[str]:
        return frozenset(str(number) for (number,) in self.answer(_OPEN))

    def _seen(self) -> BinlogPosition:
        """Returns the place in MariaDB's binlog of the transaction's snapshot."""
        said = {name.lower(): value for name, value in self.answer(_SNAPSHOT)}
        return BinlogPosition(said.get("binlog_snapshot_file", ""),
                     int(said.get("binlog_snapshot_position", 0)))  # fmt: skip

    def _end(self) -> BinlogPosition:
        """Returns the end of the binlog."""
        rows = next(filter(None, map(self._status, _ENDS)), ())
        if not rows:
            what = "the server writes no binlog: it is not the one that a connector reads"
            raise TerminalError(what, where=f"database {self._address}", remedy="name that one")
        return BinlogPosition(str(rows[0][0]), int(rows[0][1]))

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
            raise _failure(error, self.access) from None


def _failure(error: pymysql.Error, access: Access) -> Exception:
    """Returns the error that a person is shown."""
    address = parse_dsn(access.dsn).address
    if error.args and error.args[0] in _TIMED_OUT:
        return access.timed_out(address)
    return translated(error, address)


@contextmanager
def _failing(access: Access) -> Iterator[None]:
    try:
        yield
    except pymysql.Error as error:
        raise _failure(error, access) from None
    except RuntimeError:  # PyMySQL without its optional package
        raise without_cryptography(parse_dsn(access.dsn).address) from None


def _opened(access: Access) -> pymysql.Connection[Any]:
    server = parse_dsn(access.dsn)
    with _failing(access):
        connection = connected(server, server.tls.arguments(), access.answer_seconds)
        connection.autocommit(True)
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION {', '.join(f'{n} = {v}' for n, v in _SESSION.items())}")
            cursor.execute(_READ_ONLY)
    return connection


def _charsets(connection: pymysql.Connection[Any], access: Access) -> dict[str, tuple[str, str]]:
    """Returns character set and collation of each column."""
    schema, name = access.table
    with connection.cursor() as cursor:
        cursor.execute(_CHARSETS, {"schema": schema, "name": name})
        return {name: (charset or "", own or "") for name, charset, own in cursor.fetchall()}


def reader_options(server: Dsn, where: str, *, is_encrypted: bool) -> Mapping[str, str]:
    """Returns the reader's options for a server that a connection of ours was made to.

    Args:
        server: where it is.
        where: for errors.
        is_encrypted: whether that connection is; where the DSN leaves it open, readers' are, too.

    Raises:
        ConfigError: if its user shows a certificate, which the driver (3.5) takes with its key from
            a keystore at a path or URL only; or if the authority's cannot be read.
    """
    if server.tls.cert:
        what = (
            "database.dsn names a certificate of its user (ssl-cert), which Spark's readers cannot "
            "show: MariaDB's driver takes it and its key from a keystore file alone, which each "
            "executor would need, and not as text like the authority's"
        )
        remedy = (
            "name a user in database.dsn who logs in by a password (REQUIRE SSL, not REQUIRE X509) "
            "and leave out ssl-cert and ssl-key, or have the connector read: resnapshot --via "
            "signal, rebuild --from-snapshot"
        )
        raise ConfigError(what, where=where, remedy=remedy)
    host = f"[{server.host}]" if ":" in server.host else server.host
    return {
        "url": f"jdbc:mysql://{host}:{server.port}/?permitMysqlScheme",
        "driver": DRIVER.name,
        "user": server.user,
        "password": server.password,
        "fetchsize": str(FETCH),
        "connectTimeout": _CONNECT_MILLIS,
        "connectionAttributes": "program_name:cdc-assets resnapshot",
        **_encryption(server.tls, is_encrypted=is_encrypted),
    }


def _encryption(tls: Tls, *, is_encrypted: bool) -> Mapping[str, str]:
    """Passes on the authority's certificate as text: executors need no file."""
    match tls.mode:
        case TlsMode.VERIFY_CA | TlsMode.VERIFY_IDENTITY:
            mode = "verify-ca" if tls.mode is TlsMode.VERIFY_CA else "verify-full"
            given = {"serverSslCert": _certificates(tls.ca)} if tls.ca else {}
            return {"sslMode": mode, **given}
        case TlsMode.REQUIRED:
            return {"sslMode": "trust"}
        case _ if is_encrypted:
            return {"sslMode": "trust"}
        case _:  # as PyMySQL does, MySQL's key is asked for by which the password is encrypted
            return {"sslMode": "disable", "allowPublicKeyRetrieval": "true"}


def _certificates(file: str) -> str:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        what = "the file ssl-ca of the database's DSN cannot be read"
        remedy = "name a PEM file that this user may read"
        raise ConfigError(what, where=WHERE, remedy=remedy) from error
    if _BEGIN not in text:
        what = "the file ssl-ca of the database's DSN has no certificate"
        raise ConfigError(what, where=WHERE, remedy="name a PEM file")
    return text[text.index(_BEGIN) :]
