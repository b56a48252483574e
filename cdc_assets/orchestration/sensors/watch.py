"""Defines the sensor `watch`, which posts each problem to the webhook once, and its recovery.

A receiver that is down is tried again at each tick, also with failed runs that the sensor `alerts`
could not post; it blocks nothing, as only this sensor waits for it.
"""

from __future__ import annotations

from typing import Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.alerts import AlertBook, tell
from cdc_assets.operate.numbers import read_numbers
from cdc_assets.operate.services import Clock, Services, utc_now
from cdc_assets.operate.unsent import Unsent
from cdc_assets.orchestration.keys import named
from cdc_assets.orchestration.sensors.skipping import skipping_when_unreachable
from cdc_assets.registry import Registry

INTERVAL_SECONDS: Final = 60


def watch_sensor(
    config: ReplicationConfig, loaded: Registry, clock: Clock = utc_now
) -> dg.SensorDefinition:
    """Returns the sensor that reads the numbers and posts news; without a webhook it does nothing.

    It reads the registry at each tick: a table that is not loaded yet may fail, too.
    """
    del loaded
    services = Services(config, clock)

    @skipping_when_unreachable
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        if config.alerts.webhook is None:
            return dg.SensorResult(skip_reason="alerts.webhook is not configured")
        runs = Unsent.beside(config.registry).send(config.alerts)
        told = tell(read_numbers(services), config.alerts, AlertBook.beside(config.registry))
        sent = [f"run {each}" for each in runs.names]
        said = "; ".join([*sent, *(f"{each.id} {each.change}" for each in told.sent)])
        problem = told.problem or runs.problem
        if problem:
            context.log.warning(problem)
        words = (f"sent {said}" if said else "", problem and f"not sent: {problem}")
        return dg.SensorResult(skip_reason="; ".join(filter(None, words)) or "nothing new")

    return dg.SensorDefinition(
        name=named(config, "watch"),
        evaluation_fn=evaluate,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Posts what is wrong to `alerts.webhook`, once, and its recovery.",
    )
