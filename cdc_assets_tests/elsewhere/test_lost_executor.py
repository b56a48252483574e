"""An executor that dies with what it has read: Spark reads that again, and it counts once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cdc_assets_devstack.layout import StackLayout
from pyspark.sql import functions as F

from cdc_assets import decode
from cdc_assets.config import ReplicationConfig
from cdc_assets.connect_session import open_session
from cdc_assets.merge.fold.summary import read_through
from cdc_assets.merge.statements.observed import Observed
from cdc_assets_tests.elsewhere.cluster import Cluster, spark_cluster
from cdc_assets_tests.waiting import until

pytestmark = pytest.mark.stack

READ, TASKS = 1_000, 4


@pytest.fixture(scope="module")
def cluster(
    stack_config: ReplicationConfig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cluster, Path]]:
    home = tmp_path_factory.mktemp("lost")
    with spark_cluster(StackLayout(home)) as made:
        yield made, home


def test_what_is_read_again_counts_once(cluster: tuple[Cluster, Path]) -> None:
    made, home = cluster
    session, observed = open_session(made.server.endpoint.url), Observed("lost")
    for name, value in decode.SETTINGS.items():
        session.conf.set(name, value)
    place = F.lit(0), F.col("id"), F.lit("c"), F.col("id").cast("string").cast("binary")
    parts = *place, F.lit(True), F.lit(False), F.lit(None).cast("bigint")
    read = observed.attach(session.range(0, READ, numPartitions=TASKS), "fold", {}, *parts)
    # Reading is done, and its results lie on the executors, as long as the next stage waits.
    wait = F.java_method(F.lit("java.lang.Thread"), F.lit("sleep"), F.lit(40).cast("bigint"))
    slow = read.repartition(2).withColumn("waited", wait).where("waited IS NOT NULL")

    def results() -> int:
        return len([*home.rglob("shuffle_*.data")])

    before = results()
    with ThreadPoolExecutor(1) as beside:
        query = beside.submit(read_through, slow)
        until(lambda: results() >= before + TASKS, "all is read", within_seconds=60)
        victim = next(each for each in made.executors() if "java" in each.name())
        victim.kill()
        (row,) = observed.figures(query.result(120))
    assert results() > before + TASKS // 2, "nothing was read again"
    assert row["keys"] == READ
    session.stop()
