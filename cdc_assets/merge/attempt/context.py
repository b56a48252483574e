"""Bundles what every try of one configuration's tables works with.

Opens the connections to the log and the lake that the tables of one configuration share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession

from cdc_assets.config import ReplicationConfig, SourceConfig
from cdc_assets.formats.histories import Histories
from cdc_assets.lake import Lake
from cdc_assets.log.deliveries import Deliveries
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.merge.intake.planning import Planner
from cdc_assets.merge.intake.witnesses import Witnesses
from cdc_assets.registry import TableEntry


@dataclass(frozen=True, slots=True)
class Connections:
    """Connections to the log and the lake, with what was read from them.

    Attributes:
        log: Kafka.
        lake: the catalog, and tables' metadata.
        histories: read from topics of statements.
        witnesses: for what batches may prove; None to prove nothing.
    """

    log: KafkaLog
    lake: Lake
    histories: Histories
    witnesses: Witnesses | None = None

    @classmethod
    def of(
        cls, config: ReplicationConfig, log: KafkaLog | None = None, lake: Lake | None = None
    ) -> Connections:
        """Returns connections over a log and a lake; each opened at its first use if None."""
        log = log or KafkaLog(config.kafka.librdkafka, largest=config.max_record_bytes)
        return cls(log, lake or Lake(config), Histories(log), Witnesses(Deliveries(config)))


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """The means of tries.

    Attributes:
        config: the configuration.
        connections: to the log and the lake.
        planner: of batches, over these connections.
        session: returns the Spark session, prepared.
        clock: wall clock, aware.
    """

    config: ReplicationConfig
    connections: Connections
    planner: Planner
    session: Callable[[], SparkSession]
    clock: Callable[[], datetime]

    @property
    def catalog(self) -> str:
        """Name of the lake's catalog."""
        return self.config.lake.catalog.name

    def source(self, entry: TableEntry) -> SourceConfig:
        """Returns the source of a table."""
        return self.config.source(entry.table.source)
