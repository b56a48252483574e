"""Builds the local stack that a configuration file describes."""

from __future__ import annotations

from pathlib import Path

from cdc_assets.config import ReplicationConfig
from cdc_assets.files import files_at
from cdc_assets_devstack.layout import Ports, StackLayout
from cdc_assets_devstack.spark_server import SparkEndpoint, ensure_spark
from cdc_assets_devstack.stack import LocalStack


def layout_of(config: ReplicationConfig) -> StackLayout:
    """Returns a configuration's paths and ports."""
    return StackLayout(config.home, Ports.of(config.stack.ports.model_dump()), config=config.path)


def spark_settings(config: ReplicationConfig) -> dict[str, str]:
    """Returns the Spark server's settings: the lake's catalog and those of ``spark``."""
    from cdc_assets.lake.spark_conf import spark_conf

    return {**spark_conf(config), **config.spark.resolved_conf()}


def make_lake_folders(config: ReplicationConfig) -> None:
    """Creates the folders of a lake on this machine: SQLite and Hadoop do not create them."""
    catalog, warehouse = config.lake.catalog.uri, config.lake.warehouse
    if isinstance(catalog, str) and catalog.startswith("sqlite:////"):
        Path(catalog.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    if warehouse.startswith("file:"):
        _, path = files_at(warehouse)
        Path(path).mkdir(parents=True, exist_ok=True)


def stack_of(config: ReplicationConfig, layout: StackLayout | None = None) -> LocalStack:
    """Returns the stack, with another layout if one is given."""
    make_lake_folders(config)
    return LocalStack(
        layout or layout_of(config),
        spark_conf=spark_settings(config),
        spark_memory=config.spark.memory,
    )


def spark_of(config: ReplicationConfig) -> SparkEndpoint:
    """Returns the endpoint of the Spark server; starts it unless it runs."""
    make_lake_folders(config)
    return ensure_spark(layout_of(config), spark_settings(config), config.spark.memory)
