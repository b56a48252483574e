"""Connects to MySQL or MariaDB, asks queries, and sorts errors by what to do.

DSNs are ``mysql://user:password@host:3306/database?ssl-mode=…``. The parameters are those of
MySQL's own URI-like strings:
https://dev.mysql.com/doc/refman/8.4/en/connecting-using-uri-or-key-value-pairs.html
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import pymysql
from pymysql.cursors import Cursor

from cdc_assets.errors import (
    CdcError,
    ConfigError,
    LoginRefusedError,
    TerminalError,
    UnreachableError,
)

DEFAULT_PORT: Final = 3306
WHERE: Final = "sources.*.database.dsn"

_SCHEMES: Final = ("mysql", "mariadb")
_REMEDY: Final = "write mysql://user:password@host:3306/database, special signs percent-coded"
_PARAMETERS: Final = ("ssl-mode", "ssl-ca", "ssl-cert", "ssl-key")

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


class TlsMode(StrEnum):
    """``ssl-mode``: whether the connection is encrypted, and what is checked of the server."""

    DISABLED = "disabled"
    PREFERRED = "preferred"
    REQUIRED = "required"
    VERIFY_CA = "verify_ca"
    VERIFY_IDENTITY = "verify_identity"


@dataclass(frozen=True, slots=True)
class Tls:
    """Settings for encryption; paths of PEM files, "" for none."""

    mode: TlsMode = TlsMode.PREFERRED
    ca: str = ""
    cert: str = ""
    key: str = ""

    def arguments(self) -> dict[str, Any]:
        """PyMySQL's arguments.

        Raises:
            ConfigError: if a file cannot be read.
        """
        if self.mode is TlsMode.DISABLED:
            return {"ssl_disabled": True}
        if self.mode is TlsMode.PREFERRED and not self.cert:
            return {}
        try:
            return {"ssl": self._context()}
        except OSError as error:  # ssl.SSLError is one
            msg = "a file that the database's DSN names for TLS cannot be read"
            remedy = "check ssl-ca, ssl-cert and ssl-key: PEM files, readable for this user"
            raise ConfigError(msg, where=WHERE, remedy=remedy) from error

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca or None)
        # Certificates that MySQL makes for itself do not pass; Python 3.13 would check this.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.check_hostname = self.mode is TlsMode.VERIFY_IDENTITY
        if self.mode not in {TlsMode.VERIFY_CA, TlsMode.VERIFY_IDENTITY}:
            context.verify_mode = ssl.CERT_NONE
        if self.cert:
            context.load_cert_chain(self.cert, self.key or None)
        return context


@dataclass(frozen=True, slots=True)
class Dsn:
    """The parts of a DSN. `repr` does not show who logs in."""

    host: str
    port: int
    database: str
    user: str = field(repr=False)
    password: str = field(repr=False)
    tls: Tls = Tls()

    @property
    def address(self) -> str:
        """``host:port/database`` for messages."""
        return f"{self.host}:{self.port}/{self.database}"


def parse_dsn(dsn: str) -> Dsn:
    """Reads a DSN.

    Raises:
        ConfigError: if it is none; does not repeat it.
    """
    try:
        parts = urlsplit(dsn)
        port = parts.port or DEFAULT_PORT
        given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise _unparsed() from None
    if parts.scheme not in _SCHEMES or not parts.hostname or parts.fragment:
        raise _unparsed()
    return Dsn(
        parts.hostname,
        port,
        unquote(parts.path.removeprefix("/")),
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        _tls(dict(given)),
    )


def _tls(given: Mapping[str, str]) -> Tls:
    if not given.keys() <= set(_PARAMETERS):
        msg = "the database's DSN has a parameter that is not known"
        raise ConfigError(msg, where=WHERE, remedy=f"known: {', '.join(_PARAMETERS)}")
    ca = given.get("ssl-ca", "")
    usual = TlsMode.VERIFY_CA if ca else TlsMode.PREFERRED
    try:
        mode = TlsMode(given.get("ssl-mode", usual).lower())
    except ValueError:
        msg = "the database's DSN has an ssl-mode that is not known"
        raise ConfigError(msg, where=WHERE, remedy=f"known: {', '.join(TlsMode)}") from None
    return Tls(mode, ca, given.get("ssl-cert", ""), given.get("ssl-key", ""))


def _unparsed() -> ConfigError:
    msg = "the database's DSN cannot be parsed; it is not shown here"
    return ConfigError(msg, where=WHERE, remedy=_REMEDY)


# ── queries ───────────────────────────────────────────────────────────────────────────────


def quote(name: str) -> str:
    """Quotes an identifier, for a statement that has parameters."""
    return f"`{name.replace('`', '``').replace('%', '%%')}`"


def answers(
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
    return TerminalError(msg, where=where, remedy=remedy, page="database-refused")


def without_cryptography(address: str) -> TerminalError:
    """Explains that PyMySQL lacks its optional package."""
    msg = "the server's way of logging in (caching_sha2_password) needs an encrypted connection"
    remedy = "add ?ssl-mode=required to the DSN, or install the Python package cryptography"
    return TerminalError(msg, where=f"database {address}", remedy=remedy)
