"""Reads tables from MySQL's or MariaDB's catalog, and the server's binlog settings.

Generated columns, stored or virtual, and invisible ones are in the binlog: with row images that
are full, changes hold all columns that `information_schema` lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from cdc_assets.changes.names import TableName
from cdc_assets.databases.mysql import silent
from cdc_assets.databases.mysql.binlog_settings import VARIABLES, settings_of
from cdc_assets.databases.mysql.catalog_sql import (
    CASCADES,
    EXISTING,
    LISTED,
    LOGS,
    MADE,
    SETTINGS,
    TABLES,
)
from cdc_assets.databases.mysql.comparing import quote
from cdc_assets.databases.mysql.connection import asked
from cdc_assets.databases.mysql.defaults import default_facts
from cdc_assets.databases.mysql.dsn import parse_dsn
from cdc_assets.databases.mysql.table import CatalogTable
from cdc_assets.databases.mysql.types import MysqlColumn
from cdc_assets.schema.silent import CatalogLook

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
    names = {"names": (*VARIABLES, *silent.VARIABLES)}
    queries = ((TABLES, about), (CASCADES, about), (SETTINGS, names))
    rows, keys, settings, status = asked(dsn, *queries, either=LOGS)
    server = _Server(dict(settings), silent.Filters.of(status))
    foreign = {} if server.logs_cascades else _foreign_keys(dsn, keys)
    by_table = groupby(rows, key=lambda row: (row[0], row[1]))
    found = {
        name: server.table(name[0], [row[2:] for row in group], foreign.get(name, ()))
        for name, group in by_table
    }
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


def _foreign_keys(
    dsn: str, rows: Sequence[Sequence[Any]]
) -> dict[tuple[str, str], tuple[silent.ForeignKey, ...]]:
    """Returns the foreign keys by table. Where their rules are not shown, the statement is asked.

    Raises:
        CdcError: as `read_tables`.
    """
    found: dict[tuple[str, str], tuple[silent.ForeignKey, ...]] = {}
    for (schema, table), group in groupby(rows, key=lambda row: (row[0], row[1])):
        keys = tuple(silent.ForeignKey(r[2], (r[3], r[4]), r[5], r[6]) for r in group)
        if not all(each.is_known for each in keys):
            made = MADE.format(table=f"{quote(schema)}.{quote(table)}")
            (told,) = asked(dsn, (made, {}))
            keys = silent.with_rules(keys, told[0][1])
        found[schema, table] = keys
    return found


@dataclass(frozen=True, slots=True)
class _Server:
    """What a server's settings say of all its tables."""

    variables: Mapping[str, str]
    filters: silent.Filters

    @property
    def logs_cascades(self) -> bool:
        return silent.logs_cascades(self.variables)

    def table(
        self, schema: str, rows: Sequence[Sequence[Any]], keys: Sequence[silent.ForeignKey]
    ) -> CatalogTable:
        """Returns the table of its columns' rows, which begin with what they say of the table."""
        table_type, comment = rows[0][0], rows[0][1]
        places = {row[2]: row[7] for row in rows if row[7] is not None}
        binlog = settings_of(self.variables)
        filtered = silent.filtered(schema, self.filters) if binlog.is_written else ()
        return CatalogTable(
            tuple(_column(row[2:7], row[8]) for row in rows),
            tuple(sorted(places, key=places.__getitem__)),
            comment or "",
            table_type == "SYSTEM VERSIONED",
            binlog,
            facts={
                row[2]: default_facts(row[3], row[4] == "NO", row[6], *row[8:10]) for row in rows
            },
            look=CatalogLook({row[2].casefold(): _definition(row) for row in rows}),
            unsent=(*silent.cascades(keys), *filtered),
        )


def _definition(row: Sequence[Any]) -> tuple[str, str, str, str]:
    """Returns what decides a column's values: name, type, character set and expression."""
    return row[2], row[3], row[10] or "", row[11] or ""


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
