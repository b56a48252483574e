"""The promise, against real processes that are killed: the lake equals the database.

PostgreSQL under load → Debezium → Kafka → runs of ``cdc-assets replicate`` → Iceberg. Without a
soak one run is killed; `elsewhere/test_cluster.py` kills a Spark server, and compares too.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from cdc_assets_devstack.configured import stack_of
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.shop.database import TABLES, prepare_shop
from cdc_assets_devstack.shop.load import LoadTotals, ShopLoad
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.lake import Lake
from cdc_assets_tests.stack.killed import kill_part
from cdc_assets_tests.stack.replicated import Replicated, replicated
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.waiting import until

pytestmark = pytest.mark.stack

SEED = int(os.environ.get("CDC_ASSETS_SEED", "7"))
KILLS = 5 if profiles.is_soak() else 1
"""Of runs."""
KEPT = TABLES if profiles.is_soak() else ("inventory", "orders")
"""Tables that are replicated: each first merge on a cold server takes seconds."""
LONGEST_LIFE_SECONDS = 4.0 if profiles.is_soak() else 1.0
"""The shorter, the fewer runs end before they are killed."""
RATE = 40


@pytest.fixture
def truth(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[Replicated]:
    """A shop whose replication has a lake and a Spark server of its own: that one is killed."""
    dsn = stack.postgres.dsn("truth")
    prepare_shop(dsn, SEED)
    ports = pick_free_ports().as_dict()
    document = {"home": "truth", "stack": {"ports": ports}, "lake": _lake("truth")}
    topics = {"include": [rf"truth\.(transaction|public\.({'|'.join(KEPT)}))"]}
    with replicated(stack, stack_config, "truth", dsn, document, topics=topics) as shop:
        own = stack_of(shop.config)
        try:
            own.up(["spark"])
            yield shop
        finally:
            shop.close()
            own.down()


def test_after_kills_of_runs_and_of_spark_every_table_equals_its_source_twice(
    truth: Replicated, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(SEED)
    with loaded(truth, SEED) as load:
        if profiles.is_soak():
            kill_spark_under_a_run(truth, rng)  # first: one that is warm by then would be lost
        killed = [kill_a_run(truth, rng) for _ in range(KILLS)]
    require_equal(truth)
    left = branches_left(truth)

    with loaded(truth, SEED + 1) as second:
        until(lambda: second.commits >= 50, "some more load")
    assert truth.differences(*KEPT), "the oracle does not see changes that were not merged"
    require_equal(truth)

    with capsys.disabled():
        print(f"\nseed {SEED}: {load}, then {second}")
        print(f"runs killed: {', '.join(killed)}; branches left: {left or 'none'}")


def require_equal(shop: Replicated) -> None:
    shop.wait_until_delivered()
    shop.replicate()
    assert shop.differences(*KEPT) == [], f"CDC_ASSETS_SEED={SEED}"
    shop.require_tiled(*KEPT)


@contextmanager
def loaded(shop: Replicated, seed: int) -> Iterator[LoadTotals]:
    """Load on the database for as long as this lasts."""
    load, stop = ShopLoad(shop.dsn, RATE, seed), threading.Event()
    worker = threading.Thread(target=load.run, args=(stop,))
    worker.start()
    try:
        yield load.totals
    finally:
        stop.set()
        worker.join(30)
    assert min(load.totals.inserts, load.totals.updates, load.totals.deletes) > 0


def kill_a_run(shop: Replicated, rng: random.Random) -> str:
    """Kill a run at a random moment after it has begun to write some table; says when."""
    for _ in range(5):
        table, moment = rng.choice(KEPT), rng.uniform(0, LONGEST_LIFE_SECONDS)
        run = start_and_wait_until_it_writes(shop, table)
        if still_runs_after(run, moment):
            run.send_signal(signal.SIGKILL)
            assert run.wait(10) == -signal.SIGKILL
            return f"{table} +{moment:.1f} s"
    pytest.fail(f"no run lived long enough to be killed: CDC_ASSETS_SEED={SEED}")


def kill_spark_under_a_run(shop: Replicated, rng: random.Random) -> None:
    """Kill the Spark server under a run, which then ends in good order."""
    run = start_and_wait_until_it_writes(shop, KEPT[0])
    still_runs_after(run, rng.uniform(0, LONGEST_LIFE_SECONDS))
    kill_part(stack_of(shop.config).spark)
    assert run.wait(240) in (0, 1), shop.last_words()
    assert "Traceback" not in shop.last_words()


def start_and_wait_until_it_writes(shop: Replicated, table: str) -> subprocess.Popen[bytes]:
    """What a dead run's last statement still writes in the server does not count."""
    runs = shop.run_ids()
    run = shop.start("replicate", "--until-caught-up")
    until(lambda: shop.run_ids() > runs or ended(run), "the run begins", within_seconds=300)
    before = refs(shop, table)
    until(lambda: refs(shop, table) != before or ended(run), "the run writes", within_seconds=300)
    return run


def ended(run: subprocess.Popen[bytes]) -> bool:
    return run.poll() is not None


def still_runs_after(run: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        run.wait(seconds)
    except subprocess.TimeoutExpired:
        return True
    assert run.returncode == 0
    return False


def refs(shop: Replicated, table: str) -> dict[str, int]:
    """Where the branches of a table are."""
    return Lake(shop.config).branches(shop.entry(table).target)


def branches_left(shop: Replicated) -> dict[str, int]:
    """How many branches of dead runs each table still has."""
    return {table: len(found) - 1 for table in KEPT if len(found := refs(shop, table)) > 1}


def _lake(folder: str) -> dict[str, object]:
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db"}
    return {"catalog": catalog, "warehouse": f"{folder}/warehouse"}
