"""The local stack as a configuration file describes it."""

from __future__ import annotations

from cdc_assets.config import ReplicationConfig
from cdc_assets.devstack.layout import Ports, StackLayout
from cdc_assets.devstack.spark_server import SparkEndpoint, ensure_spark
from cdc_assets.devstack.stack import LocalStack


def layout_of(config: ReplicationConfig) -> StackLayout:
    """Its paths and ports."""
    return StackLayout(config.home, Ports.of(config.stack.ports.model_dump()))


def spark_settings(config: ReplicationConfig) -> dict[str, str]:
    """What its Spark server is started with: the lake's catalog and the settings of ``spark``."""
    from cdc_assets.lake.catalog import spark_conf

    return {**spark_conf(config), **config.spark.resolved_conf()}


def stack_of(config: ReplicationConfig, layout: StackLayout | None = None) -> LocalStack:
    """The stack, in another place if one is given."""
    return LocalStack(
        layout or layout_of(config),
        spark_conf=spark_settings(config),
        spark_memory=config.spark.memory,
    )


def spark_of(config: ReplicationConfig) -> SparkEndpoint:
    """Its Spark server, started unless it runs."""
    return ensure_spark(layout_of(config), spark_settings(config), config.spark.memory)
