"""A table is read in waves: each row once, all parts of a wave as of one moment."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from cdc_assets.databases.postgres.rows import PostgresRows
from cdc_assets.databases.rows import Access, TableReading
from cdc_assets.databases.statements import DIGEST, KEY, LAKE_TEXT, Range
from cdc_assets.errors import TerminalError
from cdc_assets.schema.comparing import Key
from cdc_assets.schema.types import Column, Primitive, TableSchema, Wire

pytestmark = [pytest.mark.stack, pytest.mark.timeout(120)]

NAME = 'odd "%s" {0}? name'
"""A table, and a column."""

HOSTILE = ["it's", 'a "quote"', "back\\slash", "?", "%s %%", "$1", "{d '1'}", "", "ä", "𝄞", ";--"]


@pytest.fixture
def dsn(postgres_dsn: str) -> str:
    quoted = NAME.replace('"', '""')
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS readwaves")
        connection.execute("CREATE DATABASE readwaves")
    dsn = make_conninfo(postgres_dsn, dbname="readwaves")
    with psycopg.connect(dsn) as connection:
        connection.execute(
            f'CREATE TABLE "{quoted}" ("{quoted}" text, n int, v text,'
            f' PRIMARY KEY ("{quoted}", n))'.encode()
        )
        connection.execute("CREATE TABLE empty (id int PRIMARY KEY)")
        insert = f'INSERT INTO "{quoted.replace("%", "%%")}" VALUES (%s, %s, %s)'.encode()
        for text in HOSTILE:
            for n in range(-3, 7):
                connection.execute(insert, (text, n, f"{text} {n}"))
    return dsn


def schema(*columns: tuple[str, Primitive, Wire], key: tuple[str, ...]) -> TableSchema:
    made = (Column(name, kind, wire, required=name in key) for name, kind, wire in columns)
    return TableSchema(tuple(made), key)


def rows_of(dsn: str, table: str, columns: TableSchema) -> PostgresRows:
    return PostgresRows.of(Access(dsn, ("public", table), columns, "table=test"))


def odd_rows(dsn: str) -> PostgresRows:
    text, number = (Primitive.STRING, Wire.STRING), (Primitive.INT, Wire.INT)
    columns = schema((NAME, *text), ("n", *number), ("v", *text), key=(NAME, "n"))
    return rows_of(dsn, NAME, columns)


def ran(dsn: str, part: Mapping[str, str]) -> list[dict[str, str]]:
    """What Spark's reader does with a part's options."""
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(part["sessionInitStatement"].encode())
        cursor.execute(part["query"].encode())
        names = [each.name for each in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def waves(reading: TableReading, dsn: str, rows: int, parts: int) -> list[list[list[Key]]]:
    """Keys by wave and part, to the last wave."""
    found: list[list[list[Key]]] = []
    start: Key | None = None
    while True:
        with reading.wave(start, rows, parts) as wave:
            read = [ran(dsn, part) for part in wave.parts]
        found.append([[(row[f"{KEY}0"], row[f"{KEY}1"]) for row in part] for part in read])
        start = wave.end
        if start is None:
            return found


@pytest.mark.parametrize(("rows", "parts"), [(1, 1), (7, 3), (10, 11), (110, 1), (1000, 4)])
def test_each_row_is_read_once_whatever_its_key(dsn: str, rows: int, parts: int) -> None:
    source = odd_rows(dsn)
    found = waves(source.reading(), dsn, rows, parts)
    source.close()
    keys = [key for wave in found for part in wave for key in part]
    expected = [(text, str(n)) for text in HOSTILE for n in range(-3, 7)]
    assert sorted(keys) == sorted(expected)
    assert all(len(part) == rows for wave in found[:-1] for part in wave)
    assert all(len(wave) == parts for wave in found[:-1])
    assert len(found) == -(-len(expected) // (rows * parts)) or len(expected) % rows == 0


def test_all_parts_show_one_moment(dsn: str) -> None:
    source = odd_rows(dsn)
    quoted = NAME.replace('"', '""')
    with source.reading().wave(None, 30, 4) as wave, psycopg.connect(dsn) as other:
        before = ran(dsn, wave.parts[0])
        other.execute(f"UPDATE \"{quoted}\" SET v = 'late'".encode())
        other.execute(f"INSERT INTO \"{quoted}\" VALUES ('new', 1, NULL)".encode())
        other.commit()
        after = [row for part in wave.parts for row in ran(dsn, part)]
    source.close()
    assert len(before) == 30
    assert len(after) == len(HOSTILE) * 10
    assert "late" not in {row[f"{LAKE_TEXT}2"] for row in after}
    assert len({row[DIGEST] for row in after}) == len(after)


def test_readers_wait_for_nobody_and_hold_nobody_up(dsn: str) -> None:
    """A writer that has locked all rows is read around, and goes on meanwhile."""
    source, quoted = odd_rows(dsn), NAME.replace('"', '""')
    with psycopg.connect(dsn) as writer:
        writer.execute(f"UPDATE \"{quoted}\" SET v = 'open'".encode())
        with source.reading().wave(None, 1000, 2) as wave:
            writer.execute("SET lock_timeout = '2s'")
            writer.execute(f'DELETE FROM "{quoted}" WHERE n = 1'.encode())
            writer.commit()
            read = [row for part in wave.parts for row in ran(dsn, part)]
    source.close()
    assert len(read) == len(HOSTILE) * 10


def test_an_empty_table_is_one_wave_without_rows(dsn: str) -> None:
    columns = schema(("id", Primitive.INT, Wire.INT), key=("id",))
    source = rows_of(dsn, "empty", columns)
    with source.reading().wave(None, 10, 3) as wave:
        assert wave.end is None
        assert [ran(dsn, part) for part in wave.parts] == [[]]
    source.close()


CODES = 5_000


@pytest.mark.parametrize(
    ("kind", "finds"),
    [
        ("text", True),
        ("varchar(40)", True),
        ("char(40)", True),
        ('text COLLATE "C"', True),
        ("varchar COLLATE ucs_basic", True),
        ("name", False),
    ],
)
def test_an_index_finds_rows_by_texts_and_one_reading_those_of_many_ranges(
    dsn: str, kind: str, finds: bool
) -> None:
    with psycopg.connect(dsn) as connection:
        made = f"SELECT 'Key ' || n, n FROM generate_series(1, {CODES}) AS n"
        connection.execute(f"CREATE TABLE codes (code {kind} PRIMARY KEY, n int)".encode())
        connection.execute(f"INSERT INTO codes {made}".encode())
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE codes")
    text, number = (Primitive.STRING, Wire.STRING), (Primitive.INT, Wire.INT)
    columns = schema(("code", *text), ("n", *number), key=("code",))
    with closing(rows_of(dsn, "codes", columns)) as rows:
        assert (rows.is_ordered, rows.finds_keys, rows.estimate()) == (False, finds, CODES)
        width = 40 if kind == "char(40)" else 0  # whose blanks are a part of the key

        def key(text: str) -> tuple[str]:
            return (text.ljust(width),)

        asked = [key(each) for each in ("Key 7", "key 7", "KEY 8", "Key 9", "none")]
        mine = {key("Key 7"), key("Key 9")}
        found = rows.found([*asked, ("Key 9 ",)])
        assert found.rows == {each: (*each, each[0].rstrip()[-1]) for each in mine}
        assert found.lake_texts.keys() == mine
        with psycopg.connect(dsn) as connection:
            statement, given = rows.statements.found(asked)
            plan = str(connection.execute(f"EXPLAIN {statement}".encode(), given).fetchall())
        assert ("codes_pkey" in plan, "Seq Scan on codes" in plan) == (finds, not finds), plan
        a, b, c, d = map(key, ("Key 2", "Key 3", "Key 4", "Key 9"))
        within = [Range(None, a), Range(b, c), Range(d, None)]
        listed = sorted(key(f"Key {n}") for n in range(1, CODES + 1))
        wanted = [each for each in listed if each < a or b <= each < c or each >= d]
        assert sorted(each for each, _ in rows.digests(within)) == wanted


def test_no_secret_is_shown(dsn: str) -> None:
    password = psycopg.conninfo.conninfo_to_dict(dsn)["password"]
    source = odd_rows(dsn)
    with source.reading().wave(None, 10, 1) as wave:
        part = wave.parts[0]
        assert part["password"] == password
        assert str(password) not in repr(wave)
        assert str(password) not in part["url"] + part["query"] + part["sessionInitStatement"]
    source.close()


def test_a_row_with_null_in_a_configured_key_is_refused(dsn: str) -> None:
    columns = schema(("code", Primitive.STRING, Wire.STRING), key=("code",))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE named (code text UNIQUE)")
        connection.execute("INSERT INTO named VALUES ('a')")
        rows_of(dsn, "named", columns).close()
        connection.execute("INSERT INTO named VALUES (NULL)")
    with pytest.raises(TerminalError, match="NULL in its key"):
        rows_of(dsn, "named", columns)
