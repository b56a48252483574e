"""The worst value of each type: the connector goes on, and the lake has it or names the refusal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import requests
from cdc_assets_devstack.shop.connector import EXACT, EXACT_DATES, EXACT_NUMBERS
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.lake.quarantined import QuarantineLake
from cdc_assets_tests.lake_view import read_rows
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.kinds import (
    MARIADB_SETTINGS,
    POSTGRES_SETTINGS,
    POSTGRES_TOLD,
)
from cdc_assets_tests.stack.merging import Merging
from cdc_assets_tests.stack.replicated import (
    Replicated,
    new_database,
    new_mariadb_database,
    record_settings,
    replicated,
)
from cdc_assets_tests.toy import profiles

pytestmark = [pytest.mark.stack, profiles.in_soak]

TABLE = "worst"
MANY = 1000


@dataclass(frozen=True)
class Worst:
    """A column, and values of it, each in a row of its own.

    Attributes:
        kept: that the lake has.
        refused: whose records are rejected.
        later: likewise, but a snapshot of the connector has another value: docs/sources.
    """

    type: str
    kept: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    later: tuple[str, ...] = ()


Columns = Mapping[str, Worst]
_BEFORE = "'0044-03-15 BC'"
_DAYS = ("'infinity'", "'-infinity'")
POSTGRES: Columns = {
    "price": Worst("numeric(10,2)", ("-99999999.99",), ("'NaN'",)),
    "wide": Worst("numeric(38,10)", ("0.0000000001",), ("'NaN'",)),
    "any_number": Worst("numeric", ("'NaN'", "'Infinity'", "'-Infinity'", "1e-300")),
    "prices": Worst("numeric(10,2)[]", ("'{}'", "'{NULL}'")),  # a NaN stops it: docs/sources
    "cash": Worst("money", ("'-92233720368547758.08'",)),
    "a_real": Worst("real", ("'NaN'", "'-Infinity'")),
    "a_double": Worst("float8", ("'NaN'", "'Infinity'", "5e-324")),
    "a_day": Worst("date", ("'9999-12-31'",), (*_DAYS, "'5874897-12-31'"), (_BEFORE,)),
    "a_stamp": Worst("timestamp", (), (*_DAYS, _BEFORE, "'294276-12-31 23:59:59.999999'")),
    "a_stamp_ms": Worst("timestamp(3)", (), (*_DAYS, _BEFORE, "'294276-12-31'")),
    "a_moment": Worst("timestamptz", (), (*_DAYS, _BEFORE, "'294276-12-31 23:59:59+00'")),
    "a_time": Worst("time", ("'24:00:00'",)),
    "a_timetz": Worst("timetz", ("'00:00:00+15:59'", "'23:59:59.999999-15:59'")),
    "a_span": Worst("interval", ("'178000000 years'", "'-2147483648 days'")),
    "bits": Worst("bit(64)", (f"B'{'1' * 64}'",)),
    "words": Worst("tsvector", ("''",)),
    "a_range": Worst("int8range", ("'(,)'", "'empty'")),
    "times": Worst("tstzrange", ("'[-infinity,infinity]'",)),
    "ints": Worst("int[]", ("'{1,NULL}'", "'{}'")),
    "texts": Worst("text[]", ("'{NULL,\"\"}'", "'{}'")),
    "a_json": Worst("json", ("'\"\\u0000\"'", '\'{"a":1,"a":2}\'')),
    "a_jsonb": Worst("jsonb", ("'1e3000'", "'null'")),
    "a_pair": Worst("pair", ("ROW(NULL,NULL)",)),
    "a_mood": Worst("mood", ("''",)),
    "bytes": Worst("bytea", ("''", "decode(repeat('ff', 1500000), 'hex')")),
    "an_inet": Worst("inet", ("'::ffff:1.2.3.4/128'", "'0.0.0.0/0'")),
    "a_text": Worst("text", ("''", "repeat('x', 3000000)")),
    "a_char": Worst("char(5)", ("''",)),
    "an_oid": Worst("oid", ("4294967295",)),
    "a_lsn": Worst("pg_lsn", ("'FFFFFFFF/FFFFFFFF'",)),
}
MARIADB: Columns = {
    "a_time": Worst("time(6)", ("'838:59:59.999999'", "'-838:59:59.999999'")),
    "bits": Worst("bit(64)", (f"b'{'1' * 64}'",)),
    "a_year": Worst("year", ("0", "2155")),
    "a_big": Worst("bigint unsigned", ("18446744073709551615",)),
    "a_decimal": Worst("decimal(65,30)", (f"-{'9' * 35}.{'9' * 30}", "1e-30")),
    "an_enum": Worst("enum('a','b')", ("'zz'", "'b'")),
    "a_set": Worst("set('a','b')", ("'zz'", "'b,a'")),
    "a_json": Worst("json", ("'null'",)),
    "a_shape": Worst("geometry", ("ST_GeomFromText('POINT(1 2)')",)),
    "a_float": Worst("float", ("3.402823466e38", "1.17549435e-38")),
    "a_double": Worst("double", ("-1.7976931348623157e308", "5e-324")),
    "a_day": Worst("date NULL", ("'9999-12-31'",)),
    "a_stamp": Worst("datetime(6)", ("'9999-12-31 23:59:59.999999'",)),
    "a_bool": Worst("bool", ("2", "-128")),
    "a_text": Worst("longtext", ("''", "repeat('x', 3000000)")),
    "a_blob": Worst("longblob", ("repeat(x'ff', 1500000)",)),
    "a_char": Worst("char(5)", ("''",)),
}
TYPES = ("CREATE TYPE mood AS ENUM ('ok', '')", "CREATE TYPE pair AS (a int, b text)")


def rows(columns: Columns, start: int) -> tuple[list[str], dict[int, str], dict[int, str]]:
    """Statements that insert each value; the ids of those kept, and of those refused.

    ``start``: the first id; 0 for rows that a snapshot reads.
    """
    made: list[str] = []
    kept: dict[int, str] = {}
    refused: dict[int, str] = {}
    for name, worst in columns.items():
        none = worst.refused + (worst.later if start else ())
        for ids, values in ((kept, worst.kept), (refused, none)):
            for value in values:
                number = start + len(made)
                ids[number] = name
                made.append(f"INSERT INTO {TABLE} (id, {name}) VALUES ({number}, {value})")
    return made, kept, refused


def create(columns: Columns) -> str:
    """The statement that makes the table."""
    told = ", ".join(f"{name} {worst.type}" for name, worst in columns.items())
    return f"CREATE TABLE {TABLE} (id int PRIMARY KEY, {told})"


def require_each(database: Replicated, spark: Session, columns: Columns) -> None:
    """Those of the connector's snapshot, and then the same as changes."""
    changes, kept, refused = rows(columns, MANY)
    _, first, also_refused = rows(columns, 0)
    database.execute(*SETUP[database.side.schema == "public"], *changes)
    merging = Merging(database, spark)
    merging.merge(TABLE)
    assert tasks(database) == ["RUNNING"]
    kept, refused = {**first, **kept}, {**also_refused, **refused}
    found = {row["id"]: row for row in read_rows(database.config, database.entry(TABLE).target)}
    lost = {n: name for n, name in kept.items() if n not in found or found[n][name] is None}
    stored = {n: name for n, name in refused.items() if n in found}
    assert (lost, stored) == ({}, {})
    lake = QuarantineLake(database.config)
    records, _ = lake.quarantined(database.name, None, len(kept) + len(refused))
    named = sorted(re.findall(r"column '(\w+)'", " ".join(each.reason for each in records)))
    assert named == sorted(refused.values())


SETUP = {True: (), False: ("SET SESSION sql_mode = ''",)}
"""MariaDB takes invalid values of an enumeration only without its strict mode."""


def tasks(database: Replicated) -> list[str]:
    """The states of the connector's tasks."""
    url = f"http://{database.stack.connect.address}/connectors/{database.name}/status"
    return [each["state"] for each in requests.get(url, timeout=30).json()["tasks"]]


def test_postgresql(stack: LocalStack, stack_config: ReplicationConfig, spark: Session) -> None:
    name = "worstpg"
    dsn = new_database(stack, name, *TYPES, create(POSTGRES), *rows(POSTGRES, 0)[0])
    settings = {**POSTGRES_SETTINGS, **EXACT, **EXACT_NUMBERS, **record_settings(stack, "bare")}
    told = {**POSTGRES_TOLD, "decimal_handling_mode": "string"}
    with replicated(
        stack, stack_config, name, dsn, debezium=settings, connector=told, bad_records="quarantine"
    ) as database:
        require_each(database, spark, POSTGRES)


def test_mariadb(stack: LocalStack, stack_config: ReplicationConfig, spark: Session) -> None:
    name = "worstmy"
    made = (*SETUP[False], create(MARIADB), *rows(MARIADB, 0)[0])
    dsn = new_mariadb_database(stack, name, *made)
    settings = {**MARIADB_SETTINGS, **EXACT, **EXACT_DATES, **record_settings(stack, "schemas")}
    with replicated(
        stack, stack_config, name, dsn, debezium=settings, bad_records="quarantine"
    ) as database:
        require_each(database, spark, MARIADB)
