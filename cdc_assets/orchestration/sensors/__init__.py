"""The four sensors: what is new, what is due, whether the promise holds, what failed."""

from cdc_assets.orchestration.sensors.alerts import alert_sensor
from cdc_assets.orchestration.sensors.discover import discover_sensor
from cdc_assets.orchestration.sensors.promise import promise_sensor
from cdc_assets.orchestration.sensors.replicate import replicate_sensor

__all__ = ["alert_sensor", "discover_sensor", "promise_sensor", "replicate_sensor"]
