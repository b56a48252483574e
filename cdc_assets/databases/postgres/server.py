"""Reads a PostgreSQL server's side of replication: slots, log, settings, publications, rights."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql

from cdc_assets.changes.names import TableName
from cdc_assets.databases.postgres.connection import address_of, connected, translated
from cdc_assets.errors import LoginRefusedError, UnreachableError

STATEMENT_MILLIS: Final = 5_000
SILENT_SECONDS: Final = 10.0
_TIMEOUT: Final = "SET statement_timeout = '10s'"
"""Applies to each table whose values are searched."""


# ── slots and the log ─────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Slot:
    """A logical replication slot.

    Attributes:
        name: of the slot.
        active: whether it has a reader.
        retained_bytes: WAL that the server keeps because of it.
        unconfirmed_bytes: WAL between its reader's confirmed position and the log's end.
        wal_status: ``reserved``, ``extended``, ``unreserved``, ``lost``; empty if it has none yet.
    """

    name: str
    active: bool
    retained_bytes: int
    unconfirmed_bytes: int
    wal_status: str


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
    return tuple(Slot(*row) for row in _answers(dsn, _SLOTS))


def log_position(dsn: str) -> LogPosition:
    """Reads the clock, then the log's end, so that the position is never too low for the time.

    Raises:
        UnreachableError: as `read_slots`, and if the server is a standby.
    """
    ((at,), (lsn,)) = _answers(dsn, _CLOCK, _END)
    return LogPosition(at, int(lsn))


def log_end(dsn: str) -> str:
    """Returns the place in the server's log after everything that was committed before.

    Raises:
        UnreachableError: as `log_position`.
    """
    return str(_answers(dsn, PLACE)[0][0])


def unconfirmed(dsn: str, slot: str | None, place: str) -> str:
    """Returns the slots that have not confirmed a place yet, for people; empty if all have.

    Args:
        dsn: of the database.
        slot: the connector's; None for all of the database.
        place: of `log_end`.

    Raises:
        UnreachableError: as `read_slots`.
    """
    rows = _answers(dsn, DELIVERED, values={"until": place, "slot": slot})
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
    with _translated_errors(dsn), connected(dsn, silent_seconds=SILENT_SECONDS) as connection:
        connection.execute(_NUDGE if statement is None else statement.encode())


def _answers(
    dsn: str, *queries: LiteralString, values: Mapping[str, str | None] | None = None
) -> list[tuple[Any, ...]]:
    with (
        _translated_errors(dsn),
        connected(dsn, silent_seconds=SILENT_SECONDS, autocommit=True) as connection,
    ):
        connection.execute(f"SET statement_timeout = {STATEMENT_MILLIS:d}".encode())
        return [row for query in queries for row in connection.execute(query, values).fetchall()]


@contextmanager
def _translated_errors(dsn: str) -> Generator[None]:
    try:
        yield
    except psycopg.Error as error:
        problem = translated(error, address_of(dsn))
        if isinstance(problem, LoginRefusedError):
            raise problem from None
        code = f" {error.sqlstate}" if error.sqlstate else ""
        what = f"PostgreSQL does not report its log ({type(error).__name__}{code})"
        raise UnreachableError(what, remedy="check sources.….database.dsn and its rights") from None


_SLOTS: Final = """
SELECT slot_name::text, active,
  greatest(0, coalesce(pg_wal_lsn_diff(now_at, restart_lsn), 0))::bigint,
  greatest(0, coalesce(pg_wal_lsn_diff(now_at, confirmed_flush_lsn), 0))::bigint,
  coalesce(wal_status, '')
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


# ── settings, publications, rights ────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class PublishedOperations:
    """A publication, and the operations that it publishes."""

    name: str
    insert: bool = True
    update: bool = True
    delete: bool = True
    truncate: bool = True

    @property
    def missing(self) -> tuple[str, ...]:
        """The operations that it leaves out."""
        said = {"insert": self.insert, "update": self.update, "delete": self.delete}
        return tuple(name for name, is_in in said.items() if not is_in)


@dataclass(frozen=True, slots=True)
class Role:
    """The connector's user; ``unreadable``: tables that it may not read."""

    may_replicate: bool
    unreadable: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """One database's server.

    Attributes:
        keep_bytes: ``max_slot_wal_keep_size``; None without a limit.
        roles: by name, of those that were asked for and exist.
        now: its clock.
    """

    wal_level: str
    keep_bytes: int | None
    slots: Mapping[str, Slot]
    publications: Mapping[str, PublishedOperations]
    roles: Mapping[str, Role] = field(default_factory=dict[str, Role])
    now: datetime | None = None


@dataclass(frozen=True, slots=True)
class OddValues:
    """Columns with values that cannot arrive unchanged.

    Attributes:
        not_numbers: columns with NaN or an infinity in a ``numeric``.
        out_of_range: columns with an infinity, or a year before 1 or after 9999.
        is_sample: whether the table has more rows than were searched.
    """

    not_numbers: tuple[str, ...] = ()
    out_of_range: tuple[str, ...] = ()
    is_sample: bool = False


_SERVER: Final = """
SELECT current_setting('wal_level'),
       (SELECT setting::bigint FROM pg_settings WHERE name = 'max_slot_wal_keep_size'),
       clock_timestamp()
"""
_PUBLICATIONS: Final = """
SELECT pubname::text, pubinsert, pubupdate, pubdelete, pubtruncate FROM pg_publication
"""
_ROLES: Final = """
SELECT r.rolname::text, r.rolsuper OR r.rolreplication OR EXISTS (
    SELECT FROM pg_roles m  -- the role by which AWS RDS and Aurora grant it
    WHERE m.rolname = 'rds_replication' AND pg_has_role(r.oid, m.oid, 'MEMBER')
), coalesce((
    SELECT jsonb_agg(jsonb_build_array(w.nspname, w.relname))
    FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (nspname, relname)
    JOIN pg_namespace n ON n.nspname = w.nspname
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.relname
    WHERE NOT (has_schema_privilege(r.oid, n.oid, 'USAGE')
               AND has_table_privilege(r.oid, c.oid, 'SELECT'))
), '[]'::jsonb)
FROM pg_roles r WHERE r.rolname = ANY(%(roles)s::text[])
"""
_MAY_READ: Final = """
SELECT n.nspname::text, c.relname::text
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (nspname, relname)
JOIN pg_namespace n ON n.nspname = w.nspname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.relname
WHERE has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
"""


def read_server(dsn: str, tables: Iterable[TableName], roles: Iterable[str]) -> PostgresServer:
    """Reads the server's side of logical replication: four queries, however many tables.

    Args:
        dsn: of the database.
        tables: tables that the roles have to read.
        roles: the connectors' users.

    Raises:
        CdcError: as `cdc_assets.databases.postgres.catalog.read_tables`.
    """
    wanted = [*tables]
    about: dict[str, Any] = {
        "schemas": [each.schema for each in wanted],
        "names": [each.name for each in wanted],
        "roles": [*roles],
    }
    address = address_of(dsn)
    try:
        with connected(dsn) as connection:
            ((level, keep, now),) = connection.execute(_SERVER).fetchall()
            publications = connection.execute(_PUBLICATIONS).fetchall()
            found = connection.execute(_ROLES, about).fetchall()
    except psycopg.Error as error:
        raise translated(error, address) from error
    return PostgresServer(
        wal_level=level,
        keep_bytes=None if keep is None or keep < 0 else keep << 20,
        slots={each.name: each for each in read_slots(dsn)},
        publications={name: PublishedOperations(name, *said) for name, *said in publications},
        roles={
            name: Role(may, frozenset((schema, table) for schema, table in unreadable))
            for name, may, unreadable in found
        },
        now=now,
    )


def odd_values(
    dsn: str, columns: Mapping[TableName, Mapping[str, str]], rows: int
) -> dict[TableName, OddValues]:
    """Searches tables for values that a connector or the lake cannot represent.

    Args:
        dsn: of the database.
        columns: by table, the types (``numeric``, ``date``, ``timestamp``, ``timestamptz``) of the
            columns to search.
        rows: number of a table's rows to search.

    Returns:
        Results for tables that the user may read, and that were searched in time.

    Raises:
        CdcError: as `read_server`.
    """
    about = {
        "schemas": [each.schema for each in columns],
        "names": [each.name for each in columns],
    }
    address = address_of(dsn)
    found: dict[TableName, OddValues] = {}
    try:
        with connected(dsn, autocommit=True) as connection:
            connection.execute(_TIMEOUT)
            readable = {*connection.execute(_MAY_READ, about).fetchall()}
            for table, types in columns.items():
                if not types:
                    found[table] = OddValues()
                elif (table.schema, table.name) in readable:
                    try:
                        row = connection.execute(_search(table, types, rows)).fetchone()
                    except psycopg.errors.QueryCanceled:
                        continue
                    found[table] = _odd(types, row or (0,), rows)
    except psycopg.Error as error:
        raise translated(error, address) from error
    return found


_NO_NUMBER: Final = sql.SQL("{0}::text IN ('NaN', 'Infinity', '-Infinity')")
_NO_DATE: Final = sql.SQL("NOT isfinite({0}) OR extract(year FROM {0}) NOT BETWEEN 1 AND 9999")


def _search(table: TableName, types: Mapping[str, str], rows: int) -> sql.Composed:
    looks = [
        sql.SQL("coalesce(bool_or({}), false)").format(
            (_NO_NUMBER if kind == "numeric" else _NO_DATE).format(sql.Identifier(name))
        )
        for name, kind in types.items()
    ]
    return sql.SQL("SELECT count(*), {} FROM (SELECT * FROM {} LIMIT {}) AS looked").format(
        sql.SQL(", ").join(looks),
        sql.Identifier(table.schema, table.name),
        sql.Literal(rows + 1),
    )


def _odd(types: Mapping[str, str], row: tuple[Any, ...], rows: int) -> OddValues:
    count, *has = row
    odd = [name for name, is_odd in zip(types, has, strict=True) if is_odd]
    return OddValues(
        tuple(name for name in odd if types[name] == "numeric"),
        tuple(name for name in odd if types[name] != "numeric"),
        count > rows,
    )
