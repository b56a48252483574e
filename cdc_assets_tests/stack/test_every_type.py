"""Every type of a database without configuration: what the lake has gives the source's values back.

Each value of the lake is cast back to its column's type by the database itself, and compared there,
as PyIceberg reads it and as Spark does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg
import pymysql
import pytest

from cdc_assets.config import ReplicationConfig
from cdc_assets.devstack.converters import converter_settings
from cdc_assets.devstack.shop.connector import WITH_SCHEMAS
from cdc_assets.devstack.stack import LocalStack
from cdc_assets.merge.statements import sql
from cdc_assets_tests.lake_view import read_rows
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.kinds import MARIADB, POSTGRES, POSTGRES_TYPES, Kind
from cdc_assets_tests.stack.mariadb_side import connect
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.stack.side import side_of
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

Kinds = Mapping[str, Kind]
Ask = Callable[[str, Mapping[str, object]], tuple[object, ...] | None]


@pytest.mark.parametrize("records", ["schemas", pytest.param("bare", marks=profiles.in_soak)])
def test_postgresql(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, records: str
) -> None:
    name = f"everytype{records}"
    dsn = new_database(stack, name, *POSTGRES_TYPES, table(POSTGRES), *rows(POSTGRES, 0))
    settings = {"include.unknown.datatypes": "true", "interval.handling.mode": "string"}
    if records == "schemas":
        settings |= converter_settings(stack.layout, WITH_SCHEMAS)
    told = {"include_unknown_datatypes": True, "interval_handling_mode": "string"}
    with replicated(stack, stack_config, name, dsn, debezium=settings, connector=told) as database:
        require_given_back_twice(database, spark, POSTGRES)


def test_mariadb(stack: LocalStack, stack_config: ReplicationConfig, spark: Session) -> None:
    name = "everytypemy"
    stack.up(["mariadb"])
    with connect(stack.mariadb.dsn(), autocommit=True) as connection:
        connection.cursor().execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    dsn = stack.mariadb.dsn(name)
    side_of(dsn).execute(table(MARIADB), *rows(MARIADB, 0))
    settings = {"bigint.unsigned.handling.mode": "precise", "heartbeat.interval.ms": "500"}
    with replicated(stack, stack_config, name, dsn, debezium=settings) as database:
        require_given_back_twice(database, spark, MARIADB)


def table(kinds: Kinds) -> str:
    columns = ", ".join(f"{name} {kind.type}" for name, kind in kinds.items())
    return f"CREATE TABLE kinds (id int PRIMARY KEY, {columns})"


def rows(kinds: Kinds, start: int) -> list[str]:
    """One with nothing but NULL, and one for each value of the column that has most."""
    made = [f"INSERT INTO kinds (id) VALUES ({start})"]
    for place in range(max(len(kind.values) for kind in kinds.values())):
        values = [kind.values[place % len(kind.values)] for kind in kinds.values()]
        made.append(f"INSERT INTO kinds VALUES ({start + place + 1}, {', '.join(values)})")
    return made


def require_given_back_twice(database: Replicated, spark: Session, kinds: Kinds) -> None:
    """The rows of the snapshot, and then such rows as changes."""
    database.wait_until_delivered()
    database.replicate()
    require_given_back(database, spark, kinds)
    database.execute(*rows(kinds, 100), "UPDATE kinds SET an_int = 7 WHERE id < 100")
    database.wait_until_delivered()
    database.replicate()
    require_given_back(database, spark, kinds)


def require_given_back(database: Replicated, spark: Session, kinds: Kinds) -> None:
    target, catalog = database.entry("kinds").target, database.config.lake.catalog.name
    read = {
        "PyIceberg": read_rows(database.config, target),
        "Spark": spark().table(sql.table(catalog, target)).toArrow().to_pylist(),
    }
    asking = asking_postgres if kinds is POSTGRES else asking_mariadb
    with asking(database.dsn) as ask:
        for reader, found in read.items():
            wrong = differing(ask, found, kinds, "text" if kinds is POSTGRES else "char")
            assert not wrong, f"{reader}: " + "; ".join(wrong)


@contextmanager
def asking_postgres(dsn: str) -> Iterator[Ask]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield lambda query, given: connection.execute(query.encode(), given).fetchone()


@contextmanager
def asking_mariadb(dsn: str) -> Iterator[Ask]:
    with connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:

        def ask(query: str, given: Mapping[str, object]) -> tuple[object, ...] | None:
            cursor.execute(query, {name: for_mariadb(each) for name, each in given.items()})
            return cursor.fetchone()

        yield ask


def differing(ask: Ask, found: Sequence[Mapping[str, Any]], kinds: Kinds, text: str) -> list[str]:
    """Columns, each with a row of the lake that does not give the source's value back."""
    count = ask("SELECT count(*) FROM kinds", {})
    told = (len({row["id"] for row in found}), len(found), *(count or ()))
    wrong = [] if len(set(told)) == 1 else [f"ids, rows, rows of the source: {told}"]
    usual = "{}::{type}" if text == "text" else "{}"
    for name, kind in kinds.items():
        here = kind.here.replace("{}", name)
        for row in found:
            value = row.get(name, "no such column")
            back = (kind.back or usual.replace("{type}", kind.type)).replace("{}", "%(value)s")
            query = (
                f"SELECT CAST({here} AS {text}), CAST({back if value is not None else 'NULL'}"
                f" AS {text}) FROM kinds WHERE id = %(id)s"
            )
            try:
                asked = ask(query, {"value": plain(value), "id": row["id"]})
            except (psycopg.Error, pymysql.MySQLError) as error:
                asked = ("", str(error))
            expected, given = asked or ("no row", "")
            if expected != given:
                wrong.append(
                    f"{name}: {expected!r:.60} here, {value!r:.60} in the lake: {given!r:.80}"
                )
                break
    return wrong


def plain(value: Any) -> Any:
    """Of a struct its fields, without the number of the reference system, or the only one."""
    if not isinstance(value, Mapping):
        return value
    fields = [each for name, each in value.items() if name != "srid"]
    return fields if len(fields) > 1 else fields[0]


def for_mariadb(value: object) -> object:
    """Instants as UTC has them, the fields of a struct with a blank between them."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return " ".join(map(str, value)) if isinstance(value, list) else value
