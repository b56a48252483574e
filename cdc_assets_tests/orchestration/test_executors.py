"""Runs by executors that are not ours: slower, and right."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from cdc_assets_devstack.spark_server import SparkEndpoint

from cdc_assets.config import ReplicationConfig
from cdc_assets.orchestration.keys import TAG_ALIVE, TAG_MODE, TAIL, table_key
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.orchestration import executors
from cdc_assets_tests.orchestration.test_table_run import TABLES, Tables, no_session
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.waiting import roomy_hour

pytestmark = pytest.mark.stack


@pytest.fixture
def made(
    stack_config: ReplicationConfig,
    kafka_bootstrap: str,
    spark_endpoint: SparkEndpoint,
    tmp_path: Path,
) -> Tables:
    assert kafka_bootstrap
    assert spark_endpoint

    return Tables(stack_config, no_session, tmp_path, {"tables": TABLES})


@pytest.mark.parametrize(
    "job", [executors.in_process, pytest.param(executors.multiprocess, marks=profiles.in_soak)]
)
def test_tables_of_one_run_are_merged_by_the_projects_executor(
    job: Callable[[], dg.JobDefinition], made: Tables, instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    hour = roomy_hour()
    entries = [made.entry(f"public.{table}") for table in ("items", "orders")]
    for entry in entries:
        made.create_topic(f"public.{entry.table.name}")
        made.change(entry.table.name, "c", 1, datetime.now(UTC))
        made.change(entry.table.name, "c", 2, datetime.now(UTC))
    RegistryFile(made.config.registry).add(entries)
    monkeypatch.setenv(executors.CONFIG, str(made.config.path))

    with dg.execute_job(
        dg.reconstructable(job), instance=instance, raise_on_error=False,
        asset_selection=[table_key(made.config, entry) for entry in entries],
        tags={TAG_MODE: TAIL, "dagster/partition": hour.key},
    ) as result:  # fmt: skip
        assert result.success
        run = instance.get_run_by_id(result.run_id)
    assert run is not None
    assert TAG_ALIVE in run.tags
    assert [made.by_key(f"public.{each.table.name}").keys() for each in entries] == [{1, 2}] * 2
