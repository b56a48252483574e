"""Two writers of one table: whatever they do to each other, each range is published once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from cdc_assets_devstack.spark_server import SparkEndpoint
from cdc_assets_devstack.stack import LocalStack
from pyspark.sql import SparkSession

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TransientError
from cdc_assets.merge import BatchResult, Replicator
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

TABLE = "readings"
BATCH = 250
PATIENCE = 20

CREATE = "CREATE TABLE readings (id bigint PRIMARY KEY, meter text, value numeric(10,2))"
INSERT = (
    "INSERT INTO readings SELECT n, 'meter ' || n % 7, n / 8.0 FROM generate_series({}, {}) AS n"
)
UPDATE = "UPDATE readings SET value = value + 1, meter = NULL WHERE id % 5 = {}"
DELETE = "DELETE FROM readings WHERE id % 9 = {}"


@pytest.fixture(scope="module")
def metered(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[Replicated]:
    """One table whose changes take many batches."""
    dsn = new_database(stack, "metered", CREATE)
    batch = {"max_records": BATCH}
    with replicated(stack, stack_config, "metered", dsn, batch=batch) as database:
        yield database


@profiles.in_soak
def test_of_two_threads_exactly_one_publishes_each_range(
    metered: Replicated, spark_endpoint: SparkEndpoint
) -> None:
    for first in range(1, 1201, 100):  # one transaction each: a batch ends between two
        metered.execute(INSERT.format(first, first + 99))
    metered.execute(UPDATE.format(1), DELETE.format(2))
    metered.wait_until_delivered()

    start = threading.Barrier(2)
    writers = [Writer(metered, spark_endpoint.url, name) for name in ("one", "other")]
    with ThreadPoolExecutor(2) as pool:
        for writing in [pool.submit(writer.drain, start) for writer in writers]:
            writing.result()

    assert metered.differences(TABLE) == []
    metered.require_tiled(TABLE)
    publishes = metered.publishes(TABLE)
    done = [batch.attempt_id for writer in writers for batch in writer.done]
    assert sorted(publish.attempt for publish in publishes) == sorted(done)
    assert len(publishes) >= 5
    assert all(writer.statements > 0 for writer in writers), "there was no race"


def test_of_two_processes_exactly_one_publishes_each_range(metered: Replicated) -> None:
    metered.replicate()  # Dagster's own storage does not survive being created twice at once
    metered.execute(INSERT.format(2001, 2600))
    metered.execute(UPDATE.format(2), DELETE.format(4), INSERT.format(3001, 3300))
    metered.wait_until_delivered()
    both = [metered.start("replicate", "--until-caught-up") for _ in range(2)]
    assert [process.wait(240) for process in both] == [0, 0], metered.last_words()
    assert metered.differences(TABLE) == []
    metered.require_tiled(TABLE)


class Writer:
    """Drains with a session of its own, and again after each conflict that it gave up at."""

    def __init__(self, database: Replicated, url: str, name: str) -> None:
        self._database = database
        self._session = SparkSession.builder.remote(url).create()
        self._name = name
        self._replicator = Replicator(database.config, self._ask)
        self.done: list[BatchResult] = []
        self.statements = 0

    def drain(self, start: threading.Barrier) -> None:
        start.wait(60)
        for _ in range(PATIENCE):
            with suppress(TransientError):
                for batch in self._replicator.drain(
                    self._database.entry(TABLE), window=None, run_id=self._name, budget_seconds=120
                ):
                    if isinstance(batch, BatchResult):
                        self.done.append(batch)
                self._session.stop()
                return
        pytest.fail(f"writer {self._name} never came to an end")

    def _ask(self) -> SparkSession:
        self.statements += 1
        return self._session
