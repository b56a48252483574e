"""Configuration and registry become Dagster definitions. No network is touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TerminalError
from cdc_assets.operate.known_tables import replicated
from cdc_assets.operations.adopt.operation import ADOPT
from cdc_assets.operations.command import AnyOperation
from cdc_assets.operations.compact import COMPACT
from cdc_assets.operations.drop.operation import DROP, RESET
from cdc_assets.operations.maintain import by_target
from cdc_assets.operations.rebuild.operation import REBUILD
from cdc_assets.operations.resnapshot.operation import RESNAPSHOT
from cdc_assets.operations.rewind.operation import HISTORY, REWIND
from cdc_assets.operations.steering import PAUSE, RESUME
from cdc_assets.operations.verify import VERIFY
from cdc_assets.orchestration.assessing import assess_job, assessed_checks
from cdc_assets.orchestration.assets import default_spec, external_specs, table_asset
from cdc_assets.orchestration.housekeeping import housekeeping_schedule
from cdc_assets.orchestration.keys import named, spark_key, table_key
from cdc_assets.orchestration.maintaining import maintenance_asset
from cdc_assets.orchestration.matching import matches_checks
from cdc_assets.orchestration.mount import Mount, mount_of
from cdc_assets.orchestration.operation_jobs import operation_job
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.orchestration.sensors import (
    alert_sensor,
    assess_sensor,
    ddl_sensor,
    discover_sensor,
    maintain_sensor,
    replicate_sensor,
    slo_sensor,
    watch_sensor,
)
from cdc_assets.orchestration.side_by_side import side_by_side
from cdc_assets.orchestration.translator import TableProps, Translator
from cdc_assets.orchestration.verify_schedules import verify_schedules
from cdc_assets.registry import Registry, TableEntry

Made = TypeVar("Made")


Make = Callable[[ReplicationConfig, Registry], Made]
"""Of a configuration and the tables that are known; asks nothing and nobody. Names of what it makes
go through `cdc_assets.orchestration.keys.named`, and assets through `table_key` and its like."""

SENSORS: Final[Sequence[Make[dg.SensorDefinition]]] = (
    discover_sensor,
    replicate_sensor,
    slo_sensor,
    ddl_sensor,
    maintain_sensor,
    alert_sensor,
    watch_sensor,
    assess_sensor,
)
SCHEDULES: Final[Sequence[Make[dg.ScheduleDefinition]]] = (housekeeping_schedule,)
OPERATIONS: Final[Sequence[AnyOperation]] = (
    PAUSE,
    RESUME,
    DROP,
    RESET,
    REBUILD,
    RESNAPSHOT,
    REWIND,
    HISTORY,
    COMPACT,
    ADOPT,
    VERIFY,
)
"""The operations that have a job."""

JOBS: Final[Sequence[Make[dg.JobDefinition]]] = (
    assess_job,
    *(operation_job(each) for each in OPERATIONS),
)
"""In addition to those that schedules bring along."""


def build_definitions(config: ReplicationConfig, registry: Registry) -> dg.Definitions:
    """Builds an asset per registered table, its upkeep, parents, checks, sensors, resource.

    Tables of sources that are no longer configured are left out.
    """
    entries = replicated(config, registry)
    return dg.Definitions(
        assets=[
            *(table_asset(config, entry) for entry in entries),
            *(maintenance_asset(config, each) for each in by_target(entries)),
            *external_specs(config, entries),
        ],
        asset_checks=[*assessed_checks(config, entries), *matches_checks(config, registry)],
        sensors=[make(config, registry) for make in SENSORS],
        schedules=[
            *(make(config, registry) for make in SCHEDULES),
            *verify_schedules(config, registry),
        ],
        jobs=_offered(config, [make(config, registry) for make in JOBS]),
        resources={spark_key(config): spark_resource(config)},
        executor=None if mount_of(config) else side_by_side,
        metadata={"tables": len(entries), "configuration": str(config.path or "")},
    )


def _offered(config: ReplicationConfig, jobs: Sequence[dg.JobDefinition]) -> list[dg.JobDefinition]:
    """Returns the jobs that `operations.from_ui` allows."""
    allows = config.operations.offers
    return [each for each in jobs if allows(each.name.removeprefix(named(config, "")))]


def mounted_definitions(
    config: ReplicationConfig,
    registry: Registry,
    translator: Translator,
    name: str = "",
    *,
    runs: bool = False,
) -> dg.Definitions:
    """Builds the definitions for a project that has more than this replication.

    The location's executor is left to the project; sensors have jobs with ours.

    Args:
        config: the configuration.
        registry: the tables.
        translator: decides how Dagster shows each table.
        name: the replication's name, instead of that in the configuration.
        runs: whether sensors and schedules run from the beginning.

    Raises:
        TerminalError: if the translator gives two tables one key.
    """

    def spec_of(config: ReplicationConfig, entry: TableEntry) -> dg.AssetSpec:
        return translator.get_asset_spec(TableProps(config, entry, default_spec(config, entry)))

    mounted = config.mounted(Mount(spec_of, translator.execute, runs), name)
    _require_own_keys(mounted, replicated(mounted, registry))
    return build_definitions(mounted, registry)


def _require_own_keys(config: ReplicationConfig, entries: Sequence[TableEntry]) -> None:
    owners = dict[dg.AssetKey, TableEntry]()
    for entry in entries:
        other = owners.setdefault(table_key(config, entry), entry)
        if other is not entry:
            key = table_key(config, entry).to_user_string()
            what = f"{other.table} and {entry.table} have one asset key, {key}"
            remedy = "have the translator keep schema and name of the table in the key"
            raise TerminalError(what, remedy=remedy)


def build_guide(what_to_do: str) -> dg.Definitions:
    """Builds the page that is shown without a configuration: how to write one."""
    guide = dg.AssetSpec(
        ["cdc_assets", "how_to_begin"],
        description=what_to_do,
        group_name="cdc_assets",
    )
    return dg.Definitions(assets=[guide], metadata={"how_to_begin": what_to_do})
