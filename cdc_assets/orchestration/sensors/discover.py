"""Defines the sensor `discover`, which turns topics into tables and assets while Dagster runs.

The sensor has the definitions loaded again, so that new tables become assets.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.log.values import Watermarks
from cdc_assets.operate.discovery import discover
from cdc_assets.operate.known_tables import not_tables, replicated
from cdc_assets.operate.services import Services
from cdc_assets.orchestration.instance import limit_pools
from cdc_assets.orchestration.keys import named, pool_name, table_key, topic_key
from cdc_assets.orchestration.mount import sensor_status
from cdc_assets.orchestration.sensors.reloading import Reloads
from cdc_assets.orchestration.sensors.skipping import skipping_when_unreachable
from cdc_assets.registry import Registry, TableEntry

INTERVAL_SECONDS: Final = 15
FIRST_SECONDS: Final = 5
"""The interval until a table is known, since whoever has just started it waits for the first."""


def discover_sensor(config: ReplicationConfig, loaded: Registry) -> dg.SensorDefinition:
    """Returns the sensor that adds new topics' tables to the registry and reloads definitions.

    Reloading depends on what these definitions lack, not on what this tick found: a reload
    that failed (the webserver was not up yet) is tried again at the next tick, and one that had no
    effect after a while.
    """
    services = Services(config)
    entries, reloads, limited = replicated(config, loaded), Reloads(), set[str]()

    @skipping_when_unreachable
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        found = discover(services)
        pools = {pool_name(config, each) for each in replicated(config, found.registry)}
        if not pools <= limited:
            _limit(context, pools - limited)
            limited.update(pools)
        missing = [
            entry for entry in replicated(config, found.registry)
            if entry.table not in loaded.tables
        ]  # fmt: skip
        gone = loaded.tables & {entry.table for entry in entries} - found.registry.tables
        topics = [entry.topic for entry in found.added]
        marks = services.log.watermarks(topics) if topics else {}
        events = [_observation(services, entry, marks.get(entry.topic)) for entry in found.added]
        changed = [*(str(entry.table) for entry in missing), *(f"without {each}" for each in gone)]
        said = reloads.ask(context, changed) if changed else _nothing_new(loaded)
        refusals = "".join(f" Not added: {error}" for error in found.refused)
        return dg.SensorResult(
            asset_events=events, skip_reason=said + refusals + _set_aside(config, found.registry)
        )

    return dg.SensorDefinition(
        name=named(config, "discover"),
        evaluation_fn=evaluate,
        minimum_interval_seconds=INTERVAL_SECONDS if loaded.tables else FIRST_SECONDS,
        default_status=sensor_status(config),
        description="Finds new topics, registers their tables and loads the definitions again.",
    )


def _limit(context: dg.SensorEvaluationContext, pools: Collection[str]) -> None:
    """Limits pools; a storage that refuses it holds no table up: two runs of one are only slower.

    It is tried again by the next process.
    """
    try:
        limit_pools(context.instance, pools)
    except Exception as error:  # of whatever storage the instance has
        names = ", ".join(sorted(pools))
        context.log.warning(f"Set the limit 1 by hand for {names}: {type(error).__name__}")


def _nothing_new(loaded: Registry) -> str:
    return f"No new topics; {len(loaded)} tables."


def _set_aside(config: ReplicationConfig, registry: Registry) -> str:
    others = [f"{each.topic} ({each.holds})" for each in not_tables(config, registry)]
    return f" Not tables: {', '.join(others)}." if others else ""


def _observation(
    services: Services, entry: TableEntry, marks: Watermarks | None
) -> dg.AssetObservation:
    records = sum(each.length for each in marks.begin.ranges_to(marks.end)) if marks else 0
    return dg.AssetObservation(
        topic_key(services.config, entry.topic),
        description=f"Topic of {entry.table} discovered",
        metadata={
            "table": str(entry.table),
            "asset": dg.MetadataValue.asset(table_key(services.config, entry)),
            "target": str(entry.target),
            "partitions": len(marks.end.offsets) if marks else 0,
            "offsets": records,
        },
    )
