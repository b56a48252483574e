"""Two writers of one table: whatever they do to each other, each range is published once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from cdc_assets.config import ReplicationConfig
from cdc_assets.devstack.spark_server import SparkEndpoint
from cdc_assets.devstack.stack import LocalStack
from cdc_assets.errors import TransientError
from cdc_assets.merge import BatchResult, Replicator
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated

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


def test_of_two_threads_exactly_one_publishes_each_range(
    metered: Replicated, spark_endpoint: SparkEndpoint
) -> None:
    metered.execute(INSERT.format(1, 1200))
    metered.execute(UPDATE.format(1), DELETE.format(2))
    metered.wait_until_delivered()

    start = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        writers = [
            pool.submit(drain_with_patience, metered, spark_endpoint.url, name, start)
            for name in ("one", "other")
        ]
        results = [batch for writer in writers for batch in writer.result()]

    assert metered.differences(TABLE) == []
    metered.require_tiled(TABLE)
    publishes = metered.publishes(TABLE)
    assert Counter(p.attempt for p in publishes) == Counter(r.attempt_id for r in results)
    assert len(publishes) >= 5
    assert {publish.run for publish in publishes} == {"one", "other"}


def test_of_two_processes_exactly_one_publishes_each_range(metered: Replicated) -> None:
    metered.execute(INSERT.format(2001, 2600))
    metered.execute(UPDATE.format(2), DELETE.format(4), INSERT.format(3001, 3300))
    metered.wait_until_delivered()
    both = [metered.start("replicate", "--until-caught-up") for _ in range(2)]
    assert [process.wait(240) for process in both] == [0, 0], metered.last_words()
    assert metered.differences(TABLE) == []
    metered.require_tiled(TABLE)


def drain_with_patience(
    database: Replicated, url: str, name: str, start: threading.Barrier
) -> list[BatchResult]:
    """Drain, and again after each conflict that the writer gave up at."""
    session = SparkSession.builder.remote(url).create()
    replicator = Replicator(database.config, lambda: session)
    done: list[BatchResult] = []
    start.wait(60)
    try:
        for _ in range(PATIENCE):
            try:
                for batch in replicator.drain(
                    database.entry(TABLE), window=None, run_id=name, budget_seconds=120
                ):
                    done.append(batch)
            except TransientError:
                continue
            return done
    finally:
        session.stop()
    pytest.fail(f"writer {name} never came to an end")
