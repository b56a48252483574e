"""Conditions are looked at by a sensor, which is stopped unless somebody says otherwise."""

import dagster as dg

conditions = dg.AutomationConditionSensorDefinition(
    "conditions",
    target=dg.AssetSelection.kind("dbt"),
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=5,
)
