"""The promise through a failover: the connector moves to a replica, which numbers its binlog anew.

MariaDB under load → its replica → Debezium, which goes on there by GTID → Kafka → Iceberg.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cdc_assets_devstack.shop.connector import mariadb_connector_config
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets_tests.stack.killed import kill_part
from cdc_assets_tests.stack.replica import Replica, replica_of
from cdc_assets_tests.stack.replicated import Replicated, new_mariadb_database, replicated
from cdc_assets_tests.stack.side import side_of
from cdc_assets_tests.stack.workload import MAKE, MARIADB, TABLES, Workload
from cdc_assets_tests.toy import profiles

pytestmark = [pytest.mark.stack, profiles.in_soak, pytest.mark.timeout(1800)]

SEED = int(os.environ.get("CDC_ASSETS_SEED", "7"))
NAME = "truthrp"


@dataclass(frozen=True)
class Pair:
    """What is replicated, and where it will be."""

    shop: Replicated
    replica: Replica


@pytest.fixture
def pair(stack: LocalStack, stack_config: ReplicationConfig, tmp_path: Path) -> Iterator[Pair]:
    stack.up(["mariadb"])
    with replica_of(stack, tmp_path / "replica", NAME, "elsewhere") as replica:
        dsn = new_mariadb_database(stack, NAME, *MAKE)
        replica.let_capture(NAME)
        topics = {"include": [rf"{NAME}\.(transaction|{NAME}\.({'|'.join(TABLES)}))"]}
        with replicated(stack, stack_config, NAME, dsn, topics=topics) as shop:
            yield Pair(shop, replica)
    stack.up(["mariadb"])


def test_a_connector_that_moves_to_a_replica_loses_nothing_and_brings_nothing_back(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shop, replica = pair.shop, pair.replica
    work = Workload(shop.dsn, SEED, MARIADB)
    with work.running():
        for _ in range(3):  # the replica's files have lower numbers
            work.goes_on()
            shop.execute("FLUSH BINARY LOGS")
        shop.replicate()
        work.goes_on()
    replica.wait_for(shop.stack.mariadb)
    kill_part(shop.stack.mariadb)
    replica.promote()

    there = replace(shop, side=side_of(replica.dsn(NAME)))
    monkeypatch.setenv(f"{NAME.upper()}_DSN", there.dsn)
    move_the_connector(shop, replica)
    require_equal(there, work)
    work.dsn = there.dsn
    with work.running():
        work.goes_on()
        there.replicate()
        work.goes_on()
    assert there.differences(*TABLES, ignoring=work.dropped), "the oracle does not see changes"
    require_equal(there, work)
    epochs = [each.carried.numbering for each in there.publishes("people")]
    assert '"restarts":[]' in epochs[0]
    assert '"restarts":[]' not in epochs[-1], "the positions of the replica were not lower"
    with capsys.disabled():
        print(f"\nseed {SEED}: {dict(work.done)}")


def move_the_connector(shop: Replicated, replica: Replica) -> None:
    """Before anything is committed there: dbz#1672, mended for Debezium 3.6.

    Connectors before that take a GTID of another server for one that the server does not have.
    """
    shop.stack.connect.unregister(NAME)
    usual = mariadb_connector_config(shop.stack.layout, database=NAME, prefix=NAME)
    there = {"database.port": str(replica.port), "heartbeat.interval.ms": "500"}
    shop.stack.register_connector(NAME, {**usual, **there})


def require_equal(shop: Replicated, work: Workload) -> None:
    shop.wait_until_delivered()
    shop.replicate()
    assert shop.differences(*TABLES, ignoring=work.dropped) == [], f"CDC_ASSETS_SEED={SEED}"
    shop.require_tiled(*TABLES)
