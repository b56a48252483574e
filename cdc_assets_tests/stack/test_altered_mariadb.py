"""Tables of MariaDB that people alter: after each step the lake equals the database.

What becomes of tables, and of renamed columns, is in `test_statements`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TerminalError
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.merging import Merging
from cdc_assets_tests.stack.replicated import (
    Replicated,
    new_mariadb_database,
    record_settings,
    replicated,
)
from cdc_assets_tests.toy import profiles

pytestmark = [pytest.mark.stack, profiles.in_soak]

TABLES = (
    "CREATE TABLE people (id int PRIMARY KEY, name varchar(9), age int, price decimal(10,2))",
    "INSERT INTO people SELECT seq, concat('n', seq), seq, seq / 4 FROM seq_1_to_9",
    "CREATE TABLE bag (n int, word varchar(9))",
    "INSERT INTO bag VALUES (1, 'a'), (1, 'a'), (2, 'b')",
    *(f"CREATE TABLE {each} (id int PRIMARY KEY, n int)" for each in ("stamped", "named")),
    *(f"INSERT INTO {each} VALUES (1, 1)" for each in ("stamped", "named")),
)
STEPS = {
    "the tables as they are": (),
    "a column with a default": (
        "UPDATE people SET age = 50 WHERE id = 2",
        "ALTER TABLE people ADD COLUMN score int DEFAULT 5",
        "UPDATE people SET score = NULL WHERE id = 3",
        "UPDATE people SET name = 'x' WHERE id = 4",
        "ALTER TABLE bag ADD COLUMN more varchar(20) DEFAULT 'it''s \"old\"'",
        "DELETE FROM bag WHERE n = 1 LIMIT 1",
        "INSERT INTO bag VALUES (3, 'c', 'new')",
    ),
    "columns that imply a value": (
        "ALTER TABLE people ADD COLUMN points int NOT NULL, ADD COLUMN label varchar(5) NOT NULL,"
        " ADD COLUMN paid decimal(6,2) NOT NULL, ADD COLUMN much bigint unsigned NOT NULL",
        "UPDATE people SET points = 7, label = 'l', much = 18446744073709551615 WHERE id = 5",
        "INSERT INTO people (id, points, label, paid, much) VALUES (20, 1, '', 1.5, 2)",
    ),
    "a column without a value": (
        "ALTER TABLE people ADD COLUMN note text",
        "UPDATE people SET note = 'seen' WHERE id = 6",
    ),
    "wider types": (
        "UPDATE people SET age = 51 WHERE id = 5",
        "ALTER TABLE people MODIFY age bigint, MODIFY name varchar(200),"
        " MODIFY price decimal(12,2)",
        "UPDATE people SET age = 5000000000, name = repeat('y', 150) WHERE id = 7",
        "UPDATE people SET price = 1234567890.25 WHERE id = 8",
    ),
    "more defaults": (
        "ALTER TABLE people ADD COLUMN a char(3) DEFAULT 'ä', ADD COLUMN b tinyint DEFAULT -1,"
        " ADD COLUMN c decimal(8,3) DEFAULT -1.5, ADD COLUMN d date DEFAULT '2020-02-29',"
        " ADD COLUMN e double DEFAULT 0.1, ADD COLUMN f datetime(3) DEFAULT"
        " '1999-12-31 23:59:59.5', ADD COLUMN g enum('x','y') DEFAULT 'y',"
        " ADD COLUMN h bigint unsigned DEFAULT 18446744073709551615",
        "UPDATE people SET age = 1 WHERE id = 9",
    ),
    "a column that is dropped": (
        "UPDATE people SET score = 77 WHERE id = 1",
        "ALTER TABLE people DROP COLUMN score",
        "UPDATE people SET age = 2 WHERE id = 1",
    ),
}
EXPRESSIONS = {
    "stamped": "at timestamp(6) DEFAULT current_timestamp(6)",
    "named": "called varchar(36) DEFAULT (uuid())",
}


@pytest.fixture(params=["bare", "schemas"])
def altered(
    request: pytest.FixtureRequest, stack: LocalStack, stack_config: ReplicationConfig
) -> Iterator[Replicated]:
    name = f"alteredmy{request.param}"
    dsn = new_mariadb_database(stack, name, *TABLES)
    settings = record_settings(stack, request.param)
    with replicated(stack, stack_config, name, dsn, debezium=settings) as database:
        yield database


def test_each_statement_is_followed(altered: Replicated, spark: Session) -> None:
    merging = Merging(altered, spark)
    for step, statements in STEPS.items():
        for each in statements:
            altered.execute(each)
        merging.require_equal("people", "bag", ignoring=["score"] if "dropped" in step else [])
    merging.require_equal(*EXPRESSIONS)
    for table, column in EXPRESSIONS.items():
        altered.execute(f"ALTER TABLE {table} ADD COLUMN {column}", f"UPDATE {table} SET n = 2")
        with pytest.raises(TerminalError, match=f"{column.split()[0]} was added with a value"):
            merging.merge(table)
