"""A connector whose task fails inside a transaction: what a person is told, and the way out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from http import HTTPStatus

import psycopg
import pytest
import requests
from cdc_assets_devstack.shop.connector import connector_config
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets_tests.stack.merging import records
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until

pytestmark = pytest.mark.stack

NAME = "dead"
MODE = "event.converting.failure.handling.mode"
SMALL = {"max.batch.size": "4", "max.queue.size": "8"}
"""What a failing task still holds is not sent: with these most of a transaction is."""

CREATE = "CREATE TABLE prices (id int PRIMARY KEY, price numeric(10,2))"


@pytest.fixture
def database(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[Replicated]:
    dsn = new_database(stack, NAME, CREATE, "INSERT INTO prices VALUES (0, 1)")
    with replicated(stack, stack_config, NAME, dsn, debezium={MODE: "fail", **SMALL}) as made:
        made.wait_until_delivered()
        yield made


def task_state(database: Replicated) -> str:
    url = f"http://{database.stack.connect.address}/connectors/{NAME}/status"
    tasks = requests.get(url, timeout=10).json().get("tasks", [])
    return tasks[0]["state"] if tasks else ""


def restarted(url: str) -> bool:
    """Connect answers 409 for as long as it rebalances, as it does for a new configuration."""
    answer = requests.post(f"{url}/restart?includeTasks=true", timeout=30)
    if answer.status_code == HTTPStatus.CONFLICT:
        return False
    answer.raise_for_status()
    return True


def status(database: Replicated) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-m", "cdc_assets.cli", "status", "--json"],
        env=database.env, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    (table,) = json.loads(done.stdout)["tables"]
    return table


@in_soak
def test_a_task_that_failed_inside_a_transaction_is_named_and_the_table_goes_on_once_it_runs(
    database: Replicated,
) -> None:
    database.replicate()
    with psycopg.connect(database.dsn) as connection:
        for number in range(1, 35):
            connection.execute("INSERT INTO prices VALUES (%s, %s)", (number, number))
        connection.execute("INSERT INTO prices VALUES (99, 'NaN')")
    until(lambda: task_state(database) == "FAILED", "the task fails")

    command = database.start("replicate", "--until-caught-up")
    assert command.wait(180) == 1, "it ends, and says that it is not caught up"
    said = database.last_words()
    assert f"failed: {NAME}.public.prices: waiting: transaction" in said
    assert f"connector {NAME}: task 0 is FAILED" in said
    assert "NaN" not in said
    table = status(database)
    assert table["state"] == "WAITING"
    sent = len(records(database.config, f"{NAME}.public.prices")) - 1  # of the snapshot
    assert table["lag"]["changes"] == sent > 0
    assert "is FAILED" in table["waiting"]["reason"]
    assert len(database.publishes("prices")) == 1

    database.execute("UPDATE prices SET price = 5 WHERE id = 99")
    layout, settings = database.stack.layout, {MODE: "warn"}
    connector = connector_config(layout, database=NAME, prefix=NAME) | settings
    url = f"http://{database.stack.connect.address}/connectors/{NAME}"
    requests.put(f"{url}/config", json=connector, timeout=30).raise_for_status()
    until(lambda: restarted(url), "Connect has rebalanced, and restarts the connector")
    until(lambda: task_state(database) == "RUNNING", "the task runs again")
    database.wait_until_delivered()
    database.replicate()
    assert database.differences("prices") == []
    assert status(database)["state"] == "CURRENT"
