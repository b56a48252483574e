"""The local stack as a configuration file describes it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from cdc_assets.config import ReplicationConfig
from cdc_assets.devstack.layout import Ports, StackLayout
from cdc_assets.devstack.spark_server import SparkEndpoint, ensure_spark
from cdc_assets.devstack.stack import LocalStack


def layout_of(config: ReplicationConfig) -> StackLayout:
    """Its paths and ports."""
    return StackLayout(config.home, Ports.of(config.stack.ports.model_dump()), config=config.path)


def spark_settings(config: ReplicationConfig) -> dict[str, str]:
    """What its Spark server is started with: the lake's catalog and the settings of ``spark``."""
    from cdc_assets.lake.spark_conf import spark_conf

    return {**spark_conf(config), **config.spark.resolved_conf()}


def make_lake_folders(config: ReplicationConfig) -> None:
    """The folders of a lake on this machine: neither SQLite nor Hadoop makes its own parents."""
    catalog, warehouse = config.lake.catalog.uri, urlsplit(config.lake.warehouse)
    if isinstance(catalog, str) and catalog.startswith("sqlite:////"):
        Path(catalog.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    if warehouse.scheme == "file":
        Path(unquote(warehouse.path)).mkdir(parents=True, exist_ok=True)


def stack_of(config: ReplicationConfig, layout: StackLayout | None = None) -> LocalStack:
    """The stack, in another place if one is given."""
    make_lake_folders(config)
    return LocalStack(
        layout or layout_of(config),
        spark_conf=spark_settings(config),
        spark_memory=config.spark.memory,
    )


def spark_of(config: ReplicationConfig) -> SparkEndpoint:
    """Its Spark server, started unless it runs."""
    make_lake_folders(config)
    return ensure_spark(layout_of(config), spark_settings(config), config.spark.memory)
