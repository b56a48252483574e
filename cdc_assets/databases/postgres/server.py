"""Reads a PostgreSQL server's side of replication: settings, slots, publications, rights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import psycopg
from psycopg import sql

from cdc_assets.changes.names import TableName
from cdc_assets.databases.postgres.connection import address_of, connected, translated
from cdc_assets.databases.postgres.slots import Slot, read_slots

_TIMEOUT: Final = "SET statement_timeout = '10s'"
"""Applies to each table whose values are searched."""


@dataclass(frozen=True, slots=True)
class Published:
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
class Server:
    """One database's server.

    Attributes:
        keep_bytes: ``max_slot_wal_keep_size``; None without a limit.
        roles: by name, of those that were asked for and exist.
        now: its clock.
    """

    wal_level: str
    keep_bytes: int | None
    slots: Mapping[str, Slot]
    publications: Mapping[str, Published]
    roles: Mapping[str, Role] = field(default_factory=dict[str, Role])
    now: datetime | None = None


@dataclass(frozen=True, slots=True)
class Odd:
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


def read_server(dsn: str, tables: Iterable[TableName], roles: Iterable[str]) -> Server:
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
    return Server(
        wal_level=level,
        keep_bytes=None if keep is None or keep < 0 else keep << 20,
        slots={each.name: each for each in read_slots(dsn)},
        publications={name: Published(name, *said) for name, *said in publications},
        roles={
            name: Role(may, frozenset((schema, table) for schema, table in unreadable))
            for name, may, unreadable in found
        },
        now=now,
    )


def odd_values(
    dsn: str, columns: Mapping[TableName, Mapping[str, str]], rows: int
) -> dict[TableName, Odd]:
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
    found: dict[TableName, Odd] = {}
    try:
        with connected(dsn, autocommit=True) as connection:
            connection.execute(_TIMEOUT)
            readable = {*connection.execute(_MAY_READ, about).fetchall()}
            for table, types in columns.items():
                if not types:
                    found[table] = Odd()
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


def _odd(types: Mapping[str, str], row: tuple[Any, ...], rows: int) -> Odd:
    count, *has = row
    odd = [name for name, is_odd in zip(types, has, strict=True) if is_odd]
    return Odd(
        tuple(name for name in odd if types[name] == "numeric"),
        tuple(name for name in odd if types[name] != "numeric"),
        count > rows,
    )
