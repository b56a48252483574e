"""Tables that people alter under replication: after each statement the lake equals the database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.schema_drift import schema_diff
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.merging import Merging
from cdc_assets_tests.stack.replicated import (
    Replicated,
    new_database,
    record_settings,
    replicated,
)
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

TABLES = (
    "CREATE TABLE people (id int PRIMARY KEY, name text, age int, price numeric(10,2), big text)",
    "INSERT INTO people SELECT n, 'n' || n, n, n / 4.0, repeat('x', 3000)"
    " FROM generate_series(1, 9) n",
    "CREATE TABLE keyed (k int PRIMARY KEY, v text)",
    "INSERT INTO keyed VALUES (1, 'one'), (2, 'two'), (3, 'three')",
    "CREATE TABLE bag (n int, word text, price numeric(10,2))",
    "ALTER TABLE bag REPLICA IDENTITY FULL",
    "INSERT INTO bag VALUES (1, 'a', 1.25), (1, 'a', 1.25), (2, 'b', 2.5)",
)
NAMES = ("people", "keyed", "bag")
STEPS = {
    "the tables as they are": (),
    "a column with a default": (
        "UPDATE people SET age = 50 WHERE id = 2",
        "ALTER TABLE people ADD COLUMN score int DEFAULT 5",
        "UPDATE people SET score = NULL WHERE id = 3",
        "UPDATE people SET name = 'x' WHERE id = 4",
        "ALTER TABLE bag ADD COLUMN more text DEFAULT 'old'",
        "DELETE FROM bag WHERE ctid = (SELECT min(ctid) FROM bag WHERE n = 1)",
        "INSERT INTO bag VALUES (3, 'c', 3.75, 'new')",
    ),
    "a renamed column": (
        "UPDATE people SET name = 'before' WHERE id = 1",
        "ALTER TABLE people RENAME COLUMN name TO called",
        "UPDATE people SET called = 'after' WHERE id = 2",
        "INSERT INTO people (id, called) VALUES (20, 'new')",
    ),
    "a renamed key": (
        "UPDATE keyed SET v = 'eins' WHERE k = 1",
        "ALTER TABLE keyed RENAME COLUMN k TO number",
        "UPDATE keyed SET v = 'zwei' WHERE number = 2",
        "DELETE FROM keyed WHERE number = 3",
        "UPDATE keyed SET number = 7 WHERE number = 1",
    ),
    "wider types": (
        "UPDATE people SET age = 51 WHERE id = 5",
        "ALTER TABLE people ALTER COLUMN age TYPE bigint",
        "UPDATE people SET age = 5000000000 WHERE id = 6",
        "ALTER TABLE people ALTER COLUMN price TYPE numeric(14,2)",
        "UPDATE people SET price = 123456789012.25 WHERE id = 7",
        "ALTER TABLE bag ALTER COLUMN price TYPE numeric(14,2)",
        "DELETE FROM bag WHERE n = 2",
    ),
    "renamed back": (
        "ALTER TABLE people RENAME COLUMN called TO name",
        "UPDATE people SET name = 'again' WHERE id = 8",
    ),
    "more defaults": (
        "ALTER TABLE people ADD COLUMN a text DEFAULT 'it''s', ADD COLUMN b boolean DEFAULT true,"
        " ADD COLUMN c numeric(8,3) DEFAULT 1.5, ADD COLUMN d date DEFAULT '2020-02-29',"
        " ADD COLUMN e timestamptz DEFAULT '2020-02-29 12:30:00.25+02',"
        " ADD COLUMN f double precision DEFAULT 0.1, ADD COLUMN g bytea DEFAULT '\\x00ff',"
        " ADD COLUMN h timestamp(3) DEFAULT '1999-12-31 23:59:59.5',"
        " ADD COLUMN j uuid DEFAULT 'c2d29867-3d0b-d497-9191-18a9d8ee7830',"
        " ADD COLUMN k jsonb DEFAULT '{\"a\": 1}'",
        "UPDATE people SET age = 1 WHERE id = 9",
    ),
    "a column that is dropped": (
        "UPDATE people SET score = 77 WHERE id = 1",
        "ALTER TABLE people DROP COLUMN score",
        "UPDATE people SET age = 2 WHERE id = 1",
    ),
}  # fmt: skip

STEPS_IN_SOAK = {"renamed back", "more defaults"}

PENDING = {
    "a column with a default": "add score int, with a value in older rows",
    "a renamed column": "rename name to called",
    "wider types": "widen age to bigint",
    "renamed back": "rename called to name",
    "a column that is dropped": "score was dropped at the source: emptied in the rows that change",
}
"""What `cdc-assets schema diff` says of ``people`` before the records come."""


@pytest.fixture(params=["bare", pytest.param("schemas", marks=profiles.in_soak)])
def altered(
    request: pytest.FixtureRequest, stack: LocalStack, stack_config: ReplicationConfig
) -> Iterator[Replicated]:
    name = f"altered{request.param}"
    dsn = new_database(stack, name, *TABLES)
    settings = record_settings(stack, request.param)
    with replicated(stack, stack_config, name, dsn, debezium=settings) as database:
        yield database


def test_each_statement_is_followed(altered: Replicated, spark: Session) -> None:
    merging = Merging(altered, spark)
    RegistryFile(altered.config.registry).add([altered.entry(name) for name in NAMES])
    in_sync = ["  in sync"]
    for step, statements in STEPS.items():
        if step in STEPS_IN_SOAK and not profiles.is_soak():
            continue
        for each in statements:
            altered.execute(each)
        if step in PENDING:
            assert f"  {PENDING[step]}" in schema_diff(altered.config, "people").lines
        merging.require_equal(*NAMES, ignoring=["score"] if "dropped" in step else [])
        if step == "wider types":  # PostgreSQL wrote the table anew: USING may have changed values
            in_sync = ["  rows may differ from the source's"]
        found = schema_diff(altered.config, "people").lines[1:]
        assert [line.partition(", since")[0] for line in found] == in_sync, step
