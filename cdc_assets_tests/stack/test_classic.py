"""A session of the run's own process, ``spark: {master: …}``, in the place of a server."""

from __future__ import annotations

import shutil

import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets_tests.conftest import CHECKOUT_JARS
from cdc_assets_tests.stack.replicated import new_database, replicated
from cdc_assets_tests.toy.profiles import in_soak

pytestmark = [
    pytest.mark.stack,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark's launcher needs a whole Java"),
]

ROWS = 21_000
"""More than one task reads."""

MADE = (
    "CREATE TABLE items (id int PRIMARY KEY, name text, n int)",
    "ALTER TABLE items REPLICA IDENTITY FULL",
    "CREATE TABLE bag (n int, word text)",
    "ALTER TABLE bag REPLICA IDENTITY FULL",
    f"INSERT INTO items SELECT n, 'row ' || n, n FROM generate_series(1, {ROWS}) AS n",
    "INSERT INTO bag SELECT n % 7, 'w' FROM generate_series(1, 50) AS n",
)
CHANGED = (
    "UPDATE items SET n = -n WHERE id % 300 = 0",
    "UPDATE items SET id = -id WHERE id % 500 = 0",
    "DELETE FROM items WHERE id % 70 = 0",
    "DELETE FROM bag WHERE n = 3",
    "UPDATE bag SET word = 'v' WHERE n = 2",
)


@in_soak
def test_tables_equal_their_source(stack: LocalStack, stack_config: ReplicationConfig) -> None:
    """In a batch that several tasks read, and in small ones."""
    dsn = new_database(stack, "classic", *MADE)
    jars = ",".join(map(str, sorted((CHECKOUT_JARS / "spark").glob("*.jar"))))
    conf = {"spark.jars": jars, "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1"}  # fmt: skip
    spark, batch = {"master": "local[2]", "conf": conf}, {"max_records": ROWS}
    with replicated(stack, stack_config, "classic", dsn, {"spark": spark}, batch=batch) as database:
        database.wait_until_delivered()
        database.execute(*CHANGED)
        database.wait_until_delivered()
        assert database.differences("items", "bag"), "the oracle sees what was not merged"
        database.replicate()
        assert database.differences("items", "bag") == []
        database.require_tiled("items", "bag")
        assert len(database.publishes("items")) > 1
