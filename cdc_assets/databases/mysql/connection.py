"""Connects to MySQL or MariaDB, asks queries, and sorts errors by what to do."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pymysql
from pymysql.cursors import Cursor

from cdc_assets.databases.mysql.dsn import Dsn, parse_dsn
from cdc_assets.errors import CdcError, LoginRefusedError, TerminalError, UnreachableError

CONNECT_SECONDS: Final = 10
READ_SECONDS: Final = 45
"""How long an answer is waited for: a tick names the database before Dagster ends it."""

_PASSING: Final = frozenset({
    1021, 1037, 1038, 1040, 1041, 1053, 1158, 1159, 1160, 1161, 1203, 1205, 1213, 1317, 1927,
    2002, 2003, 2005, 2006, 2013, 2055, 3024,
})  # fmt: skip
"""Error numbers that pass: connection, resources, shutdown, time-outs, interrupted queries."""

_LOGIN: Final = frozenset({
    1044, 1045, 1129, 1130, 1142, 1143, 1227, 1251, 1370, 1396, 1698, 1820, 1862, 2059, 2061,
    3118, 3159, 4151,
})  # fmt: skip
"""Error numbers of a login that is refused, expired or locked, or that lacks a right."""

_TLS_FAILED: Final = 2026
_REFUSED: Final = frozenset({1064, 1142, 1227, 1235, 1381})
"""Error numbers of a query that this server does not have, or this user may not ask."""


def asked(
    dsn: str, *queries: tuple[str, Mapping[str, Any]], either: Sequence[str] = ()
) -> list[tuple[tuple[Any, ...], ...]]:
    """Returns the answers to some queries.

    Args:
        dsn: of the database.
        queries: each with its parameters.
        either: of these, the first one's answer that the server takes comes last; nothing if it
            takes none.

    Raises:
        CdcError: if the database does not answer, or refuses the login or a query, or if the
            DSN cannot be parsed.
    """
    server = parse_dsn(dsn)
    arguments = server.tls.arguments()
    found: list[tuple[tuple[Any, ...], ...]] = []
    try:
        with connected(server, arguments) as connection, connection.cursor() as cursor:
            for query, parameters in queries:
                cursor.execute(query, parameters)
                found.append(cursor.fetchall())
            if either:
                found.append(_taken(cursor, either))
    except pymysql.Error as error:
        raise translated(error, server.address) from error
    except RuntimeError as error:  # PyMySQL without its optional package
        raise without_cryptography(server.address) from error
    return found


def _taken(cursor: Cursor, queries: Sequence[str]) -> tuple[tuple[Any, ...], ...]:
    for query in queries:
        try:
            cursor.execute(query)
        except pymysql.Error as error:
            if not error.args or error.args[0] not in _REFUSED:
                raise
        else:
            return cursor.fetchall()
    return ()


def connected(
    server: Dsn, tls: Mapping[str, Any], read_seconds: float = READ_SECONDS
) -> pymysql.Connection[Any]:
    """Opens a connection, whose texts are of utf8mb4."""
    return pymysql.connect(
        host=server.host,
        port=server.port,
        user=server.user,
        password=server.password.encode(),
        database=server.database or None,
        charset="utf8mb4",
        connect_timeout=CONNECT_SECONDS,
        read_timeout=read_seconds,
        write_timeout=READ_SECONDS,
        **tls,
    )


def translated(error: pymysql.Error, address: str) -> CdcError:
    """Sorts errors by what to do. Does not repeat the server's text: it may quote statements."""
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    where = f"database {address}"
    if number == _TLS_FAILED or isinstance(
        getattr(error, "original_exception", None), ssl.SSLError
    ):
        msg = "the database refused the login (no encrypted connection came about)"
        remedy = "check the DSN's ssl-mode and ssl-ca, and the server's certificate"
        return LoginRefusedError(msg, where=where, remedy=remedy)
    if number in _LOGIN:
        msg = f"the database refused the login (error {number})"
        remedy = "renew the password, check the user and its rights (database.dsn)"
        return LoginRefusedError(msg, where=where, remedy=remedy)
    if number in _PASSING or isinstance(error, pymysql.InterfaceError):
        msg = "the database does not answer"
        remedy = "check that it runs and accepts connections at this address"
        return UnreachableError(msg, where=where, remedy=remedy)
    msg = f"the database refused (error {number})"
    remedy = "check the user, its rights and the database's name"
    return TerminalError(msg, where=where, remedy=remedy)


def without_cryptography(address: str) -> TerminalError:
    """Explains that PyMySQL lacks its optional package."""
    msg = "the server's way of logging in (caching_sha2_password) needs an encrypted connection"
    remedy = "add ?ssl-mode=required to the DSN, or install the Python package cryptography"
    return TerminalError(msg, where=f"database {address}", remedy=remedy)
