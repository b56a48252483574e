"""Reads tables from PostgreSQL's catalog: one query, however many tables are asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, LiteralString

import psycopg

from cdc_assets.changes.names import TableName
from cdc_assets.databases.catalog import ColumnFacts
from cdc_assets.databases.postgres.columns import PostgresColumn
from cdc_assets.databases.postgres.connection import address_of, connected, translated
from cdc_assets.databases.postgres.table import (
    PostgresTable,
    Publication,
    ReplicaIdentity,
    RowIdentity,
)
from cdc_assets.schema.silent import CatalogLook

_REWRITTEN: Final = frozenset({"hstore", "interval", "timetz"})
"""Types whose values the connector writes in another form than the database."""


def read_tables(dsn: str, tables: Iterable[TableName]) -> dict[TableName, PostgresTable]:
    """Reads the catalog. Tables that do not exist are left out.

    Raises:
        UnreachableError: if the database does not answer; names it without the password.
        TerminalError: if it refuses the login or the query.
        ConfigError: if the DSN cannot be parsed.
    """
    wanted = {(table.schema, table.name): table for table in tables}
    rows = _answer(dsn, _TABLES, _parameters(wanted))
    return {wanted[schema, name]: _table(facts) for schema, name, *facts in rows}


def existing_tables(dsn: str, tables: Iterable[TableName]) -> frozenset[TableName]:
    """Returns those of some tables that exist, without reading their columns.

    Raises:
        CdcError: as `read_tables`.
    """
    wanted = {(table.schema, table.name): table for table in tables}
    return frozenset(
        wanted[schema, name] for schema, name in _answer(dsn, _EXISTING, _parameters(wanted))
    )


def names_of(dsn: str, identities: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Returns schema and name of the existing tables with these numbers.

    Raises:
        CdcError: as `read_tables`.
    """
    rows = _answer(dsn, _CALLED, {"numbers": [*identities]})
    return {number: (schema, name) for number, schema, name in rows}


def all_tables(dsn: str) -> tuple[tuple[str, str], ...]:
    """Returns schema and name of every table but partitions and the server's own, in order.

    Raises:
        CdcError: as `read_tables`.
    """
    return tuple((schema, name) for schema, name in _answer(dsn, _LISTED, {}))


def _parameters(wanted: Collection[tuple[str, str]]) -> dict[str, list[str]]:
    return {"schemas": [each[0] for each in wanted], "names": [each[1] for each in wanted]}


def _answer(
    dsn: str, query: LiteralString, parameters: Mapping[str, Sequence[str]]
) -> list[tuple[Any, ...]]:
    address = address_of(dsn)
    try:
        with connected(dsn) as connection:
            (version, *_) = connection.execute(_STYLE).fetchone() or ("",)
            if query is _TABLES and "-YB-" in version:
                query = _WITHOUT_VERSIONS
            return connection.execute(query, parameters).fetchall()
    except psycopg.Error as error:
        raise translated(error, address) from error


def _table(facts: Sequence[Any]) -> PostgresTable:
    columns, key, identity, comment, identity_key, deferrable_key, *publishing = facts
    publications, partitions, by_partition, root, column_facts, oid, *logging = publishing
    is_unlogged, identities, look = logging
    published = tuple(_publication(**each) for each in publications or ())
    return PostgresTable(
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
        _facts({column["name"]: column["type_name"] for column in columns}, column_facts),
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


def _facts(types: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, ColumnFacts]:
    """Drops existing values that the connector writes in another form than the database."""
    found = {name: ColumnFacts(**each) for name, each in given.items()}
    return {
        name: replace(facts, existing=None, is_unknown=True)
        if facts.existing is not None and types.get(name) in _REWRITTEN
        else facts
        for name, facts in found.items()
    }


def _publication(
    name: str, columns: list[str] | None, filters_rows: bool, number: str, lacks: list[str]
) -> Publication:
    names = None if columns is None else frozenset(columns)
    return Publication(name, names, filters_rows, number, frozenset(lacks))


# ── queries ───────────────────────────────────────────────────────────────────────────────

_STYLE: Final = (
    "SELECT version(), set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO', true), "
    "set_config('bytea_output', 'hex', true), set_config('extra_float_digits', '1', true)"
)
"""Output style for the values that rows have in columns added after them."""

_TABLES: Final = """
WITH RECURSIVE wanted AS (
    SELECT c.oid, n.nspname, c.relname, c.relreplident, c.relkind, c.relispartition,
           c.relpersistence, c.relfilenode,
           c.relkind = 'p' OR c.relfilenode NOT IN (0, c.oid) AS is_rewritten
    FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (nspname, relname)
    JOIN pg_namespace n ON n.nspname = w.nspname
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.relname
    WHERE c.relkind IN ('r', 'p')
), leaves AS (
    SELECT w.oid AS parent, c.oid, n.nspname, c.relname, c.relkind, c.relreplident,
           c.relpersistence
    FROM wanted w
    CROSS JOIN LATERAL pg_partition_tree(w.oid) t
    JOIN pg_class c ON c.oid = t.relid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE w.relkind = 'p' AND t.isleaf
), logging AS (  -- what logs a table's changes; those of a foreign partition are in no WAL
    SELECT parent, oid, relreplident, relpersistence FROM leaves WHERE relkind <> 'f'
    UNION ALL
    SELECT oid, oid, relreplident, relpersistence FROM wanted
    WHERE NOT EXISTS (SELECT FROM leaves WHERE parent = wanted.oid AND leaves.relkind <> 'f')
), toasted AS (
    SELECT l.parent, a.attname, bool_and(a.attstorage = 'm') AS in_page
    FROM logging l
    JOIN pg_attribute a ON a.attrelid = l.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE a.attstorage <> 'p' AND l.relreplident IN ('d', 'n', 'i')
    GROUP BY l.parent, a.attname
), resolved AS (  -- a domain is replaced by what it stands for, its modifier included
    SELECT a.attrelid, a.attnum, a.atttypid AS type, a.atttypmod AS modifier,
           a.attnotnull AS not_null, a.attndims::int AS dimensions
    FROM wanted JOIN pg_attribute a ON a.attrelid = wanted.oid
    WHERE a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT r.attrelid, r.attnum, t.typbasetype, t.typtypmod, r.not_null OR t.typnotnull,
           greatest(r.dimensions, t.typndims)
    FROM resolved r JOIN pg_type t ON t.oid = r.type WHERE t.typtype = 'd'
), columns AS (
    SELECT a.attrelid, jsonb_agg(jsonb_build_object(
        'name', a.attname,
        'type_name', coalesce(e.typname, t.typname),
        'type_text', format_type(a.atttypid, a.atttypmod),
        'modifier', r.modifier,
        'is_array', e.oid IS NOT NULL,
        'kind', coalesce(e.typtype, t.typtype),
        'not_null', r.not_null,
        'comment', coalesce(col_description(a.attrelid, a.attnum), ''),
        'is_generated', a.attgenerated <> '',
        'has_default', a.atthasdef AND a.attgenerated = '',
        'dimensions', r.dimensions,
        'may_be_toasted', s.attname IS NOT NULL,
        'in_domain', r.type <> a.atttypid,
        'in_partitions', w.relkind = 'p',
        'stays_in_page', coalesce(s.in_page, false)
    ) ORDER BY a.attnum) AS columns
    FROM resolved r
    JOIN wanted w ON w.oid = r.attrelid
    JOIN pg_attribute a USING (attrelid, attnum)
    LEFT JOIN toasted s ON s.parent = a.attrelid AND s.attname = a.attname
    JOIN pg_type t ON t.oid = r.type AND t.typtype <> 'd'
    LEFT JOIN pg_type e ON e.oid = t.typelem AND e.typarray = t.oid  -- int2vector is no array
    GROUP BY a.attrelid
), facts AS (  -- attmissingval: an array of one; a table that is rewritten loses it
    SELECT a.attrelid, jsonb_object_agg(a.attname, jsonb_build_object(
        'number', a.attnum,
        'existing', CASE WHEN a.atthasmissing THEN (a.attmissingval::text::text[])[1] END,
        'is_unknown', NOT a.atthasmissing AND w.is_rewritten AND
                     (a.atthasdef OR a.attidentity <> '' OR d.typdefault IS NOT NULL)
    )) AS facts
    FROM wanted w
    JOIN pg_attribute a ON a.attrelid = w.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_type d ON d.oid = a.atttypid AND d.typtype = 'd'
    GROUP BY a.attrelid
), partitions AS (
    SELECT l.parent AS oid, jsonb_agg(jsonb_build_array(l.nspname, l.relname)) AS leaves
    FROM leaves l GROUP BY l.parent
), published AS (  -- attnames and rowfilter: from PostgreSQL 15 on
    SELECT w.oid, jsonb_agg(jsonb_build_object(
        'name', p.pubname,
        'columns', to_jsonb(p) -> 'attnames',
        'filters_rows', to_jsonb(p) ->> 'rowfilter' IS NOT NULL,
        'number', coalesce(r.oid, b.oid)::text,
        'lacks', array_remove(ARRAY[
            CASE WHEN NOT b.pubinsert THEN 'insert' END,
            CASE WHEN NOT b.pubupdate THEN 'update' END,
            CASE WHEN NOT b.pubdelete THEN 'delete' END], NULL)
    ) ORDER BY p.pubname) AS publications
    FROM wanted w
    JOIN pg_publication_tables p ON p.schemaname = w.nspname AND p.tablename = w.relname
    JOIN pg_publication b ON b.pubname = p.pubname
    LEFT JOIN pg_publication_rel r ON r.prpubid = b.oid AND r.prrelid = w.oid
    GROUP BY w.oid
), by_partition AS (
    SELECT l.parent AS oid, array_agg(DISTINCT p.pubname::text) AS names
    FROM leaves l
    JOIN pg_publication_tables p ON p.schemaname = l.nspname AND p.tablename = l.relname
    GROUP BY l.parent
), keys AS (  -- the columns of INCLUDE come last in an index, and are no part of its key
    SELECT i.indrelid, i.indisprimary, i.indisreplident, NOT i.indimmediate AS deferrable,
           array_agg(a.attname::text ORDER BY k.place) AS key
    FROM (SELECT oid FROM wanted UNION SELECT oid FROM logging) t
    JOIN pg_index i ON i.indrelid = t.oid AND (i.indisprimary OR i.indisreplident)
    CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k (attnum, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    WHERE k.place <= i.indnkeyatts
    GROUP BY i.indexrelid
), logged AS (
    SELECT l.parent, bool_or(l.relpersistence = 'u') AS is_unlogged,
           jsonb_agg(DISTINCT jsonb_build_array(l.relreplident::text, to_jsonb(k.key)))
               FILTER (WHERE l.oid <> l.parent) AS identities
    FROM logging l
    LEFT JOIN keys k ON k.indrelid = l.oid AND k.indisreplident
    GROUP BY l.parent
), looks AS (  -- what a statement without events leaves in the catalog; versions: who wrote a row
    SELECT w.oid, jsonb_build_object(
        'files', w.relfilenode::text,
        'columns', (
            SELECT jsonb_object_agg(a.attnum, jsonb_build_array(
                a.attname, format_type(a.atttypid, a.atttypmod), a.xmin::text))
            FROM pg_attribute a
            WHERE a.attrelid = w.oid AND a.attnum > 0 AND NOT a.attisdropped
        ),
        'labels', (
            SELECT jsonb_object_agg(e.oid, e.enumlabel)
            FROM (SELECT DISTINCT coalesce(nullif(t.typelem, 0), t.oid) AS type
                  FROM resolved r JOIN pg_type t ON t.oid = r.type
                  WHERE r.attrelid = w.oid) u
            JOIN pg_enum e ON e.enumtypid = u.type
        ),
        'parts', (  -- of its partitions at all levels
            SELECT jsonb_object_agg(c.oid, jsonb_build_array(
                n.nspname || '.' || c.relname, c.relfilenode::text,
                i.xmin::text <> made.xmin::text
                AND (c.relkind <> 'r' OR pg_relation_size(c.oid) > 0)))
            FROM pg_partition_tree(w.oid) t
            JOIN pg_class c ON c.oid = t.relid
            JOIN pg_namespace n ON n.oid = c.relnamespace
            JOIN pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = t.parentrelid
            JOIN pg_attribute made ON made.attrelid = c.oid AND made.attnum = -6
            WHERE w.relkind = 'p' AND t.relid <> w.oid
        ),
        'heirs', (  -- tables that inherit from it, unless they are TimescaleDB's chunks
            SELECT jsonb_agg(n.nspname || '.' || c.relname ORDER BY c.oid)
            FROM pg_inherits i
            JOIN pg_class c ON c.oid = i.inhrelid
            JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE i.inhparent = w.oid AND w.relkind = 'r' AND n.nspname <> '_timescaledb_internal'
        )
    ) AS look
    FROM wanted w
)
SELECT w.nspname::text, w.relname::text, c.columns, k.key, w.relreplident::text,
       obj_description(w.oid, 'pg_class'), r.key, coalesce(k.deferrable, false),
       p.publications, l.leaves, b.names,
       CASE WHEN w.relispartition THEN jsonb_build_array(rn.nspname, root.relname) END,
       f.facts, w.oid::text, w.relpersistence = 'u' OR g.is_unlogged, g.identities, s.look
FROM wanted w
JOIN columns c ON c.attrelid = w.oid
JOIN facts f ON f.attrelid = w.oid
JOIN logged g ON g.parent = w.oid
JOIN looks s ON s.oid = w.oid
LEFT JOIN published p ON p.oid = w.oid
LEFT JOIN partitions l ON l.oid = w.oid
LEFT JOIN by_partition b ON b.oid = w.oid
LEFT JOIN pg_class root ON w.relispartition AND root.oid = pg_partition_root(w.oid)
LEFT JOIN pg_namespace rn ON rn.oid = root.relnamespace
LEFT JOIN keys k ON k.indrelid = w.oid AND k.indisprimary
LEFT JOIN keys r ON r.indrelid = w.oid AND r.indisreplident
"""

_WITHOUT_VERSIONS: Final = _TABLES.replace("a.xmin::text", "''").replace(
    "i.xmin::text <> made.xmin::text", "false"
)
"""For YugabyteDB, whose catalog has no versions of rows."""

_CALLED: Final = """
SELECT c.oid::text, n.nspname, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid::text = ANY(%(numbers)s::text[]) AND c.relkind IN ('r', 'p')
"""

_EXISTING: Final = """
SELECT n.nspname, c.relname
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (nspname, relname)
JOIN pg_namespace n ON n.nspname = w.nspname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.relname
WHERE c.relkind IN ('r', 'p')
"""


_LISTED: Final = """
SELECT n.nspname, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
ORDER BY 1, 2
"""
