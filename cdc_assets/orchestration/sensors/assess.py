"""Defines the sensor `assess`: the check `assessed` of all tables, without runs.

Each part is asked once.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.known_tables import replicated
from cdc_assets.operate.plaintext import plaintext_logins
from cdc_assets.operate.services import Services
from cdc_assets.orchestration.assessing import look_now, verdicts
from cdc_assets.orchestration.keys import named
from cdc_assets.orchestration.mount import sensor_status
from cdc_assets.orchestration.sensors.skipping import skipping_when_unreachable
from cdc_assets.orchestration.sensors.slo import EventCursor, is_news
from cdc_assets.registry import Registry

REPEAT_AFTER: Final = timedelta(hours=6)


def assess_sensor(config: ReplicationConfig, loaded: Registry) -> dg.SensorDefinition:
    """Returns the sensor that assesses all tables, seldom; writes new outcomes, or after hours."""
    services = Services(config)
    entries = replicated(config, loaded)
    logins = list[str]()

    @skipping_when_unreachable
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        for each in plaintext_logins(config) if not logins else ():
            logins.append(str(each))  # once for each process
            context.log.warning(str(each))
        memory = EventCursor.of(context.cursor)
        found = look_now(services, entries)
        written = [
            verdict.evaluation()
            for verdict in verdicts(config, entries, found)
            if is_news(verdict, memory, found.at, repeat=REPEAT_AFTER)
        ]
        said = f"{len(written)} checks written for {len(entries)} tables, without a run"
        return dg.SensorResult(asset_events=written, cursor=memory.to_cursor(), skip_reason=said)

    return dg.SensorDefinition(
        name=named(config, "assess"),
        evaluation_fn=evaluate,
        minimum_interval_seconds=int(config.assess.every_minutes * 60),
        default_status=sensor_status(config),
        description="Tells of each table whether it can be replicated exactly, and what to do.",
    )
