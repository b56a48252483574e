"""A condition on rows chooses the same rows in Spark, in PostgreSQL and in MariaDB."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal as Number
from typing import Any

import psycopg
import pytest
from cdc_assets_devstack.mariadb import connect
from cdc_assets_devstack.stack import LocalStack
from psycopg.conninfo import make_conninfo
from pyspark.sql import functions as F

from cdc_assets.config.where import parse_where
from cdc_assets.databases.mysql.rows import MysqlRows
from cdc_assets.databases.postgres.rows import PostgresRows
from cdc_assets.databases.rows import Access, SourceRows
from cdc_assets.databases.statements import Range
from cdc_assets.errors import TerminalError
from cdc_assets.merge.statements import sql
from cdc_assets.schema.row_condition import RowCondition, fitted
from cdc_assets.schema.types import Column, Decimal, Primitive, TableSchema, Wire
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.replicated import new_mariadb_database
from cdc_assets_tests.toy.profiles import is_soak

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

CASES = 400 if is_soak() else 60
TEXTS = [
    "", " ", "a", "A", "a ", "ä", "ab", "a%", "a_b", "it's", 'q"q', "back\\slash", "𝄞", "%s", "Z",
    "ß", "aa\nb",
]  # fmt: skip
DAYS = [date(1969, 12, 31), date(1970, 1, 1), date(2000, 2, 29), date(9999, 12, 31)]
INSTANTS = [
    datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime(2024, 1, 1, tzinfo=UTC),
    datetime(2024, 1, 1, 0, 0, 0, 1, UTC), datetime(2001, 9, 9, 1, 46, 40, 500_000, UTC),
]  # fmt: skip
POOLS: dict[str, list[Any]] = {
    "n": [-1, 0, 1, 70, 2**31 - 1, -(2**31)],
    "big": [-(2**63), 0, 2**63 - 1],
    "price": [Number("-0.01"), Number("0.00"), Number("10.50"), Number("99999999.99")],
    "name": TEXTS,
    "ok": [True, False],
    "day": DAYS,
    "at": [each.replace(tzinfo=None) for each in INSTANTS],
    "zoned": INSTANTS[1:],
}
COLUMNS = (
    Column("id", Primitive.INT, Wire.INT, required=True),
    Column("n", Primitive.INT, Wire.INT),
    Column("big", Primitive.LONG, Wire.LONG),
    Column("price", Decimal(10, 2), Wire.DECIMAL_BYTES),
    Column("name", Primitive.STRING, Wire.STRING),
    Column("ok", Primitive.BOOLEAN, Wire.BOOLEAN),
    Column("day", Primitive.DATE, Wire.EPOCH_DAYS),
    Column("at", Primitive.TIMESTAMP, Wire.EPOCH_MICROS),
    Column("zoned", Primitive.TIMESTAMPTZ, Wire.ISO_ZONED),
)
SCHEMA = TableSchema(COLUMNS, ("id",))
Ids = Callable[[str], set[int]]


def rows() -> list[tuple[Any, ...]]:
    """Each value of each column, and NULL, next to others at random."""
    rng = random.Random(1)
    most = max(map(len, POOLS.values())) + 1
    made = list[tuple[Any, ...]]()
    for at in range(most * 6):
        values = (
            rng.choice([*pool, None]) if at >= most else [*pool, None][at % (len(pool) + 1)]
            for pool in POOLS.values()
        )
        made.append((at, *values))
    return made


def written(value: Any) -> str:
    match value:
        case bool():
            return str(value).upper()
        case datetime():
            zone = "+00:00" if value.tzinfo else ""
            return f"TIMESTAMP '{value.replace(tzinfo=None).isoformat(' ', 'microseconds')}{zone}'"
        case date():
            return f"DATE '{value}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case _:
            return str(value)


def drawn(rng: random.Random, depth: int = 2) -> str:
    """A condition on values that are there, and next to these."""
    if depth and rng.random() < 0.6:
        parts = [f"({drawn(rng, depth - 1)})" for _ in range(rng.randint(2, 3))]
        return rng.choice([" AND ", " OR "]).join(parts)
    if depth and rng.random() < 0.3:
        return f"NOT ({drawn(rng, depth - 1)})"
    name = rng.choice(list(POOLS))
    values = [written(each) for each in rng.choices(POOLS[name], k=3)]
    operators = ["=", "<>"] if name == "ok" else ["=", "<>", "<", "<=", ">", ">="]
    forms = [f"{name} {rng.choice(operators)} {values[0]}", f"{name} IN ({', '.join(values)})",
             f"{name} IS NULL", f"{name} IS NOT NULL"]  # fmt: skip
    if name != "ok":
        forms.append(f"{name} BETWEEN {values[0]} AND {values[1]}")
    if name == "name":
        patterns = [r"a%", r"%\_%", "_", "__", r"a\%", r"%\\%", "", "%", "%'%", "a__b"]
        forms += [f"name {rng.choice(['LIKE', 'NOT LIKE'])} '{each.replace(chr(39), chr(39) * 2)}'"
                  for each in rng.choices(patterns, k=3)]  # fmt: skip
    return rng.choice(forms)


def conditions() -> list[str]:
    rng = random.Random(7)
    return [drawn(rng) for _ in range(CASES)]


def read(source: SourceRows) -> set[int]:
    with closing(source):
        found = {int(key) for (key,), _ in source.digests([Range(None, None)])}
        keys = [(str(each[0]),) for each in rows()]
        assert {int(key) for (key,) in source.found(keys).rows} == found
        assert source.total()[1].count == len(found)
    return found


@pytest.fixture(scope="module")
def in_spark(spark: Session) -> Ids:
    frame = spark().createDataFrame(rows(), ", ".join(f"{c.name} {c.type}" for c in COLUMNS))
    kept = frame.select(F.struct("*").alias("row")).persist()

    def found(text: str) -> set[int]:
        condition = fitted(parse_where(text), SCHEMA, "table=t")
        chosen = kept.where(sql.condition(condition, SCHEMA, "row")).select("row.id").collect()
        return {each["id"] for each in chosen}

    return found


@pytest.fixture(scope="module")
def postgres(postgres_dsn: str) -> Iterator[tuple[Callable[[RowCondition], SourceRows], Ids]]:
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS conditions")
        connection.execute("CREATE DATABASE conditions")
    dsn = make_conninfo(postgres_dsn, dbname="conditions")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        connection.execute(
            "CREATE TABLE t (id int PRIMARY KEY, n int, big bigint, price numeric(10, 2),"
            ' name text COLLATE "C", ok boolean, day date, at timestamp, zoned timestamptz)'
        )
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO t VALUES (" + ", ".join(["%s"] * 9) + ")", rows())

        def own(text: str) -> set[int]:
            said = connection.execute(
                f"SELECT id FROM t WHERE {text.replace('+00:00', '')}".encode()
            )
            return {each for (each,) in said}

        access = Access(dsn, ("public", "t"), SCHEMA, "table=t")
        yield lambda condition: PostgresRows.of(replace(access, condition=condition)), own


@pytest.fixture(scope="module")
def mariadb(
    stack_parts: Callable[..., LocalStack],
) -> Iterator[tuple[Callable[[RowCondition], SourceRows], Ids]]:
    dsn = new_mariadb_database(
        stack_parts("mariadb"), "conditions",
        "CREATE TABLE t (id int PRIMARY KEY, n int, big bigint, price decimal(10, 2),"
        " name varchar(40) COLLATE utf8mb4_nopad_bin, ok tinyint(1), day date, at datetime(6),"
        " zoned timestamp(6) NULL)",
    )  # fmt: skip
    with connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.executemany("INSERT INTO t VALUES (" + ", ".join(["%s"] * 9) + ")", rows())

        def own(text: str) -> set[int]:
            cursor.execute(f"SELECT id FROM t WHERE {in_mariadb(text)}")
            return {each for (each,) in cursor.fetchall()}

        access = Access(dsn, ("conditions", "t"), SCHEMA, "table=t")
        yield lambda condition: MysqlRows.of(replace(access, condition=condition)), own


def in_mariadb(text: str) -> str:
    """Its literals have backslashes of their own, and no zones."""
    return text.replace("\\", "\\\\").replace("+00:00", "")


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_the_database_chooses_the_rows_that_spark_chooses(
    request: pytest.FixtureRequest, in_spark: Ids, kind: str
) -> None:
    """And those that its own SQL chooses where texts are compared by bytes."""
    of, own = request.getfixturevalue(kind)
    sizes = set[int]()
    for text in conditions():
        expected = in_spark(text)
        assert read(of(fitted(parse_where(text), SCHEMA, ""))) == expected, text
        assert own(text) == expected, text
        sizes.add(len(expected))
    assert len(sizes) > CASES // 6, "the conditions choose hardly anything"


def test_a_collation_of_the_source_decides_on_no_row(
    stack_parts: Callable[..., LocalStack], in_spark: Ids
) -> None:
    dsn = new_mariadb_database(
        stack_parts("mariadb"), "conditionsci",
        "CREATE TABLE t (id int PRIMARY KEY, name varchar(40) COLLATE utf8mb4_unicode_ci)",
    )  # fmt: skip
    with connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES (%s, %s)", [(row[0], row[4]) for row in rows()])
    schema = replace(SCHEMA, columns=tuple(c for c in COLUMNS if c.name in {"id", "name"}))
    for text in ("name = 'a'", "name <> 'A'", "name < 'b'", "name LIKE 'A%'", "name IN ('ss')"):
        condition = fitted(parse_where(text), SCHEMA, "")
        access = Access(dsn, ("conditionsci", "t"), schema, "table=t", condition=condition)
        assert read(MysqlRows.of(access)) == in_spark(text), text


def test_a_padded_text_has_its_blanks_as_in_the_lake(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute("CREATE TABLE padded (id int PRIMARY KEY, name char(3))")
        connection.execute("INSERT INTO padded VALUES (1, 'a'), (2, 'abc'), (3, NULL)")
    schema = replace(SCHEMA, columns=tuple(c for c in COLUMNS if c.name in {"id", "name"}))
    chosen = dict[str, set[int]]()
    for text in ("name = 'a'", "name = 'a  '", "name LIKE 'a__'"):
        condition = fitted(parse_where(text), SCHEMA, "")
        access = Access(postgres_dsn, ("public", "padded"), schema, "t", condition=condition)
        with closing(PostgresRows.of(access)) as source:
            chosen[text] = {int(k) for (k,), _ in source.digests([Range(None, None)])}
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute("DROP TABLE padded")
    assert chosen == {"name = 'a'": set(), "name = 'a  '": {1}, "name LIKE 'a__'": {1, 2}}


def test_a_value_that_the_database_has_otherwise_is_refused(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute("CREATE TABLE ratios (id int PRIMARY KEY, name numeric)")
    schema = replace(SCHEMA, columns=tuple(c for c in COLUMNS if c.name in {"id", "name"}))
    condition = fitted(parse_where("name = '1'"), SCHEMA, "")
    access = Access(postgres_dsn, ("public", "ratios"), schema, "t", condition=condition)
    try:
        with pytest.raises(TerminalError, match="does not compare name as the lake does"):
            PostgresRows.of(access)
    finally:
        with psycopg.connect(postgres_dsn) as connection:
            connection.execute("DROP TABLE ratios")
