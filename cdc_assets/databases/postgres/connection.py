"""Names a PostgreSQL database in messages, and sorts its errors by what to do."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from cdc_assets.errors import CdcError, ConfigError, TerminalError, UnreachableError

CONNECT_SECONDS: Final = 10

_PASSING: Final = ("08", "53", "57")
"""Classes of SQLSTATE that pass: connection, resources, operator intervention."""

_REFUSALS: Final = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "does not exist",
    "permission denied",
)


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
    """Classifies an error by remedy. The server's text is not repeated: it may quote statements.

    A refused login has no SQLSTATE in libpq, only its text.
    """
    where, state = f"database {address}", error.sqlstate
    refused = next((words for words in _REFUSALS if words in str(error)), None)
    if refused or (state and not state.startswith(_PASSING)):
        msg = f"the database refused ({refused or f'SQLSTATE {state}'})"
        remedy = "check the user, its password, its rights and the database's name"
        return TerminalError(msg, where=where, remedy=remedy)
    msg = "the database does not answer"
    remedy = "check that it runs and accepts connections at this address"
    return UnreachableError(msg, where=where, remedy=remedy)
