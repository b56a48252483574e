"""Reads tables from MySQL's or MariaDB's catalog, and the server's binlog settings.

Generated columns, stored or virtual, and invisible ones are in the binlog: with row images that
are full, changes hold all columns that `information_schema` lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from cdc_assets.changes.names import TableName
from cdc_assets.databases.catalog import ColumnFacts
from cdc_assets.databases.mysql.connection import answers, parse_dsn, quote
from cdc_assets.databases.mysql.table import (
    VARIABLES,
    Filters,
    ForeignKey,
    MysqlTable,
    cascades,
    filtered,
    logs_cascades,
    settings_of,
    with_rules,
)
from cdc_assets.databases.mysql.type_text import MysqlType, parse_column_type
from cdc_assets.databases.mysql.types import MysqlColumn
from cdc_assets.schema.silent import CatalogLook
from cdc_assets.schema.types import MAX_DECIMAL_DIGITS

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_DOUBLE: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?e[+-]?[0-9]+")
_DIGIT: Final = re.compile(r"[0-9]")
_FLOAT_DIGITS: Final = 6
"""As many as the catalog has of a ``float``: the value may have had more."""
_QUOTED: Final = re.compile(r"'((?:[^'\\]|'')*)'")


def read_tables(dsn: str, tables: Iterable[TableName]) -> dict[TableName, MysqlTable]:
    """Reads the catalog. Tables that do not exist are left out, and those without any right on.

    Raises:
        UnreachableError: if the database does not answer; names it without the password.
        TerminalError: if it refuses the login or the query.
        ConfigError: if the DSN cannot be parsed.
    """
    wanted = {(table.schema, table.name): table for table in tables}
    about = {"schemas": _each(wanted, 0), "names": _each(wanted, 1)}
    names = {"names": VARIABLES}
    queries = ((_TABLES, about), (_CASCADES, about), (_SETTINGS, names))
    rows, keys, settings, status = answers(dsn, *queries, either=_LOGS)
    server = _ServerSettings(dict(settings), Filters.of(status))
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
    (rows,) = answers(dsn, (_EXISTING, {"schemas": _each(wanted, 0), "names": _each(wanted, 1)}))
    return frozenset(wanted[name] for name in rows if name in wanted)


def all_tables(dsn: str) -> tuple[tuple[str, str], ...]:
    """Returns schema and name of every table of the DSN's database, or of all but the server's own.

    Raises:
        CdcError: as `read_tables`.
    """
    (rows,) = answers(dsn, (_LISTED, {"schema": parse_dsn(dsn).database}))
    return tuple((schema, name) for schema, name in rows)


def names_of(dsn: str, identities: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Returns nothing: the tables have no identities."""
    del dsn, identities
    return {}


def _each(pairs: Iterable[tuple[str, str]], place: int) -> tuple[str, ...]:
    """Returns each schema (0) or name (1) once; SQL knows no empty list."""
    return tuple(dict.fromkeys(pair[place] for pair in pairs)) or ("",)


def _foreign_keys(
    dsn: str, rows: Sequence[Sequence[Any]]
) -> dict[tuple[str, str], tuple[ForeignKey, ...]]:
    """Returns the foreign keys by table. Where their rules are not shown, the statement is asked.

    Raises:
        CdcError: as `read_tables`.
    """
    found: dict[tuple[str, str], tuple[ForeignKey, ...]] = {}
    for (schema, table), group in groupby(rows, key=lambda row: (row[0], row[1])):
        keys = tuple(ForeignKey(r[2], (r[3], r[4]), r[5], r[6]) for r in group)
        if not all(each.is_known for each in keys):
            made = _MADE.format(table=f"{quote(schema)}.{quote(table)}")
            (create,) = answers(dsn, (made, {}))
            keys = with_rules(keys, create[0][1])
        found[schema, table] = keys
    return found


@dataclass(frozen=True, slots=True)
class _ServerSettings:
    """What a server's settings say of all its tables."""

    variables: Mapping[str, str]
    filters: Filters

    @property
    def logs_cascades(self) -> bool:
        return logs_cascades(self.variables)

    def table(
        self, schema: str, rows: Sequence[Sequence[Any]], keys: Sequence[ForeignKey]
    ) -> MysqlTable:
        """Returns the table of its columns' rows, which begin with what they say of the table."""
        table_type, comment = rows[0][0], rows[0][1]
        places = {row[2]: row[7] for row in rows if row[7] is not None}
        binlog = settings_of(self.variables)
        left_out = filtered(schema, self.filters) if binlog.is_written else ()
        return MysqlTable(
            tuple(_column(row[2:6], row[8]) for row in rows),
            tuple(sorted(places, key=places.__getitem__)),
            comment or "",
            table_type == "SYSTEM VERSIONED",
            binlog,
            facts={
                row[2]: default_facts(row[3], row[4] == "NO", row[6], *row[8:10]) for row in rows
            },
            look=CatalogLook({row[2].casefold(): _definition(row) for row in rows}),
            unsent=(*cascades(keys), *left_out),
        )


def _definition(row: Sequence[Any]) -> tuple[str, str, str, str]:
    """Returns what decides a column's values: name, type, character set and expression."""
    return row[2], row[3], row[10] or "", row[11] or ""


def _column(about: Sequence[Any], default: str | None) -> MysqlColumn:
    name, type_text, nullable, comment = about
    return MysqlColumn(
        name,
        type_text,
        nullable == "NO",
        comment or "",
        default is not None and default.upper() != "NULL",
    )


def default_facts(
    type_text: str, not_null: bool, extra: str, default: str | None, is_mariadb: bool
) -> ColumnFacts:
    """Returns facts by the present default: no catalog keeps the one at the column's addition.

    MariaDB writes defaults as SQL has them, MySQL their values.
    """
    type_, words = parse_column_type(type_text), extra.lower()
    if "auto_increment" in words or "generated" in words:
        return ColumnFacts(is_unknown=True)
    if default is None or (is_mariadb and default.upper() == "NULL"):
        is_other = _implies_another(type_)
        return ColumnFacts(is_implied=not_null and not is_other, is_unknown=not_null and is_other)
    if type_.name == "float" and len(_DIGIT.findall(default)) >= _FLOAT_DIGITS:
        return ColumnFacts(is_unknown=True)
    is_number = _NUMBER.fullmatch(default) or (
        type_.name == "double" and _DOUBLE.fullmatch(default)
    )
    if not is_mariadb or is_number:
        return ColumnFacts(existing=default)
    text = _QUOTED.fullmatch(default)
    return (
        ColumnFacts(existing=text[1].replace("''", "'")) if text else ColumnFacts(is_unknown=True)
    )


def _implies_another(type_: MysqlType) -> bool:
    """Returns whether rows have another value than an empty text or 0 without a default."""
    is_long = type_.name == "decimal" and type_.arguments[:1] > (MAX_DECIMAL_DIGITS,)
    return type_.name in {"enum", "json"} or is_long


# ── queries ───────────────────────────────────────────────────────────────────────────────

_EXISTING: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES
WHERE TABLE_SCHEMA IN %(schemas)s AND TABLE_NAME IN %(names)s
  AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
"""


_LISTED: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES
WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
  AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')
  AND (%(schema)s = '' OR TABLE_SCHEMA = %(schema)s)
ORDER BY 1, 2
"""


_TABLES: Final = """
SELECT t.TABLE_SCHEMA, t.TABLE_NAME, t.TABLE_TYPE, t.TABLE_COMMENT,
       c.COLUMN_NAME, c.COLUMN_TYPE, c.IS_NULLABLE, c.COLUMN_COMMENT, c.EXTRA, k.SEQ_IN_INDEX,
       c.COLUMN_DEFAULT, VERSION() LIKE '%%MariaDB%%', c.CHARACTER_SET_NAME,
       c.GENERATION_EXPRESSION
FROM information_schema.TABLES t
JOIN information_schema.COLUMNS c
  ON c.TABLE_SCHEMA = t.TABLE_SCHEMA AND c.TABLE_NAME = t.TABLE_NAME
LEFT JOIN information_schema.STATISTICS k
  ON k.TABLE_SCHEMA = c.TABLE_SCHEMA AND k.TABLE_NAME = c.TABLE_NAME
 AND k.COLUMN_NAME = c.COLUMN_NAME AND k.INDEX_NAME = 'PRIMARY'
WHERE t.TABLE_SCHEMA IN %(schemas)s AND t.TABLE_NAME IN %(names)s
  AND t.TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
ORDER BY t.TABLE_SCHEMA, t.TABLE_NAME, c.ORDINAL_POSITION
"""

_CASCADES: Final = """
SELECT k.TABLE_SCHEMA, k.TABLE_NAME, k.CONSTRAINT_NAME, k.REFERENCED_TABLE_SCHEMA,
       k.REFERENCED_TABLE_NAME, r.DELETE_RULE, r.UPDATE_RULE
FROM information_schema.KEY_COLUMN_USAGE k
LEFT JOIN information_schema.REFERENTIAL_CONSTRAINTS r
  ON r.CONSTRAINT_SCHEMA = k.CONSTRAINT_SCHEMA AND r.TABLE_NAME = k.TABLE_NAME
 AND r.CONSTRAINT_NAME = k.CONSTRAINT_NAME
WHERE k.TABLE_SCHEMA IN %(schemas)s AND k.TABLE_NAME IN %(names)s
  AND k.REFERENCED_TABLE_NAME IS NOT NULL AND k.ORDINAL_POSITION = 1
ORDER BY 1, 2, 3
"""
"""Foreign keys. MariaDB shows their rules to users only who may more than read the table."""

_MADE: Final = "SHOW CREATE TABLE {table}"
"""Shows the rules of foreign keys to all who may read the table."""

_LOGS: Final = ("SHOW MASTER STATUS", "SHOW BINARY LOG STATUS")
"""Shows the options that keep databases out of the binlog; the second one from MySQL 8.4 on."""

_SETTINGS: Final = "SHOW GLOBAL VARIABLES WHERE Variable_name IN %(names)s"
