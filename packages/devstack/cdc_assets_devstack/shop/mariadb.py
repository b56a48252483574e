"""Implements the shop's database interface for MariaDB."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pymysql
from pymysql.constants import ER

from cdc_assets_devstack.mariadb import connect, quote
from cdc_assets_devstack.shop.stock import TABLES, FirstRows, Row, first_rows

_SCHEMA: Final = Path(__file__).with_name("mariadb.sql")
_MARK: Final = "shop_is_made"
"""A table that is created last, and stays when people drop the others."""
_SETTINGS: Final = (
    "SET SESSION innodb_lock_wait_timeout = 2, lock_wait_timeout = 2, max_statement_time = 30, "
    "transaction_isolation = 'READ-COMMITTED'"
)
_USUAL: Final = (ER.LOCK_DEADLOCK, ER.DUP_ENTRY)
_NAMES_ONLY: Final = (
    *(ER.BAD_FIELD_ERROR, ER.NO_SUCH_TABLE, ER.NO_DEFAULT_FOR_FIELD, ER.BAD_NULL_ERROR),
    *(ER.BAD_DB_ERROR, ER.WRONG_VALUE_COUNT_ON_ROW),
)
"""Errors whose messages name tables and columns, and never contain a value."""

_NAMES: Final = {number: name for name, number in vars(ER).items() if isinstance(number, int)}

_Connection = pymysql.Connection


class MariaDBSession:
    """One connection, with limited waits for locks and for statements."""

    def __init__(self, dsn: str) -> None:
        self._connection = connect(dsn, connect_timeout=5, init_command=_SETTINGS)

    @property
    def closed(self) -> bool:
        """Whether it was closed, or is lost."""
        return not self._connection.open

    def change(self, statement: str, *values: object) -> int:
        """Executes a statement, and returns the number of rows changed; equal ones do not count."""
        with self._connection.cursor() as cursor:
            return cursor.execute(statement, _adapted(values))

    def first(self, statement: str, *values: object) -> Row | None:
        """Executes a statement, and returns its first row; None if it has none."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement, _adapted(values))
            return cursor.fetchone()

    def newest_order(self) -> object:
        """Returns the next number of an order; None if the table is gone."""
        found = self.first(
            "SELECT auto_increment FROM information_schema.tables "
            "WHERE table_schema = database() AND table_name = 'orders'"
        )
        return found[0] if found else None

    def commit(self) -> None:
        """Commits the transaction."""
        self._connection.commit()

    def rollback(self) -> None:
        """Rolls back the transaction."""
        self._connection.rollback()

    def close(self) -> None:
        """Closes the connection."""
        if self._connection.open:
            self._connection.close()


class MariaDBShop:
    """A database with the shop.

    Args:
        dsn: ``mysql://user:password@host:port/database``.

    Raises:
        ValueError: the DSN is invalid, so there is no database to wait for.
    """

    error: type[Exception] = pymysql.MySQLError

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._database = unquote(urlsplit(dsn).path.removeprefix("/"))
        if not self._database:
            msg = "the DSN names no database"
            raise ValueError(msg)

    def connect(self) -> MariaDBSession:
        """Opens a connection."""
        return MariaDBSession(self._dsn)

    def prepare(self, seed: int) -> tuple[str, ...]:
        """See `cdc_assets_devstack.shop.dialect.Shop`.

        Each CREATE TABLE is a transaction of its own here, so a missing mark shows that a call was
        interrupted. All rows are one transaction, also for the connector.
        """
        server = self._dsn.removesuffix(urlsplit(self._dsn).path)
        with connect(server) as connection, connection.cursor() as cursor:
            # Serialises two first callers; released with the connection.
            cursor.execute("SELECT get_lock('cdc_assets_shop', 60)")
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {quote(self._database)}")
            connection.select_db(self._database)
            if _MARK not in _tables(connection):
                _make(connection, seed)
            here = _tables(connection)
        return tuple(table for table in TABLES if table not in here)

    def is_usual(self, error: Exception) -> bool:
        """See `cdc_assets_devstack.shop.dialect.Shop`."""
        return _number(error) in _USUAL

    def describe(self, error: Exception) -> str:
        """See `cdc_assets_devstack.shop.dialect.Shop`."""
        number = _number(error)
        if number in _NAMES_ONLY and len(error.args) > 1:
            return str(error.args[1])
        return " ".join(filter(None, (type(error).__name__, _NAMES.get(number or 0))))


def _make(connection: _Connection, seed: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {', '.join(map(quote, TABLES))}")
        for statement in _SCHEMA.read_text().split(";\n"):
            if statement.strip():
                cursor.execute(statement)
        for table in first_rows(seed):
            _insert(connection, table)
        connection.commit()
        cursor.execute(f"CREATE TABLE {quote(_MARK)} (id int PRIMARY KEY)")


def _insert(connection: _Connection, table: FirstRows) -> None:
    rows = [_adapted(row) for row in table.rows]
    into = f"({', '.join(map(quote, table.columns))})" if table.columns else ""
    places = ", ".join(["%s"] * len(rows[0]))
    with connection.cursor() as cursor:
        statement = f"INSERT INTO {quote(table.table)} {into} VALUES ({places})"  # noqa: S608
        cursor.executemany(statement, rows)


def _tables(connection: _Connection) -> set[object]:
    with connection.cursor() as cursor:
        cursor.execute("SHOW TABLES")
        return {name for (name,) in cursor.fetchall()}


def _adapted(values: Row) -> list[object]:
    return [_text(value) for value in values]


def _text(value: object) -> object:
    match value:
        case dict() | list():
            return json.dumps(value)
        case uuid.UUID():
            return str(value)
        case _:
            return value


def _number(error: Exception) -> int | None:
    found = error.args[0] if error.args else None
    return found if isinstance(found, int) else None
