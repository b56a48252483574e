"""Reads tables from MySQL's or MariaDB's catalog, and the server's binlog settings.

Generated columns, stored or virtual, and invisible ones are in the binlog: with row images that
are full, changes hold all columns that `information_schema` lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final

from cdc_assets.changes.names import TableName
from cdc_assets.databases.mysql.binlog_settings import VARIABLES, BinlogSettings, settings_of
from cdc_assets.databases.mysql.catalog_sql import EXISTING, LISTED, SETTINGS, TABLES
from cdc_assets.databases.mysql.connection import asked
from cdc_assets.databases.mysql.defaults import default_facts
from cdc_assets.databases.mysql.dsn import parse_dsn
from cdc_assets.databases.mysql.table import CatalogTable
from cdc_assets.databases.mysql.types import MysqlColumn

_GENERATED: Final = ("STORED GENERATED", "VIRTUAL GENERATED")
"""In ``EXTRA``. ``DEFAULT_GENERATED`` is another thing: a default that is an expression."""


def read_tables(dsn: str, tables: Iterable[TableName]) -> dict[TableName, CatalogTable]:
    """Reads the catalog. Tables that do not exist are left out, and those without any right on.

    Raises:
        UnreachableError: if the database does not answer; names it without the password.
        TerminalError: if it refuses the login or the query.
        ConfigError: if the DSN cannot be parsed.
    """
    wanted = {(table.schema, table.name): table for table in tables}
    about = {"schemas": _each(wanted, 0), "names": _each(wanted, 1)}
    rows, settings = asked(dsn, (TABLES, about), (SETTINGS, {"names": VARIABLES}))
    binlog = settings_of(dict(settings))
    by_table = groupby(rows, key=lambda row: (row[0], row[1]))
    found = {name: _table([row[2:] for row in group], binlog) for name, group in by_table}
    # More tables than asked for: other pairs of schema and name, and on some servers names that
    # differ in case, which they do not in the binlog.
    return {wanted[name]: table for name, table in found.items() if name in wanted}


def existing_tables(dsn: str, tables: Iterable[TableName]) -> frozenset[TableName]:
    """Returns which of some tables exist, without reading their columns.

    Raises:
        CdcError: as `read_tables`.
    """
    wanted = {(table.schema, table.name): table for table in tables}
    (rows,) = asked(dsn, (EXISTING, {"schemas": _each(wanted, 0), "names": _each(wanted, 1)}))
    return frozenset(wanted[name] for name in rows if name in wanted)


def all_tables(dsn: str) -> tuple[tuple[str, str], ...]:
    """Returns schema and name of every table of the DSN's database, or of all but the server's own.

    Raises:
        CdcError: as `read_tables`.
    """
    (rows,) = asked(dsn, (LISTED, {"schema": parse_dsn(dsn).database}))
    return tuple((schema, name) for schema, name in rows)


def _each(pairs: Iterable[tuple[str, str]], place: int) -> tuple[str, ...]:
    """Returns each schema (0) or name (1) once; SQL knows no empty list."""
    return tuple(dict.fromkeys(pair[place] for pair in pairs)) or ("",)


def _table(rows: Sequence[Sequence[Any]], binlog: BinlogSettings) -> CatalogTable:
    """Returns the table of its columns' rows, which begin with what they say of the table."""
    table_type, comment = rows[0][0], rows[0][1]
    places = {row[2]: row[7] for row in rows if row[7] is not None}
    return CatalogTable(
        tuple(_column(row[2:7], row[8]) for row in rows),
        tuple(sorted(places, key=places.__getitem__)),
        comment or "",
        table_type == "SYSTEM VERSIONED",
        binlog,
        facts={row[2]: default_facts(row[3], row[4] == "NO", row[6], *row[8:10]) for row in rows},
    )


def _column(about: Sequence[Any], default: str | None) -> MysqlColumn:
    name, type_text, nullable, comment, extra = about
    words = extra.upper()
    return MysqlColumn(
        name,
        type_text,
        nullable == "NO",
        comment or "",
        any(each in words for each in _GENERATED),
        "INVISIBLE" in words,
        default is not None and default.upper() != "NULL",
    )
