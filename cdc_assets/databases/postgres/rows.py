"""Reads the rows of a PostgreSQL table: see `cdc_assets.databases.rows`.

One transaction of ours exports its snapshot, and each of Spark's readers takes it: so all parts of
a wave show the table at one moment. Our transaction holds the table as any ``SELECT`` does, and the
snapshot no longer than its wave is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from urllib.parse import quote as encoded

import psycopg
from psycopg.conninfo import conninfo_to_dict

from cdc_assets.databases.dialect import Given
from cdc_assets.databases.postgres.catalog import read_tables
from cdc_assets.databases.postgres.connection import (
    CONNECT_SECONDS,
    address_of,
    connected,
    translated,
)
from cdc_assets.databases.postgres.dialect import PostgresDialect
from cdc_assets.databases.postgres.server import DELIVERED, PLACE, nudge
from cdc_assets.databases.rows import Access, DeliveryState, Driver, SourceRows, table_of
from cdc_assets.databases.statements import Statements, paired
from cdc_assets.errors import ConfigError, TerminalError

T = TypeVar("T")

_PAGE: Final = 10_000
_CANCELED: Final = "57014"
_SETTINGS: Final = {
    "timezone": "UTC",
    "datestyle": "ISO",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "row_security": "off",
    "search_path": "pg_catalog",
    "idle_in_transaction_session_timeout": "0",  # a wave's is idle while others read
    "default_transaction_isolation": "repeatable read",
    "default_transaction_read_only": "on",
}
"""As the connector's values are written. With row security a part of the rows would be hidden."""

_NOT_OF_READERS: Final = frozenset({
    "default_transaction_isolation", "default_transaction_read_only",
})  # fmt: skip

DRIVER: Final = Driver("org.postgresql.Driver", "org.postgresql:postgresql")
FETCH: Final = 5_000
"""So many rows come at a time, and are held by a task."""

_SAME: Final = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "gssencmode": "gssEncMode",
    "channel_binding": "channelBinding",
    "options": "options",
}
"""libpq's words, and the driver's for the same."""


class PostgresRows(SourceRows):
    """See `SourceRows`. Make one by `of`."""

    def __init__(
        self, connection: psycopg.Connection[Any], access: Access, statements: Statements
    ) -> None:
        super().__init__(access, statements)
        self._connection = connection

    @classmethod
    def of(cls, access: Access) -> PostgresRows:
        """Looks the table up, and opens a connection that reads it.

        Raises:
            UnreachableError: if the database does not answer.
            TerminalError: if it refuses, or is none whose rows can be compared.
        """
        table, dialect = table_of(access, read_tables), PostgresDialect()
        if table.filters_rows(access.publication):
            what = "the publication leaves rows out: source and lake differ by intention"
            raise TerminalError(what, where=access.where, remedy="there is nothing to compare with")
        known = {each.name: each for each in table.columns}
        sources, comparison = paired(known, access.schema, dialect)
        statements = Statements(dialect, access.table, comparison, sources, access.condition)
        rows = cls(_connected(access), access, statements)
        rows.require_keys()
        return rows

    def answer(self, statement: str, given: Given | None = None) -> Sequence[tuple[Any, ...]]:
        """See `SourceRows`."""
        with self._failing():
            return self._connection.execute(statement.encode(), given or {}).fetchall()

    def streamed(self, statement: str, given: Given) -> Iterator[tuple[Any, ...]]:
        """See `SourceRows`: through a cursor."""
        with (
            self._failing(),
            self._connection.transaction(),
            self._connection.cursor("cdc_assets") as cursor,
        ):
            cursor.itersize = _PAGE
            cursor.execute(statement.encode(), given)
            yield from cursor

    def literal(self, statement: str, given: Given) -> str:
        """See `SourceRows`."""
        return psycopg.ClientCursor(self._connection).mogrify(statement.encode(), given)

    def at_once(self, read: Callable[[], T]) -> tuple[str, T]:
        """See `SourceRows`: the first statement takes the snapshot, and reads the place then."""
        with self._failing(), self._connection.transaction():
            return self.place(), read()

    def estimate(self) -> int:
        """See `SourceRows`: the planner's estimate."""
        rows = self.answer(f"EXPLAIN (FORMAT JSON) SELECT FROM {self.statements.table}")
        plan: list[dict[str, Any]] = rows[0][0]
        return int(plan[0]["Plan"]["Plan Rows"])

    def place(self) -> str:
        """See `SourceRows`."""
        return str(self.answer(PLACE)[0][0])

    def is_past(self, position: str) -> bool:
        """See `SourceRows`: by the commit before, or what was written before a snapshot."""
        del position
        return True

    def moment(self) -> str:
        """See `SourceRows`: the first transaction id that was not given out yet."""
        return str(self.answer("SELECT txid_snapshot_xmax(txid_current_snapshot())")[0][0])

    def is_over(self, moment: str) -> bool:
        """See `SourceRows`."""
        oldest = self.answer("SELECT txid_snapshot_xmin(txid_current_snapshot())")[0][0]
        return int(oldest) >= int(moment)

    def delivery(self, until: str) -> DeliveryState:
        """See `SourceRows`: a connector confirms to its slot what Kafka has acknowledged."""
        rows = self.answer(DELIVERED, {"until": until, "slot": self.access.slot})
        behind = [name for name, is_done in rows if not is_done]
        if not rows:
            return DeliveryState(False, f"slot {self.access.slot or '(none in the database)'}")
        return DeliveryState(not behind, f"slot {', '.join(behind or [name for name, _ in rows])}")

    def nudge(self) -> None:
        """See `SourceRows`: by itself a message that only connectors see; no row is written."""
        said = self.access.nudge
        nudge(self.access.dsn, said if isinstance(said, str) else None)

    def close(self) -> None:
        """See `SourceRows`."""
        self._connection.close()

    def reader_options(self) -> Mapping[str, str]:
        """See `SourceRows`."""
        given = reader_options(self._connection, self.access.where, self.access.answer_seconds)
        # Not the one that the connection was opened with: a token may have ended since.
        password = conninfo_to_dict(self.access.dsn).get("password")
        return {**given, "password": str(password)} if password else given

    @contextmanager
    def shared_snapshot(self) -> Iterator[Mapping[str, str]]:
        """See `SourceRows`."""
        with self._failing(), self._connection.transaction():
            snapshot = str(self.answer("SELECT pg_export_snapshot()")[0][0])
            yield {"sessionInitStatement": "; ".join(self._begins(snapshot))}

    def _begins(self, snapshot: str) -> Sequence[str]:
        """Returns the first statements of a reader's transaction; the driver has begun it."""
        settings = {
            **{name: value for name, value in _SETTINGS.items() if name not in _NOT_OF_READERS},
            "statement_timeout": _millis(self.access),
        }
        return (
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
            self.literal("SET TRANSACTION SNAPSHOT %(to)s", {"to": snapshot}),
            *(self.literal(f"SET LOCAL {n} = %(to)s", {"to": to}) for n, to in settings.items()),
        )

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            address = address_of(self.access.dsn)
            if error.sqlstate == _CANCELED:
                raise self.access.timed_out(address) from None
            raise translated(error, address) from None


def _millis(access: Access) -> str:
    return f"{access.statement_seconds * 1000:.0f}"


def _connected(access: Access) -> psycopg.Connection[Any]:
    address = address_of(access.dsn)
    try:
        connection = connected(
            access.dsn,
            silent_seconds=access.answer_seconds,
            autocommit=True,
            client_encoding="utf8",
        )
        settings = {**_SETTINGS, "statement_timeout": _millis(access)}
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        row = connection.execute(
            "SELECT pg_is_in_recovery(), current_setting('server_encoding')"
        ).fetchone()
    except psycopg.Error as error:
        raise translated(error, address) from None
    is_standby, encoding = row or (False, "")
    if is_standby:
        connection.close()
        what = "the database is a standby, which says nothing about how far the connector is"
        raise TerminalError(what, where=f"database {address}", remedy="name the primary")
    if encoding != "UTF8":
        connection.close()
        what = f"the database's encoding is {encoding}: its texts have other bytes than the lake's"
        raise TerminalError(what, where=f"database {address}", remedy="only UTF8 is compared")
    return connection


def reader_options(
    connection: psycopg.Connection[Any], where: str, silent_seconds: float
) -> Mapping[str, str]:
    """Returns the reader's options for the database that the connection found, by whatever name.

    Args:
        connection: to the database.
        where: for errors.
        silent_seconds: how long the server may take to say something.

    Raises:
        ConfigError: if it is reached by a socket's file, which the driver cannot.
    """
    info = connection.info
    if not info.host or info.host.startswith(("/", "@")):
        what = "the database is reached by a socket of this machine, which Spark cannot read by"
        raise ConfigError(what, where=where, remedy="name host and port in database.dsn")
    host = f"[{info.host}]" if ":" in info.host else info.host
    said = info.get_parameters()
    words = {_SAME[name]: value for name, value in said.items() if name in _SAME and value}
    words |= {
        "ApplicationName": "cdc-assets resnapshot",
        "connectTimeout": f"{CONNECT_SECONDS}",
        "socketTimeout": f"{math.ceil(silent_seconds)}",
        "tcpKeepAlive": "true",
    }
    query = "&".join(f"{name}={encoded(value, safe='')}" for name, value in words.items())
    url = f"jdbc:postgresql://{host}:{info.port}/{encoded(info.dbname, safe='')}?{query}"
    password = {"password": info.password} if info.password else {}
    return {
        "url": url,
        "driver": DRIVER.name,
        "user": info.user,
        **password,
        "fetchsize": str(FETCH),
    }
