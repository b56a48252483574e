"""Reads tables from PostgreSQL's catalog: one query, however many tables are asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, LiteralString

import psycopg

from cdc_assets.changes.names import TableName
from cdc_assets.databases.facts import Facts
from cdc_assets.databases.postgres.catalog_sql import (
    CALLED,
    EXISTING,
    LISTED,
    STYLE,
    TABLES,
    WITHOUT_VERSIONS,
)
from cdc_assets.databases.postgres.columns import PostgresColumn
from cdc_assets.databases.postgres.connection import address_of, connected, translated
from cdc_assets.databases.postgres.table import (
    CatalogTable,
    Publication,
    ReplicaIdentity,
    RowIdentity,
)
from cdc_assets.schema.silent import CatalogLook

_REWRITTEN: Final = frozenset({"hstore", "interval", "timetz"})
"""Types whose values the connector writes in another form than the database."""


def read_tables(dsn: str, tables: Iterable[TableName]) -> dict[TableName, CatalogTable]:
    """Reads the catalog. Tables that do not exist are left out.

    Raises:
        UnreachableError: if the database does not answer; names it without the password.
        TerminalError: if it refuses the login or the query.
        ConfigError: if the DSN cannot be parsed.
    """
    wanted = {(table.schema, table.name): table for table in tables}
    rows = _asked(dsn, TABLES, _parameters(wanted))
    return {wanted[schema, name]: _table(facts) for schema, name, *facts in rows}


def existing_tables(dsn: str, tables: Iterable[TableName]) -> frozenset[TableName]:
    """Returns those of some tables that exist, without reading their columns.

    Raises:
        CdcError: as `read_tables`.
    """
    wanted = {(table.schema, table.name): table for table in tables}
    return frozenset(
        wanted[schema, name] for schema, name in _asked(dsn, EXISTING, _parameters(wanted))
    )


def names_of(dsn: str, identities: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Returns schema and name of the existing tables with these numbers.

    Raises:
        CdcError: as `read_tables`.
    """
    rows = _asked(dsn, CALLED, {"numbers": [*identities]})
    return {number: (schema, name) for number, schema, name in rows}


def all_tables(dsn: str) -> tuple[tuple[str, str], ...]:
    """Returns schema and name of every table but partitions and the server's own, in order.

    Raises:
        CdcError: as `read_tables`.
    """
    return tuple((schema, name) for schema, name in _asked(dsn, LISTED, {}))


def _parameters(wanted: Collection[tuple[str, str]]) -> dict[str, list[str]]:
    return {"schemas": [each[0] for each in wanted], "names": [each[1] for each in wanted]}


def _asked(
    dsn: str, query: LiteralString, parameters: Mapping[str, Sequence[str]]
) -> list[tuple[Any, ...]]:
    address = address_of(dsn)
    try:
        with connected(dsn) as connection:
            (version, *_) = connection.execute(STYLE).fetchone() or ("",)
            if query is TABLES and "-YB-" in version:
                query = WITHOUT_VERSIONS
            return connection.execute(query, parameters).fetchall()
    except psycopg.Error as error:
        raise translated(error, address) from error


def _table(facts: Sequence[Any]) -> CatalogTable:
    columns, key, identity, comment, identity_key, deferrable_key, *publishing = facts
    publications, partitions, by_partition, root, told, oid, *logging = publishing
    is_unlogged, identities, look = logging
    published = tuple(_publication(**each) for each in publications or ())
    return CatalogTable(
        tuple(PostgresColumn(**column) for column in columns),
        tuple(key or ()),
        ReplicaIdentity(identity),
        comment or "",
        tuple(identity_key or ()),
        deferrable_key,
        published,
        tuple(root) if root else None,
        tuple((schema, name) for schema, name in partitions or ()),
        tuple(by_partition or ()),
        _facts({column["name"]: column["type_name"] for column in columns}, told),
        f"oid {oid}",
        is_unlogged,
        tuple(RowIdentity(ReplicaIdentity(k), tuple(of or ())) for k, of in identities or ()),
        _look(look, published),
        tuple(number for number, part in (look["parts"] or {}).items() if part[2]),
        tuple(look["heirs"] or ()),
    )


def _look(said: Mapping[str, Any], published: Sequence[Publication]) -> CatalogLook:
    columns, parts = said["columns"] or {}, said["parts"] or {}
    return CatalogLook(
        {number: tuple(of) for number, of in columns.items()},
        said["files"],
        {number: (name, files) for number, (name, files, _) in parts.items()},
        said["labels"] or {},
        tuple(each.number for each in published),
    )


def _facts(types: Mapping[str, str], told: Mapping[str, Any]) -> dict[str, Facts]:
    """Drops existing values that the connector writes in another form than the database."""
    found = {name: Facts(**each) for name, each in told.items()}
    return {
        name: replace(facts, existing=None, is_untold=True)
        if facts.existing is not None and types.get(name) in _REWRITTEN
        else facts
        for name, facts in found.items()
    }


def _publication(
    name: str, columns: list[str] | None, filters_rows: bool, number: str, lacks: list[str]
) -> Publication:
    names = None if columns is None else frozenset(columns)
    return Publication(name, names, filters_rows, number, frozenset(lacks))
