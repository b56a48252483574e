"""The parts that a replication talks to, connected when they are first used."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.failures import FailureBook
from cdc_assets.registry import RegistryFile

if TYPE_CHECKING:
    from cdc_assets.lake import Lake
    from cdc_assets.log.kafka import KafkaLog

FILES: Final = "py-io-impl"
LIGHT_FILES: Final = "pyiceberg.io.fsspec.FsspecFileIO"

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The wall clock, aware."""
    return datetime.now(UTC)


class Services:
    """Kafka, the lake, the registry and the failures of one configuration.

    Making one touches no network. A part that could not be reached is tried anew at its
    next use. One instance serves one thread at a time.
    """

    def __init__(self, config: ReplicationConfig, clock: Clock = utc_now) -> None:
        self.config = config
        self.clock = clock

    @cached_property
    def log(self) -> KafkaLog:
        """Kafka."""
        from cdc_assets.log.kafka import KafkaLog

        return KafkaLog(self.config.kafka.librdkafka())

    @cached_property
    def lake(self) -> Lake:
        """The Iceberg catalog."""
        from cdc_assets.lake import Lake

        return Lake(_with_light_files(self.config))

    @cached_property
    def registry(self) -> RegistryFile:
        """The discovered tables."""
        return RegistryFile(self.config.registry)

    @cached_property
    def failures(self) -> FailureBook:
        """The tables that fail."""
        return FailureBook.beside(self.config.registry)


def _with_light_files(config: ReplicationConfig) -> ReplicationConfig:
    """Let PyIceberg read a local warehouse without pyarrow, whose import brings all of pandas.

    That is 2 s of the 2.5 s that a first look at a table takes, and we read metadata only.
    """
    catalog = config.lake.catalog
    if not config.lake.warehouse.startswith("file:") or FILES in catalog.properties:
        return config
    light = catalog.model_copy(update={"properties": {**catalog.properties, FILES: LIGHT_FILES}})
    return config.model_copy(update={"lake": config.lake.model_copy(update={"catalog": light})})
