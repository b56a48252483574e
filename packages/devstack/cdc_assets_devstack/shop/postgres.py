"""Implements the shop's database interface for PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.json import Jsonb

from cdc_assets_devstack.shop.stock import COUNTED, TABLES, FirstRows, Row, first_rows

_SCHEMA: Final = Path(__file__).with_name("postgres.sql")
_OPTIONS: Final = "-c lock_timeout=2s -c statement_timeout=30s"
_USUAL: Final = (errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation)
_NAMES_ONLY: Final = "42"
"""The class of SQLSTATEs whose messages name tables and columns, and never contain a value."""

_Connection = psycopg.Connection[tuple[object, ...]]


class PostgresSession:
    """One connection, with limited waits for locks and for statements.

    It prepares no statements: a prepared statement would continue to fail after its table was
    altered and altered back.
    """

    def __init__(self, dsn: str) -> None:
        self._connection: _Connection = psycopg.connect(
            dsn, connect_timeout=5, prepare_threshold=None, options=_OPTIONS
        )

    @property
    def closed(self) -> bool:
        """Whether it was closed, or is lost."""
        return self._connection.closed

    def change(self, statement: str, *values: object) -> int:
        """Executes a statement, and returns the number of rows that it has changed."""
        return self._connection.execute(statement.encode(), _adapted(values)).rowcount

    def first(self, statement: str, *values: object) -> Row | None:
        """Executes a statement, and returns its first row; None if it has none."""
        return self._connection.execute(statement.encode(), _adapted(values)).fetchone()

    def newest_order(self) -> object:
        """Returns the last number assigned to an order; None if the table is gone."""
        found = self.first("SELECT pg_sequence_last_value(to_regclass('public.orders_id_seq'))")
        return found[0] if found else None

    def commit(self) -> None:
        """Commits the transaction."""
        self._connection.commit()

    def rollback(self) -> None:
        """Rolls back the transaction."""
        self._connection.rollback()

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()


class PostgresShop:
    """A database with the shop.

    Args:
        dsn: the database's DSN.

    Raises:
        psycopg.ProgrammingError: the DSN is invalid, so there is no database to wait for.
    """

    error: type[Exception] = psycopg.Error

    def __init__(self, dsn: str) -> None:
        conninfo_to_dict(dsn)
        self._dsn = dsn

    def connect(self) -> PostgresSession:
        """Opens a connection."""
        return PostgresSession(self._dsn)

    def prepare(self, seed: int) -> tuple[str, ...]:
        """See `cdc_assets_devstack.shop.dialect.Shop`."""
        self._create_database()
        with psycopg.connect(self._dsn) as connection:
            # Serialises two first callers; released with the transaction.
            connection.execute("SELECT pg_advisory_xact_lock(734001)")
            missing = _missing(connection)
            if missing == TABLES and not _has_been_made(connection):
                connection.execute(_SCHEMA.read_text().encode())
                _fill(connection, first_rows(seed))
                return ()
            return missing

    def is_usual(self, error: Exception) -> bool:
        """See `cdc_assets_devstack.shop.dialect.Shop`."""
        return isinstance(error, _USUAL)

    def describe(self, error: Exception) -> str:
        """See `cdc_assets_devstack.shop.dialect.Shop`."""
        if not isinstance(error, psycopg.Error):
            return type(error).__name__
        diagnosis = error.diag
        state = diagnosis.sqlstate or ""
        if state.startswith(_NAMES_ONLY) and diagnosis.message_primary:
            return diagnosis.message_primary
        places = {
            "table": diagnosis.table_name,
            "column": diagnosis.column_name,
            "constraint": diagnosis.constraint_name,
        }
        named = ", ".join(f"{kind} {name}" for kind, name in places.items() if name)
        return " ".join(part for part in (type(error).__name__, state, named) if part)

    def _create_database(self) -> None:
        name = str(conninfo_to_dict(self._dsn)["dbname"])
        server = make_conninfo(self._dsn, dbname="postgres")
        with psycopg.connect(server, autocommit=True) as connection:
            exists = "SELECT 1 FROM pg_database WHERE datname = %s"
            if connection.execute(exists, (name,)).fetchone() is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


def _missing(connection: _Connection) -> tuple[str, ...]:
    exists = "SELECT to_regclass(format('public.%%I', %s::text)) IS NOT NULL"
    return tuple(t for t in TABLES if connection.execute(exists, (t,)).fetchone() == (False,))


def _has_been_made(connection: _Connection) -> bool:
    """Returns whether the shop was made before: its type stays when all tables are dropped."""
    found = connection.execute("SELECT to_regtype('public.order_status') IS NOT NULL").fetchone()
    return found == (True,)


def _fill(connection: _Connection, tables: Iterable[FirstRows]) -> None:
    for each in tables:
        _copy(connection, each)
    for table in COUNTED:
        connection.execute(
            sql.SQL("SELECT setval(pg_get_serial_sequence({0}, 'id'), max(id)) FROM {1}").format(
                sql.Literal(table), sql.Identifier(table)
            )
        )


def _copy(connection: _Connection, table: FirstRows) -> None:
    chosen = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    into = sql.SQL("({})").format(chosen) if table.columns else sql.SQL("")
    statement = sql.SQL("COPY {} {} FROM STDIN").format(sql.Identifier(table.table), into)
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in table.rows:
            copy.write_row(_adapted(row))


def _adapted(values: Row) -> list[object]:
    return [Jsonb(value) if isinstance(value, dict) else value for value in values]
