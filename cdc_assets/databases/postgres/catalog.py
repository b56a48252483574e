"""Reads tables from PostgreSQL's catalog: one query, however many tables are asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict

from cdc_assets.changes.names import TableName
from cdc_assets.databases.facts import Facts
from cdc_assets.databases.postgres.columns import PostgresColumn
from cdc_assets.databases.postgres.large_values import toast_warning
from cdc_assets.databases.postgres.types import describe_table, without_lost
from cdc_assets.errors import CdcError, ConfigError, TerminalError, UnreachableError
from cdc_assets.schema.described import Described
from cdc_assets.schema.modes import ConnectorModes

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


class ReplicaIdentity(StrEnum):
    """The logged part of the old row (``pg_class.relreplident``); CHANGE is YugabyteDB's."""

    DEFAULT = "d"
    NOTHING = "n"
    FULL = "f"
    INDEX = "i"
    CHANGE = "c"


@dataclass(frozen=True, slots=True)
class RowIdentity:
    """A replica identity.

    Attributes:
        kind: which one.
        key: columns of the index that it is; () if it is none.
    """

    kind: ReplicaIdentity
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication of a table.

    Attributes:
        columns: the published columns; None on a server without column lists (before 15).
        filters_rows: whether it has a ``WHERE`` for the table.
    """

    name: str
    columns: frozenset[str] | None = None
    filters_rows: bool = False


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table as the catalog has it; generated columns included, dropped ones not.

    Attributes:
        replica_identity: its own; see `row_identities`.
        identity_key: columns of the index that is the replica identity; () without one.
        deferrable_key: whether the primary key is checked at the end of a statement or transaction.
        publications: publications of changes under the table's own name.
        root: ``(schema, name)`` of the partitioned table that it is a partition of.
        partitions: ``(schema, name)`` of its own partitions, those that hold rows.
        by_partition: publications that send its changes under the partitions' names.
        facts: of its columns.
        identity: its ``oid``, which a table that is recreated, or restored from a dump, does not
            keep.
        is_unlogged: whether changes of it, or of one of its partitions, are in no WAL.
        partition_identities: replica identities that its partitions have, each once.
    """

    columns: tuple[PostgresColumn, ...]
    primary_key: tuple[str, ...]
    replica_identity: ReplicaIdentity
    comment: str
    identity_key: tuple[str, ...] = ()
    deferrable_key: bool = False
    publications: tuple[Publication, ...] = ()
    root: tuple[str, str] | None = None
    partitions: tuple[tuple[str, str], ...] = ()
    by_partition: tuple[str, ...] = ()
    facts: Mapping[str, Facts] = field(default_factory=dict[str, Facts])
    identity: str = ""
    is_unlogged: bool = False
    partition_identities: tuple[RowIdentity, ...] = ()

    @property
    def row_identities(self) -> tuple[RowIdentity, ...]:
        """The replica identities by which its changes are logged.

        Changes of a partitioned table are logged by those of its partitions: its own decides
        nothing, and ``ALTER TABLE … REPLICA IDENTITY`` does not pass it on to them.
        """
        own = RowIdentity(self.replica_identity, self.identity_key)
        return self.partition_identities or (own,)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(column.name for column in self.columns)

    @property
    def of_each_partition(self) -> str:
        """What follows a statement about replica identities, for people."""
        return " (of each partition, new ones too)" if self.partitions else ""

    def unpublished(self, publication: str | None) -> dict[str, str]:
        """Returns columns whose changes no event holds, each with the reason.

        Args:
            publication: the connector's; None takes all that the table has.
        """
        mine = self._of(self.publications, publication)
        names = ", ".join(each.name for each in mine)
        found: dict[str, str] = {}
        for column in self.columns:
            if any(each.columns and column.name in each.columns for each in mine):
                continue
            if column.is_generated:
                found[column.name] = "the database generates it and does not publish it"
            elif mine and all(each.columns is not None for each in mine):
                found[column.name] = f"it is not in the column list of publication {names}"
        return found

    def filters_rows(self, publication: str | None) -> bool:
        """Returns whether every publication of the table leaves rows out."""
        mine = self._of(self.publications, publication)
        return bool(mine) and all(each.filters_rows for each in mine)

    @staticmethod
    def _of(given: tuple[Publication, ...], name: str | None) -> tuple[Publication, ...]:
        return tuple(each for each in given if name in (None, each.name))

    def sent_by_partition(self, publication: str | None) -> bool:
        """Returns whether this partitioned table's changes come under its partitions' names."""
        return any(publication in (None, each) for each in self.by_partition) and not self._of(
            self.publications, publication
        )

    def require_whole(self, where: str) -> None:
        """Refuses nothing: what the server logs of a row is the table's affair, not a setting."""
        del where

    def require_told(self, key: tuple[str, ...], where: str) -> None:
        """Refuses a table whose events do not identify their row.

        Raises:
            TerminalError: if it is one.
        """
        for identity in self.row_identities:
            if identity.kind is ReplicaIdentity.INDEX and not set(key) <= set(identity.key):
                index, of = ", ".join(identity.key), "a partition's" if self.partitions else "its"
                what = f"{of} replica identity is an index of ({index}), not of its key"
                remedy = (
                    f"ALTER TABLE … REPLICA IDENTITY DEFAULT or FULL{self.of_each_partition}, or "
                    "make these columns the record's key (message.key.columns)"
                )
                raise TerminalError(what, where=where, remedy=remedy)
        if self.deferrable_key and set(key) == set(self.primary_key):
            what = (
                "its primary key is deferrable: two rows may have one key inside a transaction, "
                "and nothing tells which of them a delete means"
            )
            remedy = "make the key NOT DEFERRABLE, or another unique key the record's"
            raise TerminalError(what, where=where, remedy=remedy)

    def described(self, modes: ConnectorModes) -> Described:
        """Describes all columns, as a connector with these modes writes them."""
        told = describe_table(self.columns, self.primary_key, modes, comment=self.comment)
        return replace(told, warnings=(*told.warnings, *toast_warning(self.columns, modes)))

    def corrected(
        self, told: Described, names: Collection[str], modes: ConnectorModes
    ) -> Described:
        """Refuses columns that arrive without their values, see `without_lost`."""
        mine = [each for each in self.columns if each.name in names]
        told = replace(told, warnings=(*told.warnings, *toast_warning(mine, modes, told)))
        return without_lost(told, mine, modes)


def read_tables(dsn: str, tables: Iterable[TableName]) -> dict[TableName, CatalogTable]:
    """Reads the catalog. Tables that do not exist are left out.

    Raises:
        UnreachableError: if the database does not answer; names it without the password.
        TerminalError: if it refuses the login or the query.
        ConfigError: if the DSN cannot be parsed.
    """
    wanted = {(table.schema, table.name): table for table in tables}
    rows = _asked(dsn, _QUERY, _parameters(wanted))
    return {wanted[schema, name]: _table(facts) for schema, name, *facts in rows}


def existing_tables(dsn: str, tables: Iterable[TableName]) -> frozenset[TableName]:
    """Returns those of some tables that exist, without reading their columns.

    Raises:
        CdcError: as `read_tables`.
    """
    wanted = {(table.schema, table.name): table for table in tables}
    return frozenset(
        wanted[schema, name] for schema, name in _asked(dsn, _EXISTING, _parameters(wanted))
    )


def names_of(dsn: str, identities: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Returns schema and name of the existing tables with these numbers.

    Raises:
        CdcError: as `read_tables`.
    """
    rows = _asked(dsn, _CALLED, {"numbers": [*identities]})
    return {number: (schema, name) for number, schema, name in rows}


def all_tables(dsn: str) -> tuple[tuple[str, str], ...]:
    """Returns schema and name of every table but partitions and the server's own, in order.

    Raises:
        CdcError: as `read_tables`.
    """
    return tuple((schema, name) for schema, name in _asked(dsn, _LISTED, {}))


def _parameters(wanted: Collection[tuple[str, str]]) -> dict[str, list[str]]:
    return {"schemas": [each[0] for each in wanted], "names": [each[1] for each in wanted]}


def _asked(
    dsn: str, query: LiteralString, parameters: Mapping[str, Sequence[str]]
) -> list[tuple[Any, ...]]:
    address = address_of(dsn)
    try:
        with psycopg.connect(dsn, connect_timeout=CONNECT_SECONDS) as connection:
            connection.execute(_STYLE)
            return connection.execute(query, parameters).fetchall()
    except psycopg.Error as error:
        raise translated(error, address) from error


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


_REWRITTEN: Final = frozenset({"hstore", "interval", "timetz"})
_STYLE: Final = (
    "SELECT set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO', true), "
    "set_config('bytea_output', 'hex', true), set_config('extra_float_digits', '1', true)"
)
"""Output style for the values that rows have in columns added after them."""

_QUERY: Final = """
WITH RECURSIVE wanted AS (
    SELECT c.oid, n.nspname, c.relname, c.relreplident, c.relkind, c.relispartition,
           c.relpersistence,
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
        'is_untold', NOT a.atthasmissing AND (a.atthasdef OR a.attidentity <> '')
                     AND w.is_rewritten
    )) AS facts
    FROM wanted w
    JOIN pg_attribute a ON a.attrelid = w.oid AND a.attnum > 0 AND NOT a.attisdropped
    GROUP BY a.attrelid
), partitions AS (
    SELECT l.parent AS oid, jsonb_agg(jsonb_build_array(l.nspname, l.relname)) AS leaves
    FROM leaves l GROUP BY l.parent
), published AS (  -- attnames and rowfilter: from PostgreSQL 15 on
    SELECT w.oid, jsonb_agg(jsonb_build_object(
        'name', p.pubname,
        'columns', to_jsonb(p) -> 'attnames',
        'filters_rows', to_jsonb(p) ->> 'rowfilter' IS NOT NULL
    ) ORDER BY p.pubname) AS publications
    FROM wanted w
    JOIN pg_publication_tables p ON p.schemaname = w.nspname AND p.tablename = w.relname
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
)
SELECT w.nspname::text, w.relname::text, c.columns, k.key, w.relreplident::text,
       obj_description(w.oid, 'pg_class'), r.key, coalesce(k.deferrable, false),
       p.publications, l.leaves, b.names,
       CASE WHEN w.relispartition THEN jsonb_build_array(rn.nspname, root.relname) END,
       f.facts, w.oid::text, w.relpersistence = 'u' OR g.is_unlogged, g.identities
FROM wanted w
JOIN columns c ON c.attrelid = w.oid
JOIN facts f ON f.attrelid = w.oid
JOIN logged g ON g.parent = w.oid
LEFT JOIN published p ON p.oid = w.oid
LEFT JOIN partitions l ON l.oid = w.oid
LEFT JOIN by_partition b ON b.oid = w.oid
LEFT JOIN pg_class root ON w.relispartition AND root.oid = pg_partition_root(w.oid)
LEFT JOIN pg_namespace rn ON rn.oid = root.relnamespace
LEFT JOIN keys k ON k.indrelid = w.oid AND k.indisprimary
LEFT JOIN keys r ON r.indrelid = w.oid AND r.indisreplident
"""


def _table(facts: Sequence[Any]) -> CatalogTable:
    columns, key, identity, comment, identity_key, deferrable_key, *publishing = facts
    publications, partitions, by_partition, root, told, oid, is_unlogged, identities = publishing
    return CatalogTable(
        tuple(PostgresColumn(**column) for column in columns),
        tuple(key or ()),
        ReplicaIdentity(identity),
        comment or "",
        tuple(identity_key or ()),
        deferrable_key,
        tuple(_publication(**each) for each in publications or ()),
        tuple(root) if root else None,
        tuple((schema, name) for schema, name in partitions or ()),
        tuple(by_partition or ()),
        _facts({column["name"]: column["type_name"] for column in columns}, told),
        f"oid {oid}",
        is_unlogged,
        tuple(RowIdentity(ReplicaIdentity(k), tuple(of or ())) for k, of in identities or ()),
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


def _publication(name: str, columns: list[str] | None, filters_rows: bool) -> Publication:
    return Publication(name, None if columns is None else frozenset(columns), filters_rows)


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
