"""Building a table anew from the UI: what cannot be done is said by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_assets.config import ReplicationConfig
from cdc_assets.orchestration import build_definitions
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.command import run_command
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
    job = definitions.resolve_job_def("rebuild_table")
    run_config = {"ops": {"build_anew": {"config": wish}}}
    return job.execute_in_process(run_config, instance=instance, raise_on_error=False)


@pytest.mark.parametrize(
    ("table", "why"),
    [("nothing", "nothing"), ("orders", "the table was not replicated yet")],
    ids=["unknown", "not_there"],
)
def test_what_cannot_be_built_is_named(
    config: ReplicationConfig, instance: dg.DagsterInstance, table: str, why: str
) -> None:
    done = launch(config, instance, table=table, from_source=True)
    assert not done.success
    (failure,) = (e for e in done.all_events if e.event_type is dg.DagsterEventType.STEP_FAILURE)
    error = failure.step_failure_data.error
    assert error is not None
    assert why in f"{error.message} {error.cause.message if error.cause else ''}"
    assert config.path is not None
    said = run_command(config.path.parent, "rebuild", table, "--from-source", "--json")
    assert said.returncode != 0
    assert why in said.stderr
