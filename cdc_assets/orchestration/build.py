"""Configuration and registry become Dagster definitions. No network is touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.discovery import replicated
from cdc_assets.orchestration.assets import table_asset
from cdc_assets.orchestration.external import external_specs
from cdc_assets.orchestration.jobs import housekeeping_schedule
from cdc_assets.orchestration.keys import spark_key
from cdc_assets.orchestration.maintaining import by_target, maintenance_asset
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.orchestration.rewind_jobs import history_job, rewind_job
from cdc_assets.orchestration.sensors import (
    alert_sensor,
    ddl_sensor,
    discover_sensor,
    maintain_sensor,
    promise_sensor,
    replicate_sensor,
    watch_sensor,
)
from cdc_assets.orchestration.side_by_side import side_by_side
from cdc_assets.orchestration.steering import STEERING_JOBS
from cdc_assets.registry import Registry

Made = TypeVar("Made")


Make = Callable[[ReplicationConfig, Registry], Made]
"""Of a configuration and the tables that are known; asks nothing and nobody. Names of what it makes
go through `cdc_assets.orchestration.keys.named`, and assets through `table_key` and its like."""

SENSORS: Final[Sequence[Make[dg.SensorDefinition]]] = (
    discover_sensor,
    replicate_sensor,
    promise_sensor,
    ddl_sensor,
    maintain_sensor,
    alert_sensor,
    watch_sensor,
)
SCHEDULES: Final[Sequence[Make[dg.ScheduleDefinition]]] = (housekeeping_schedule,)
JOBS: Final[Sequence[Make[dg.JobDefinition]]] = (rewind_job, history_job, *STEERING_JOBS)
"""Beside those that schedules bring along."""


def build_definitions(config: ReplicationConfig, registry: Registry) -> dg.Definitions:
    """One asset per registered table, its upkeep, external parents, checks, sensors, the resource.

    Tables of sources that are no longer configured are left out.
    """
    entries = replicated(config, registry)
    return dg.Definitions(
        assets=[
            *(table_asset(config, entry) for entry in entries),
            *(maintenance_asset(config, each) for each in by_target(entries)),
            *external_specs(config, entries),
        ],
        sensors=[make(config, registry) for make in SENSORS],
        schedules=[make(config, registry) for make in SCHEDULES],
        jobs=[make(config, registry) for make in JOBS],
        resources={spark_key(config): spark_resource(config)},
        executor=side_by_side,
        metadata={"tables": len(entries), "configuration": str(config.path or "")},
    )


def build_guide(what_to_do: str) -> dg.Definitions:
    """What is shown when there is no configuration yet: how to write one."""
    guide = dg.AssetSpec(
        ["cdc_assets", "how_to_begin"],
        description=what_to_do,
        group_name="cdc_assets",
    )
    return dg.Definitions(assets=[guide], metadata={"how_to_begin": what_to_do})
