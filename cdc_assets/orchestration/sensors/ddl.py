"""Defines the sensor `schema_changes`, which shows statements on their tables' assets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.ddl import DdlProgress, DdlReading, TableStatement, follow
from cdc_assets.operate.known_tables import replicated
from cdc_assets.operate.services import Services
from cdc_assets.orchestration.keys import named, table_key
from cdc_assets.orchestration.mount import sensor_status
from cdc_assets.orchestration.sensors.skipping import skipping_when_unreachable
from cdc_assets.registry import Registry

INTERVAL_SECONDS: Final = 30
_LONGEST: Final = 10_000


def ddl_sensor(config: ReplicationConfig, loaded: Registry) -> dg.SensorDefinition:
    """Returns the sensor that reads topics of schema changes and writes an observation for each."""
    services = Services(config)
    entries = replicated(config, loaded)

    @skipping_when_unreachable
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        followed = DdlProgress.of(context.cursor)
        reading = follow(services, entries, followed)
        return dg.SensorResult(
            asset_events=[observation(config, each) for each in reading.statements],
            cursor=followed.to_cursor(),
            skip_reason=" ".join(_summary(reading)),
        )

    return dg.SensorDefinition(
        name=named(config, "schema_changes"),
        evaluation_fn=evaluate,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=sensor_status(config),
        description="Shows statements that change replicated tables, where a source tells them.",
    )


def _summary(reading: DdlReading) -> Iterator[str]:
    where = f" in {', '.join(reading.topics)}" if reading.topics else ": no source tells of any"
    yield f"{len(reading.statements)} new statements{where}."
    for topic, count in reading.expired.items():
        yield f"{count} records of {topic} were deleted before they were read."
    if reading.unreadable:
        yield f"Not readable: {', '.join(map(str, reading.unreadable))}."


def observation(config: ReplicationConfig, found: TableStatement) -> dg.AssetObservation:
    """Returns a statement's observation for its table's asset."""
    ddl, at = found.ddl, found.ddl.at
    does = "; ".join(each.describe() for each in found.changes)
    hidden = "not shown: it names a column that is excluded or masked"
    return dg.AssetObservation(
        table_key(config, found.entry),
        description=f"{found.entry.table.qualified} at its source: {does}",
        metadata={
            "statement": dg.MetadataValue.text((found.text or hidden)[:_LONGEST]),
            "does": does,
            "plan": "\n".join(found.plan),
            "position": ddl.position,
            "topic": ddl.coordinate.topic,
            "partition": ddl.coordinate.partition,
            "offset": ddl.coordinate.offset,
            **({"executed": dg.MetadataValue.timestamp(at)} if at else {}),
        },
    )
