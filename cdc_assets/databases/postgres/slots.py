"""Reads replication slots, the WAL that they retain, and the end of the log."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString

import psycopg

from cdc_assets.databases.postgres.connection import address_of, connected, translated
from cdc_assets.errors import LoginRefusedError, UnreachableError

STATEMENT_MILLIS: Final = 5_000
SILENT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Slot:
    """A logical replication slot.

    Attributes:
        name: of the slot.
        active: whether it has a reader.
        retained_bytes: WAL that the server keeps because of it.
        unconfirmed_bytes: WAL between its reader's confirmed position and the log's end.
        wal_status: ``reserved``, ``extended``, ``unreserved``, ``lost``; empty if it has none yet.
        safe_bytes: WAL that can still be written before it is in danger of being lost; None if the
            server keeps all of it (``max_slot_wal_keep_size`` is -1).
    """

    name: str
    active: bool
    retained_bytes: int
    unconfirmed_bytes: int
    wal_status: str
    safe_bytes: int | None


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A moment at the server: everything committed before ``at`` is before ``lsn``.

    Attributes:
        at: by the server's clock, aware.
        lsn: the position at which the next record of its log is written.
    """

    at: datetime
    lsn: int


def read_slots(dsn: str) -> tuple[Slot, ...]:
    """Returns the logical slots of a DSN's database, by name.

    Raises:
        UnreachableError: if the database does not answer, or refuses; never quotes the DSN.
    """
    return tuple(Slot(*row) for row in _asked(dsn, _SLOTS))


def log_position(dsn: str) -> LogPosition:
    """Reads the clock, then the log's end, so that the position is never too low for the time.

    Raises:
        UnreachableError: as `read_slots`, and if the server is a standby.
    """
    ((at,), (lsn,)) = _asked(dsn, _CLOCK, _END)
    return LogPosition(at, int(lsn))


def log_end(dsn: str) -> str:
    """Returns the place in the server's log that everything committed before lies before.

    Raises:
        UnreachableError: as `log_position`.
    """
    return str(_asked(dsn, PLACE)[0][0])


def unconfirmed(dsn: str, slot: str | None, place: str) -> str:
    """Returns the slots that have not confirmed a place yet, for people; empty if all have.

    Args:
        dsn: of the database.
        slot: the connector's; None for all of the database.
        place: of `log_end`.

    Raises:
        UnreachableError: as `read_slots`.
    """
    rows = _asked(dsn, DELIVERED, values={"until": place, "slot": slot})
    behind = [name for name, is_done in rows if not is_done]
    if not rows:
        return f"slot {slot or '(none in the database)'}"
    return f"slot {', '.join(behind)}" if behind else ""


def nudge(dsn: str, statement: str | None) -> None:
    """Writes something to the log that makes a connector at rest say how far it is.

    Args:
        dsn: of the database.
        statement: that writes it; None for a message that only connectors see.

    Raises:
        UnreachableError: as `read_slots`.
    """
    with _told(dsn), connected(dsn, silent_seconds=SILENT_SECONDS) as connection:
        connection.execute(_NUDGE if statement is None else statement.encode())


def _asked(
    dsn: str, *queries: LiteralString, values: Mapping[str, str | None] | None = None
) -> list[tuple[Any, ...]]:
    with _told(dsn), connected(dsn, silent_seconds=SILENT_SECONDS, autocommit=True) as asked:
        asked.execute(f"SET statement_timeout = {STATEMENT_MILLIS:d}".encode())
        return [row for query in queries for row in asked.execute(query, values).fetchall()]


@contextmanager
def _told(dsn: str) -> Generator[None]:
    try:
        yield
    except psycopg.Error as error:
        problem = translated(error, address_of(dsn))
        if isinstance(problem, LoginRefusedError):
            raise problem from None
        code = f" {error.sqlstate}" if error.sqlstate else ""
        what = f"PostgreSQL does not tell of its log ({type(error).__name__}{code})"
        raise UnreachableError(what, remedy="check sources.….database.dsn and its rights") from None


_SLOTS: Final = """
SELECT slot_name::text, active,
  greatest(0, coalesce(pg_wal_lsn_diff(now_at, restart_lsn), 0))::bigint,
  greatest(0, coalesce(pg_wal_lsn_diff(now_at, confirmed_flush_lsn), 0))::bigint,
  coalesce(wal_status, ''), safe_wal_size
FROM pg_replication_slots, LATERAL (
  SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn()
              ELSE pg_current_wal_lsn() END AS now_at
) AS here
WHERE slot_type = 'logical' AND database = current_database()
ORDER BY slot_name
"""

PLACE: Final = "SELECT pg_current_wal_insert_lsn()::text"
DELIVERED: Final = """
SELECT slot_name::text, coalesce(confirmed_flush_lsn >= %(until)s::pg_lsn, false)
FROM pg_replication_slots
WHERE slot_type = 'logical' AND database = current_database()
  AND (%(slot)s::text IS NULL OR slot_name = %(slot)s)
"""
_NUDGE: Final = "SELECT pg_logical_emit_message(true, 'cdc_assets', 'verify')"
_CLOCK: Final = "SELECT clock_timestamp()"
_END: Final = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"
