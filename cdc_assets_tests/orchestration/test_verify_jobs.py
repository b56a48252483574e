"""Comparing tables from the UI: what cannot be is said by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_assets.config import ReplicationConfig
from cdc_assets.orchestration import build_definitions
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.orchestration.failed import reason
from cdc_assets_tests.world import registry_of, write_config

pytestmark = pytest.mark.slow


@pytest.fixture
def config(tmp_path: Path) -> ReplicationConfig:
    config = write_config(tmp_path)
    RegistryFile(config.registry).add(registry_of(config, "items", "orders"))
    return config


def launch(
    config: ReplicationConfig, instance: dg.DagsterInstance, **wish: Any
) -> dg.ExecuteInProcessResult:
    definitions = build_definitions(config, registry_of(config, "items", "orders"))
    job = definitions.resolve_job_def("verify_tables")
    run_config = {"ops": {"compare_with_source": {"config": wish}}}
    return job.execute_in_process(run_config, instance=instance, raise_on_error=False)


def test_nothing_chosen_compares_nothing(
    config: ReplicationConfig, instance: dg.DagsterInstance
) -> None:
    done = launch(config, instance)
    assert not done.success
    assert "which tables?" in reason(done)


def test_each_table_that_cannot_be_compared_is_named_with_the_reason(
    config: ReplicationConfig, instance: dg.DagsterInstance
) -> None:
    done = launch(config, instance, tables=["items", "orders"], repair=True)
    assert not done.success
    said = reason(done)
    assert "shop.public.items: " in said
    assert "shop.public.orders: " in said


def test_of_all_tables_those_with_nothing_to_compare_are_no_failure(
    config: ReplicationConfig,
    instance: dg.DagsterInstance,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert launch(config, instance, every=True, repair=True).success
    said = capfd.readouterr().err
    for table in ("items", "orders"):
        assert f"shop.public.{table}: not compared: nothing of it was merged yet" in said
