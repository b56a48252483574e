"""Assessing from the UI: the checks of the chosen tables, and why a run fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_assets.config import ReplicationConfig
from cdc_assets.orchestration import build_definitions
from cdc_assets.orchestration.keys import CHECK_ASSESSED, table_key
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.configuration import NOWHERE
from cdc_assets_tests.orchestration.failed import reason
from cdc_assets_tests.world import entry_of, registry_of, write_config

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("impatient")]

TABLES = ("items", "orders")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReplicationConfig:
    """A lake in a folder, and nothing else that answers."""
    monkeypatch.setenv("SHOP_DSN", f"postgresql://me:me@{NOWHERE}/shop")
    config = write_config(tmp_path)
    RegistryFile(config.registry).add(registry_of(config, *TABLES))
    return config


def launch(
    config: ReplicationConfig, instance: dg.DagsterInstance, **wish: Any
) -> dg.ExecuteInProcessResult:
    definitions = build_definitions(config, registry_of(config, *TABLES))
    job = definitions.resolve_job_def("assess_tables")
    run_config = {"ops": {"assess_all_parts": {"config": wish}}}
    return job.execute_in_process(run_config, instance=instance, raise_on_error=False)


def checked(config: ReplicationConfig, instance: dg.DagsterInstance) -> dict[str, str]:
    """What the newest check of each table that has one says."""
    keys = {
        dg.AssetCheckKey(table_key(config, entry_of(each, config)), CHECK_ASSESSED): each
        for each in TABLES
    }
    found = instance.event_log_storage.get_latest_asset_check_execution_by_key([*keys])
    evaluations = {keys[key]: each.event for key, each in found.items() if each.event}
    return {
        table: str(event.dagster_event.asset_check_evaluation_data.description)
        for table, event in evaluations.items()
        if event.dagster_event is not None
    }


def test_all_parts_are_looked_at_and_each_table_s_check_says_what_was_found(
    config: ReplicationConfig, instance_in_memory: dg.DagsterInstance
) -> None:
    done = launch(config, instance_in_memory)
    assert not done.success
    assert "NO: shop" in reason(done)
    said = checked(config, instance_in_memory)
    assert set(said) == set(TABLES)
    assert all(part in said["items"] for part in ("Kafka", "the database", "Spark"))
    assert "(not judged: " not in said["items"]


def test_only_what_is_chosen_is_assessed(
    config: ReplicationConfig, instance_in_memory: dg.DagsterInstance
) -> None:
    launch(config, instance_in_memory, tables=["orders"], read_only=True)
    said = checked(config, instance_in_memory)
    assert set(said) == {"orders"}
    assert "(not judged: no file and no table was written)" in said["orders"]


def test_a_table_that_nobody_knows_is_named(
    config: ReplicationConfig, instance_in_memory: dg.DagsterInstance
) -> None:
    done = launch(config, instance_in_memory, tables=["nothing"])
    assert not done.success
    assert "nothing" in reason(done)
