"""`operations.from_ui` says which operations Dagster's UI has."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import dagster as dg
import pytest

from cdc_assets.config import ReplicationConfig
from cdc_assets.config.platform import Operation
from cdc_assets.errors import ConfigError
from cdc_assets.orchestration.build import build_definitions, mounted_definitions
from cdc_assets.orchestration.housekeeping import housekeeping_job
from cdc_assets.orchestration.keys import TAG_PROCESS, spark_key
from cdc_assets.orchestration.maintaining import maintenance_asset
from cdc_assets.orchestration.manual_jobs import require_offered
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.orchestration.translator import Translator
from cdc_assets.registry import Registry
from cdc_assets_tests.world import registry_of, write_config

SCHEDULED = {"housekeeping"}


def jobs(config: ReplicationConfig) -> set[str]:
    return {each.name for each in build_definitions(config, Registry()).jobs or ()}


@pytest.mark.unit
def test_all_of_them_if_nothing_is_said(tmp_path: Path) -> None:
    assert jobs(write_config(tmp_path)) - SCHEDULED == {*get_args(Operation)}


@pytest.mark.unit
@pytest.mark.parametrize("name", ["", "east"])
def test_those_that_are_named(tmp_path: Path, name: str) -> None:
    few = ["verify_tables", "pause_tables"]
    config = write_config(tmp_path, name=name, operations={"from_ui": few})
    prefix = f"{name}_" if name else ""
    assert {each.removeprefix(prefix) for each in jobs(config)} - SCHEDULED == {*few}
    assert not jobs(write_config(tmp_path, operations={"from_ui": []})) - SCHEDULED


def started(job: dg.JobDefinition, **tags: str) -> str:
    """What a run fails with; empty if nothing."""
    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(instance=instance, tags=tags, raise_on_error=False)
        failed = [each.step_failure_data for each in done.get_step_failure_events()]
    return " ".join(str(each.user_failure_data or each.error) for each in failed if each)


@pytest.mark.unit
@pytest.mark.parametrize("name", ["", "east"])
def test_a_mounted_replication_offers_no_more(tmp_path: Path, name: str) -> None:
    """Of what removes something: jobs that are not offered are not there, and upkeep refuses."""
    config = write_config(tmp_path, operations={"from_ui": []})
    made = mounted_definitions(config, registry_of(config, "orders"), Translator(), name)
    prefix = f"{name}_" if name else ""
    assert {each.name for each in made.jobs or ()} <= {f"{prefix}housekeeping"}


@pytest.mark.slow
@pytest.mark.parametrize("offered", [[], ["maintain_tables", "housekeeping"]], ids=str)
def test_upkeep_is_left_to_its_schedule_unless_it_is_offered(
    tmp_path: Path, offered: list[str]
) -> None:
    config = write_config(tmp_path, operations={"from_ui": offered})
    job = housekeeping_job(config, registry_of(config, "orders"))
    refused = "operations.from_ui does not offer it: add housekeeping there"
    assert (refused in started(job)) is not bool(offered)
    assert refused not in started(job, **{"dagster/schedule_name": "housekeeping"})


@pytest.mark.slow
def test_a_person_who_materializes_maintenance_is_refused(tmp_path: Path) -> None:
    config = write_config(tmp_path, operations={"from_ui": []})
    asset = maintenance_asset(config, registry_of(config, "orders").entries)
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize(
            [asset], instance=instance, resources={spark_key(config): spark_resource(config)},
            raise_on_error=False,
        )  # fmt: skip
    (failed,) = done.get_step_failure_events()
    assert "add maintain_tables there" in str(failed.step_failure_data)


@pytest.mark.unit
@pytest.mark.parametrize("tag", [None, "dagster/sensor_name", TAG_PROCESS])
def test_maintenance_that_a_person_starts_is_refused(tmp_path: Path, tag: str | None) -> None:
    config = write_config(tmp_path, operations={"from_ui": ["pause_tables"]})
    run = dg.DagsterRun("maintain", tags={tag: "x"} if tag else {})
    if tag:
        require_offered(run, config, "maintain_tables")
    else:
        with pytest.raises(dg.Failure, match="maintain_tables was started by hand"):
            require_offered(run, config, "maintain_tables")


@pytest.mark.unit
def test_one_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="from_ui"):
        write_config(tmp_path, operations={"from_ui": ["burn_tables"]})
