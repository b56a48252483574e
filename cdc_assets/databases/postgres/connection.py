"""Names a PostgreSQL database in messages, and sorts its errors by what to do."""

from __future__ import annotations

import re
from typing import Final

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

_NO_ROLE: Final = re.compile(r'role ".*" does not exist')
_GONE: Final = "does not exist"


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
        return TerminalError(msg, where=where, remedy=remedy)
    msg = "the database does not answer"
    remedy = "check that it runs and accepts connections at this address"
    return UnreachableError(msg, where=where, remedy=remedy)


def _no_role(text: str) -> str:
    return "no such user" if _NO_ROLE.search(text) else ""
