"""The sensors: what is new, due, altered at the source, and failing; what becomes of the SLO."""

from cdc_assets.orchestration.sensors.alerts import alert_sensor
from cdc_assets.orchestration.sensors.ddl import ddl_sensor
from cdc_assets.orchestration.sensors.discover import discover_sensor
from cdc_assets.orchestration.sensors.promise import promise_sensor
from cdc_assets.orchestration.sensors.replicate import replicate_sensor

__all__ = ["alert_sensor", "ddl_sensor", "discover_sensor", "promise_sensor", "replicate_sensor"]
