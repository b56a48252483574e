"""A Spark server that stops answering amid a run: one table fails, the others go on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from cdc_assets_devstack.spark_server import SparkEndpoint
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.log.hours import hour_of
from cdc_assets.merge import BatchResult
from cdc_assets.operate.failures import FailureKind
from cdc_assets.operate.services import Services, utc_now
from cdc_assets.orchestration.assets import table_asset
from cdc_assets.orchestration.keys import SPARK, TAG_MODE, TAIL
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.pipeline import Pipeline
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, in_soak]

HUNG, OTHER = "public.a", "public.b"


def test_one_hung_statement_does_not_hold_up_the_other_tables_of_the_run(
    stack_config: ReplicationConfig, kafka_bootstrap: str, spark_endpoint: SparkEndpoint,
    stack_parts: Callable[..., LocalStack], tmp_path: Path, instance: dg.DagsterInstance,
) -> None:  # fmt: skip
    assert kafka_bootstrap
    assert spark_endpoint
    batch = {"max_records": 1, "statement_seconds": 25}
    made = Pipeline(stack_config, lambda: pytest.fail("unused"), tmp_path, {"batch": batch})
    for table in (HUNG, OTHER):
        made.create_topic(table)
        made.produce(table, [event("c", {"id": n, "name": "x"}, 10 + n) for n in (1, 2)])
    running = stack_parts("spark").spark.running
    assert running is not None
    failures = Services(made.config).failures

    def has_failed() -> bool:
        return made.entry(HUNG).table in failures.load()

    def go_on() -> None:
        until(has_failed, "the table fails", within_seconds=300)
        os.kill(running.pid, signal.SIGCONT)

    waking = threading.Thread(target=go_on)

    def stop(_: BatchResult) -> None:
        os.kill(running.pid, signal.SIGSTOP)
        waking.start()

    try:
        result = dg.materialize(
            [table_asset(made.config, made.entry(HUNG), stop),
             table_asset(made.config, made.entry(OTHER))],
            instance=instance, partition_key=hour_of(utc_now()).key, tags={TAG_MODE: TAIL},
            resources={SPARK: spark_resource(made.config)}, raise_on_error=False,
        )  # fmt: skip
        waking.join(300)
    finally:
        os.kill(running.pid, signal.SIGCONT)
    assert not result.success
    held = failures.load()[made.entry(HUNG).table]
    failures.clear(made.entry(HUNG).table)
    assert held.kind is FailureKind.TRANSIENT
    assert "was not over after" in held.message
    assert len(made.rows(HUNG)) == 1, "what was published before stays, and no more"
    assert len(made.rows(OTHER)) == 2
