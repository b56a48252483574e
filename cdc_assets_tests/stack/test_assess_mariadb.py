"""`cdc-assets assess` with MariaDB behind the source: mistakes of tables, connector and server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cdc_assets_devstack import mariadb
from cdc_assets_devstack.shop.connector import EXACT, EXACT_DATES
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.databases.mysql.server import read_grants
from cdc_assets.operate.discovery import discover
from cdc_assets.operate.services import Services
from cdc_assets_tests.stack.assessed import assessment, findings, places
from cdc_assets_tests.stack.kinds import MARIADB_SETTINGS, MARIADB_TOLD
from cdc_assets_tests.stack.replicated import (
    Replicated,
    new_mariadb_database,
    record_settings,
    replicated,
)

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]

GOOD = ("CREATE TABLE fine (id bigint PRIMARY KEY, name text DEFAULT 'x', price decimal(12,2))",)
BAD = (
    *GOOD,
    "CREATE TABLE defaulted (id bigint PRIMARY KEY, name varchar(9) DEFAULT 'x')",
    "CREATE TABLE keyless (a text)",
    "CREATE TABLE versioned (id bigint PRIMARY KEY) WITH SYSTEM VERSIONING",
    "CREATE TABLE shapes (id bigint PRIMARY KEY, place geometry)",
    *(
        f"INSERT INTO {table} VALUES ({values})"
        for table, values in {
            "fine": "1, 'n', 1.5", "defaulted": "1, 'n'", "keyless": "'a'", "versioned": "1",
            "shapes": "1, point(1, 2)",
        }.items()
    ),
)  # fmt: skip
EXPECTED = {**MARIADB_SETTINGS, **EXACT, **EXACT_DATES}
SETTINGS = {
    "enable.time.adjuster": "true",
    "driver.yearIsDateType": "true",
    "include.schema.changes": "false",
    "bigint.unsigned.handling.mode": "long",
    "snapshot.mode": "initial",
    "skipped.operations": "t",
    "errors.tolerance": "all",
    "value.converter.replace.null.with.default": "true",
    "column.exclude.list": "nothing.at.all",
    "provide.transaction.metadata": "false",
}
SEEDED = {
    ("years_moved", ""), ("years_stop", ""), ("schema_changes_off", ""), ("modes_differ", ""),
    ("truncates_skipped", ""), ("errors_tolerated", ""), ("columns_left_out", ""),
    ("conversion_failures", ""), ("nulls_replaced", "defaulted.name"),
    ("nulls_replaced", "fine.name"), ("no_transactions", "keyless"),
    ("refused_table", "versioned"),
}  # fmt: skip
SERVER = {
    "binlog_row_metadata": ("MINIMAL", "binlog_row_metadata"),
    "binlog_expire_logs_seconds": ("3600", "binlog_retention"),
    "binlog_row_image": ("MINIMAL", "binlog_rows"),
}
"""Global variables: a wrong value, and how it is found."""


def test_a_source_as_documented_has_no_findings_until_its_server_changes(
    stack: LocalStack, stack_config: ReplicationConfig, tmp_path: Path
) -> None:
    name = "assessgoodmy"
    dsn = new_mariadb_database(stack, name, *GOOD, "INSERT INTO fine VALUES (1, 'n', 1.5)")
    with replicated(
        stack, stack_config, name, dsn, debezium=EXPECTED, connector=MARIADB_TOLD
    ) as database:
        assert findings(_assessed(database, tmp_path), name) == []
        for variable, (wrong, finding) in SERVER.items():
            with _set(stack, variable, wrong):
                found = findings(_assessed(database, tmp_path), name)
                assert [each["name"] for each in found] == [finding]
        assert findings(_assessed(database, tmp_path), name) == []


def test_each_mistake_of_tables_and_connector_is_named_and_none_is_invented(
    stack: LocalStack, stack_config: ReplicationConfig, tmp_path: Path
) -> None:
    name = "assessbadmy"
    dsn = new_mariadb_database(stack, name, *BAD)
    with replicated(
        stack, stack_config, name, dsn, debezium={**record_settings(stack, "bare"), **SETTINGS},
        connector=MARIADB_TOLD,
    ) as database:  # fmt: skip
        assert places(findings(_assessed(database, tmp_path), name)) == SEEDED


def test_rights_are_known_where_they_may_be_asked(stack: LocalStack) -> None:
    name, user = "assessrights", "poor"
    dsn = new_mariadb_database(stack, name)
    with mariadb.connect(stack.mariadb.dsn(), autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute(f"CREATE USER {user}@'{mariadb.HOST}' IDENTIFIED BY '{user}'")
        cursor.execute(f"GRANT SELECT ON {name}.* TO {user}@'{mariadb.HOST}'")
        cursor.execute(f"GRANT REPLICATION CLIENT ON *.* TO {user}@'{mariadb.HOST}'")
    own = urlsplit(dsn)._replace(netloc=f"{user}:{user}@{urlsplit(dsn).netloc.rpartition('@')[2]}")

    for asking in (dsn, own.geturl()):
        found = read_grants(asking, user)
        assert found is not None
        assert found.may_read(TableName("", name, "any"))
        assert not found.may_read(TableName("", "mysql", "user"))
        assert found.may("REPLICATION CLIENT", "BINLOG MONITOR")
        assert not found.may("REPLICATION SLAVE")
    assert read_grants(own.geturl(), "root") is None
    assert read_grants(dsn, "nobody at all") is None


def _assessed(database: Replicated, folder: Path) -> dict[str, list[dict[str, str]]]:
    database.wait_until_delivered()
    discover(Services(database.config))
    return assessment(database.config, folder, "--read-only")


@contextmanager
def _set(stack: LocalStack, variable: str, value: str) -> Iterator[None]:
    """A global variable of the server, as long as the block lasts."""
    with mariadb.connect(stack.mariadb.dsn(), autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute(f"SELECT @@GLOBAL.{variable}")
        before = (cursor.fetchone() or ("",))[0]
        cursor.execute(f"SET GLOBAL {variable} = %s", (_typed(value),))
        try:
            yield
        finally:
            cursor.execute(f"SET GLOBAL {variable} = %s", (before,))


def _typed(value: str) -> int | str:
    return int(value) if value.isdigit() else value
