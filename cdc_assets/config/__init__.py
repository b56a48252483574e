"""The configuration file as one strict, frozen tree, see docs/reference/configuration.md."""

from cdc_assets.config.load import CONFIG_VARIABLE, DEFAULT_FILE, load_config, parse_config
from cdc_assets.config.model import ReplicationConfig
from cdc_assets.config.platform import LakeConfig
from cdc_assets.config.secret import Secret
from cdc_assets.config.source import SourceConfig

__all__ = [
    "CONFIG_VARIABLE",
    "DEFAULT_FILE",
    "LakeConfig",
    "ReplicationConfig",
    "Secret",
    "SourceConfig",
    "load_config",
    "parse_config",
]
