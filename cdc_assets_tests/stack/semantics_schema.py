"""The tables of the semantics tests, and large values for them."""

from __future__ import annotations

TEXT = "(SELECT string_agg(md5((i * {0})::text), '') FROM generate_series(1, 300) AS i)"
PLACEHOLDER = "__debezium_unavailable_value"
BYTES = list(PLACEHOLDER.encode())
PLACEHOLDER_UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"

LARGE = {
    "t": ("text", TEXT),
    "b": ("bytea", f"convert_to({TEXT}, 'UTF8')"),
    "j": ("jsonb", f"jsonb_build_object('k', {TEXT})"),
    "ta": ("text[]", "ARRAY(SELECT md5((i * {0})::text) FROM generate_series(1, 300) AS i)"),
    "ia": ("int[]", "ARRAY(SELECT i * {0} FROM generate_series(1, 3000) AS i)"),
    "ba": ("bigint[]", "ARRAY(SELECT i::bigint * {0} FROM generate_series(1, 3000) AS i)"),
    "da": ("date[]", "ARRAY(SELECT date '2020-01-01' + i FROM generate_series(1, 3000) AS i)"),
    "ua": ("uuid[]", "ARRAY(SELECT md5((i * {0})::text)::uuid FROM generate_series(1, 600) AS i)"),
    "h": (
        "hstore",
        "(SELECT string_agg(format('\"%s\"=>\"%s\"', md5(i::text), i * {0}), ', ')"
        " FROM generate_series(1, 300) AS i)::hstore",
    ),
    "r": ("numrange", "numrange({0}, repeat('123456789', 2000)::numeric)"),
}  # fmt: skip
"""Columns whose values are stored out of line: type, and an expression with a seed."""

SENT_UNCHANGED: dict[str, object] = {
    "t": PLACEHOLDER,
    "b": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
    "j": PLACEHOLDER,
    "ta": [PLACEHOLDER],
    "ia": BYTES,
    "ba": BYTES,
    "da": BYTES,
    "ua": [PLACEHOLDER_UUID],
    "h": f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}',
    "r": PLACEHOLDER,
}
"""What Debezium writes for each if an update left it alone."""

AS_DATA = {
    "t": f"'{PLACEHOLDER}'",
    "b": f"convert_to('{PLACEHOLDER}', 'UTF8')",
    "j": f"to_jsonb('{PLACEHOLDER}'::text)",
    "ta": f"ARRAY['{PLACEHOLDER}']",
    "ia": f"ARRAY{BYTES}",
    "ba": f"ARRAY{BYTES}",
    "da": f"ARRAY(SELECT date '1970-01-01' + n FROM unnest(ARRAY{BYTES}) AS n)",
    "ua": f"ARRAY['{PLACEHOLDER_UUID}'::uuid]",
    "h": f'\'"{PLACEHOLDER}"=>"{PLACEHOLDER}"\'',
    "r": "NULL",
}
"""The same as values that a user stores."""

HSTORE = (
    "CREATE TYPE hstore",
    "CREATE FUNCTION hstore_in(cstring) RETURNS hstore AS 'textin' LANGUAGE internal STRICT",
    "CREATE FUNCTION hstore_out(hstore) RETURNS cstring AS 'textout' LANGUAGE internal STRICT",
    "CREATE TYPE hstore (INPUT = hstore_in, OUTPUT = hstore_out, LIKE = text)",
)
"""A stand-in with the name and the text of the extension's type, which is what Debezium goes by;
the stack's PostgreSQL comes without extensions."""


def large_values(seed: int) -> str:
    """One row of large values, as a list of expressions."""
    return ", ".join(value.format(seed) for _, value in LARGE.values())


def large_table(name: str, *columns: str) -> list[str]:
    """A table of an id, a note and these columns, each stored out of line."""
    typed = ", ".join(f"{column} {LARGE[column][0]}" for column in columns)
    stored = (f"ALTER COLUMN {column} SET STORAGE EXTERNAL" for column in columns)
    return [
        f"CREATE TABLE {name} (id int PRIMARY KEY, note text, {typed})",
        f"ALTER TABLE {name} {', '.join(stored)}",
    ]


CREATE = [
    *HSTORE,
    *large_table("large", *LARGE),
    f"INSERT INTO large SELECT 1, 'read', {large_values(1)}",
    *large_table("moved", "t", "ta"),
    *large_table("logged", "t", "ta"),
    "ALTER TABLE logged ADD COLUMN na numeric(12,2)[]",
    "ALTER TABLE logged ALTER COLUMN na SET STORAGE EXTERNAL, REPLICA IDENTITY FULL",
    "CREATE TABLE ambiguous (id int PRIMARY KEY, t text)",
    *large_table("unread", "t"),
    f"INSERT INTO unread SELECT n, 'not read', {TEXT.format(3)} FROM generate_series(1, 3) AS n",
    "CREATE TABLE by_default (id int PRIMARY KEY, code text NOT NULL, n int)",
    "CREATE TABLE by_full (LIKE by_default INCLUDING ALL)",
    "ALTER TABLE by_full REPLICA IDENTITY FULL",
    "CREATE TABLE by_index (id int PRIMARY KEY, code text NOT NULL UNIQUE, n int)",
    "ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_code_key",
    "CREATE TABLE by_other_index (id int PRIMARY KEY, code text NOT NULL UNIQUE, n int)",
    "ALTER TABLE by_other_index REPLICA IDENTITY USING INDEX by_other_index_code_key",
    "CREATE TABLE by_nothing (LIKE by_default INCLUDING ALL)",
    "ALTER TABLE by_nothing REPLICA IDENTITY NOTHING",
    "CREATE TABLE pairs (a int, b text, name text, PRIMARY KEY (a, b))",
    "CREATE TABLE swapped (id int PRIMARY KEY DEFERRABLE, name text)",
    "ALTER TABLE swapped REPLICA IDENTITY FULL",
    "INSERT INTO swapped VALUES (1, 'one'), (2, 'two')",
    "CREATE TABLE cleared (id int PRIMARY KEY, name text, n int)",
    "CREATE TABLE bag (a int, b text, c numeric(10,2))",
    "ALTER TABLE bag REPLICA IDENTITY FULL",
    "INSERT INTO bag VALUES (1, 'x', 1.5), (1, 'x', 1.5), (1, 'x', NULL), (NULL, NULL, NULL)",
    "CREATE TABLE tally (a int)",
    "ALTER TABLE tally REPLICA IDENTITY FULL",
    "INSERT INTO tally SELECT generate_series(1, 5)",
    "CREATE TABLE bulk (id int PRIMARY KEY, n int NOT NULL, filler text)",
    "INSERT INTO bulk VALUES (1, 0, '')",
    "CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL)",
    "INSERT INTO accounts SELECT n, 1000 FROM generate_series(1, 100) AS n",
    "CREATE TABLE reread (id int PRIMARY KEY, n int)",
    "INSERT INTO reread SELECT n, 0 FROM generate_series(1, 200) AS n",
    "CREATE TABLE signals (id text PRIMARY KEY, type text NOT NULL, data text)",
]

DEBEZIUM = {
    "skipped.operations": "none",
    "message.key.columns": "public.by_index:code",
    "snapshot.include.collection.list": r"public\.(?!unread).*",
    "signal.data.collection": "public.signals",
    "signal.enabled.channels": "source",
    "incremental.snapshot.chunk.size": "50",
}
SOURCE: dict[str, object] = {
    "batch": {"max_records": 10_000},
    "tables": {"public.large": {"columns": {"h": "string", "r": "string"}}},
}
