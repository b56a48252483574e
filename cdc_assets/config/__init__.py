"""The configuration file as one strict, frozen tree, see docs/reference/configuration.md."""

from cdc_assets.config.batch import BatchConfig, SloConfig
from cdc_assets.config.connector import ConnectorConfig
from cdc_assets.config.database import DatabaseConfig
from cdc_assets.config.kafka import KafkaConfig
from cdc_assets.config.load import CONFIG_VARIABLE, DEFAULT_FILE, load_config, parse_config
from cdc_assets.config.model import ReplicationConfig
from cdc_assets.config.platform import (
    AlertsConfig,
    CatalogConfig,
    LakeConfig,
    Ports,
    RunsConfig,
    SparkConfig,
    StackConfig,
)
from cdc_assets.config.secret import Secret, reveal
from cdc_assets.config.source import SourceConfig
from cdc_assets.config.table import TableOverrides
from cdc_assets.config.topics import TargetConfig, TopicsConfig

__all__ = [
    "CONFIG_VARIABLE",
    "DEFAULT_FILE",
    "AlertsConfig",
    "BatchConfig",
    "CatalogConfig",
    "ConnectorConfig",
    "DatabaseConfig",
    "KafkaConfig",
    "LakeConfig",
    "Ports",
    "ReplicationConfig",
    "RunsConfig",
    "Secret",
    "SloConfig",
    "SourceConfig",
    "SparkConfig",
    "StackConfig",
    "TableOverrides",
    "TargetConfig",
    "TopicsConfig",
    "load_config",
    "parse_config",
    "reveal",
]
