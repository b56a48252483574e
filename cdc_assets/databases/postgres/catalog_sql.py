"""Queries of PostgreSQL's catalog."""

from __future__ import annotations

from typing import Final

STYLE: Final = (
    "SELECT set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO', true), "
    "set_config('bytea_output', 'hex', true), set_config('extra_float_digits', '1', true)"
)
"""Output style for the values that rows have in columns added after them."""

TABLES: Final = """
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

CALLED: Final = """
SELECT c.oid::text, n.nspname, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid::text = ANY(%(numbers)s::text[]) AND c.relkind IN ('r', 'p')
"""

EXISTING: Final = """
SELECT n.nspname, c.relname
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS w (nspname, relname)
JOIN pg_namespace n ON n.nspname = w.nspname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.relname
WHERE c.relkind IN ('r', 'p')
"""


LISTED: Final = """
SELECT n.nspname, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
ORDER BY 1, 2
"""
