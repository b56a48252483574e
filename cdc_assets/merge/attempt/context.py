"""Bundles what every try of one configuration's tables works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession

from cdc_assets.config import ReplicationConfig, SourceConfig
from cdc_assets.merge.intake.connections import Connections
from cdc_assets.merge.intake.planning import Planner
from cdc_assets.registry import TableEntry


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
