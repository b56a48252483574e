"""Defines the sensors for new, due, altered, unmaintained and failing tables, and for the SLO."""

from cdc_assets.orchestration.sensors.alerts import alert_sensor
from cdc_assets.orchestration.sensors.assess import assess_sensor
from cdc_assets.orchestration.sensors.ddl import ddl_sensor
from cdc_assets.orchestration.sensors.discover import discover_sensor
from cdc_assets.orchestration.sensors.maintain import maintain_sensor
from cdc_assets.orchestration.sensors.replicate import replicate_sensor
from cdc_assets.orchestration.sensors.slo import slo_sensor
from cdc_assets.orchestration.sensors.watch import watch_sensor

__all__ = [
    "alert_sensor",
    "assess_sensor",
    "ddl_sensor",
    "discover_sensor",
    "maintain_sensor",
    "replicate_sensor",
    "slo_sensor",
    "watch_sensor",
]
