"""The promise with MariaDB behind it: the lake equals the database, whatever its binlog does.

MariaDB under load → Debezium → Kafka → runs of ``cdc-assets replicate`` → Iceberg, while the binlog
is rotated, the server is killed, and at last all binlogs are thrown away.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from cdc_assets_devstack import local_http
from cdc_assets_devstack.shop.database import TABLES as SHOP
from cdc_assets_devstack.shop.database import prepare_shop
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets_tests.stack.killed import kill_part
from cdc_assets_tests.stack.replicated import Replicated, replicated
from cdc_assets_tests.stack.side import side_of
from cdc_assets_tests.stack.test_truth import loaded
from cdc_assets_tests.stack.workload import MAKE, MARIADB, TABLES, Workload
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1800)]

SEED = int(os.environ.get("CDC_ASSETS_SEED", "7"))
KEPT = (*(SHOP if profiles.is_soak() else ()), *TABLES)
NAME = "truthmy"
STATEMENTS = 60 if profiles.is_soak() else 30


@pytest.fixture
def truth(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[Replicated]:
    stack.up(["mariadb"])
    dsn = stack.mariadb.dsn(NAME)
    prepare_shop(dsn, SEED)
    side_of(dsn).execute(*MAKE)  # before the connector: it loses sight of tables made meanwhile
    topics = {"include": [rf"{NAME}\.(transaction|{NAME}\.({'|'.join(KEPT)}))"]}
    connector = {"snapshot.mode": "when_needed"}
    with replicated(stack, stack_config, NAME, dsn, debezium=connector, topics=topics) as shop:
        yield shop


@profiles.in_soak
def test_through_rotated_killed_and_forgotten_binlogs_every_table_equals_its_source_twice(
    truth: Replicated, capsys: pytest.CaptureFixture[str]
) -> None:
    work = Workload(truth.dsn, SEED, MARIADB)
    with busy(truth, SEED), work.running():
        rotate(truth, work)
        run = truth.start("replicate", "--until-caught-up")
        rotate(truth, work)
        kill_the_server(truth)
        rotate(truth, work)
        assert run.wait(600) == 0, truth.last_words()
    require_equal(truth, work)

    if profiles.is_soak():
        with busy(truth, SEED + 1), work.running():
            work.goes_on(STATEMENTS)
        require_equal(truth, work)

    forget_binlogs(truth)
    with busy(truth, SEED + 2), work.running():
        work.goes_on(STATEMENTS)
    assert truth.differences(*KEPT, ignoring=work.dropped), "the oracle does not see changes"
    require_equal(truth, work)
    with capsys.disabled():
        print(f"\nseed {SEED}: {dict(work.done)}")


@contextmanager
def busy(shop: Replicated, seed: int) -> Iterator[None]:
    """With the shop's load beside the other, in `make soak`."""
    if not profiles.is_soak():
        yield
        return
    with loaded(shop, seed):
        yield


def require_equal(shop: Replicated, work: Workload) -> None:
    shop.wait_until_delivered()
    shop.replicate()
    assert shop.differences(*KEPT, ignoring=work.dropped) == [], f"CDC_ASSETS_SEED={SEED}"
    shop.require_tiled(*KEPT)


def rotate(shop: Replicated, work: Workload) -> None:
    work.goes_on(STATEMENTS)
    shop.execute("FLUSH BINARY LOGS")
    work.goes_on(STATEMENTS)


def kill_the_server(shop: Replicated) -> None:
    """And start it again; the connector finds it by itself, or is started again."""
    kill_part(shop.stack.mariadb)
    shop.stack.up(["mariadb"])
    until(lambda: connector_runs(shop), "the connector runs", within_seconds=120)


def forget_binlogs(shop: Replicated) -> None:
    """With nothing undelivered before, and no change until the snapshot is taken: it has all."""
    shop.wait_until_delivered()
    # Debezium 3.5.0 cannot stream from a server that has no GTID at all.
    shop.execute("RESET MASTER", "INSERT INTO elsewhere.nudges VALUES (current_timestamp(6))")
    url = f"http://{shop.stack.connect.address}/connectors/{NAME}/restart?includeTasks=true"
    assert local_http.request("POST", url, seconds=30).ok
    until(lambda: connector_runs(shop), "the connector runs", within_seconds=120)
    # The task that was told to start again may still run: the new one has a place in the new log.
    shop.wait_until_delivered()


def connector_runs(shop: Replicated) -> bool:
    state = shop.stack.connect.state_of(NAME)
    if state.failure is not None:
        shop.stack.connect.restart(NAME)
    return state.runs
