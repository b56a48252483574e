"""Connects to PostgreSQL within limits of time, and sorts its errors by what to do.

libpq waits for an answer for as long as the connection lives, and the server's own limits
(``statement_timeout``) are of no use if it does not answer any more. So there are two limits here:

- TCP's: a peer that acknowledges nothing for a minute, or no keepalive, is given up.
- Silence: of a peer that acknowledges and says nothing, as a proxy before a server that hangs.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from cdc_assets.errors import (
    CdcError,
    ConfigError,
    LoginRefusedError,
    TerminalError,
    UnreachableError,
)

CONNECT_SECONDS: Final = 10
SILENT_SECONDS: Final = 45.0
"""How long a query may wait for its next row: a tick names the database before Dagster ends it."""

LIMITS: Final[Mapping[str, int]] = {
    "connect_timeout": CONNECT_SECONDS,
    "tcp_user_timeout": 60_000,
    "keepalives": 1,
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
"""libpq's parameters, unless the DSN has them."""

_PASSING: Final = ("08", "53", "57")
"""Classes of SQLSTATE that pass: connection, resources, operator intervention."""

_NO_LOGIN: Final = ("28", "42501")
"""SQLSTATEs of a login that is refused, or lacks a right; ``28P01`` is a wrong password."""

_LOGIN: Final = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "permission denied",
    "not permitted to log in",
    "certificate",
)
"""The reasons for a refused login. libpq has no SQLSTATE for it, only its text."""

_GONE: Final = "does not exist"


class SilenceError(psycopg.OperationalError):
    """The server has said nothing for too long; the connection is closed."""


class Connection(psycopg.Connection[Any]):
    """A connection that gives up on a silent server.

    Attributes:
        silent_seconds: how long the server may take to say something.
    """

    silent_seconds: float = SILENT_SECONDS

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Waits for the server, as each of psycopg's calls does.

        Raises:
            SilenceError: if the server says nothing for too long.
        """
        try:
            return super().wait(_unless_silent(gen, self.silent_seconds), *args, **options)
        except SilenceError:
            self.close()  # it would else wait again for its rollback
            raise


def connected(dsn: str, *, silent_seconds: float | None = None, **given: Any) -> Connection:
    """Opens a connection.

    Args:
        dsn: of the database; what it says of `LIMITS` counts.
        silent_seconds: how long a query may wait for its next row; None for `SILENT_SECONDS`.
        given: further arguments of psycopg.

    Raises:
        psycopg.Error: see `translated`.
    """
    said = conninfo_to_dict(dsn)
    usual = {name: value for name, value in LIMITS.items() if name not in said}
    connection = Connection.connect(dsn, **usual, **given)
    connection.silent_seconds = SILENT_SECONDS if silent_seconds is None else silent_seconds
    return connection


def _unless_silent(gen: Any, seconds: float) -> Generator[Any, Any, Any]:
    """Yields what a call of psycopg waits for, and wakes the call several times a second."""
    heard = time.monotonic()
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if ready:
                heard = time.monotonic()
            elif time.monotonic() - heard >= seconds:
                msg = f"no answer for {seconds:g} s"
                raise SilenceError(msg)
            wanted = gen.send(ready)
    except StopIteration as done:
        return done.value


def quote(name: str) -> str:
    """Quotes an identifier, for a statement that has parameters."""
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'


def address_of(dsn: str) -> str:
    """Returns ``host:port/database`` for messages."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        msg = "the database's DSN cannot be parsed; it is not shown here"
        remedy = "write postgresql://user:password@host:5432/database, special signs percent-coded"
        raise ConfigError(msg, where="sources.*.database.dsn", remedy=remedy) from None
    host, port = parts.get("host") or "(local socket)", parts.get("port") or 5432
    return f"{host}:{port}/{parts.get('dbname') or ''}"


def translated(error: psycopg.Error, address: str) -> CdcError:
    """Classifies an error by remedy. The server's text is not repeated: it may quote statements."""
    where, state, text = f"database {address}", error.sqlstate or "", str(error)
    why = next((words for words in _LOGIN if words in text), "" if state else _no_role(text))
    if state.startswith(_NO_LOGIN) or (not state and why):
        msg = f"the database refused the login ({why or f'SQLSTATE {state}'})"
        remedy = "renew the password or certificate, check the user and its rights (database.dsn)"
        return LoginRefusedError(msg, where=where, remedy=remedy)
    if (not state and _GONE in text) or (state and not state.startswith(_PASSING)):
        msg = f"the database refused ({f'SQLSTATE {state}' if state else _GONE})"
        remedy = "check the user, its rights and the database's name"
        return TerminalError(msg, where=where, remedy=remedy, page="database-refused")
    silent = f" ({error})" if isinstance(error, SilenceError) else ""
    msg = f"the database does not answer{silent}"
    remedy = "check that it runs and accepts connections at this address"
    return UnreachableError(msg, where=where, remedy=remedy)


def _no_role(text: str) -> str:
    after = (line.partition('role "')[2] for line in text.splitlines())
    return "no such user" if any(f'" {_GONE}' in each for each in after) else ""
