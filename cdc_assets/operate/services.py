"""Connects to the parts that a replication talks to, each at its first use."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.desired import DesiredBook
from cdc_assets.operate.failure_book import FailureBook
from cdc_assets.registry import RegistryFile

if TYPE_CHECKING:
    from cdc_assets.formats.format import Format
    from cdc_assets.lake import Lake
    from cdc_assets.log.deliveries import Deliveries
    from cdc_assets.log.kafka import KafkaLog
    from cdc_assets.operate.connectors import Connects
    from cdc_assets.operate.contiguity import Contiguities
    from cdc_assets.operate.parts import Parts
    from cdc_assets.operate.seen_states import StateBook


Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Returns the wall clock's time, aware."""
    return datetime.now(UTC)


class Services:
    """Kafka, the lake, the registry, failures and directives of one configuration.

    Creating one touches no network. A part that could not be reached is tried again at its next
    use. One instance serves one thread at a time.

    Attributes:
        with_rows: tables that were once seen to have rows in the lake.
    """

    def __init__(self, config: ReplicationConfig, clock: Clock = utc_now) -> None:
        self.config = config
        self.clock = clock
        self.with_rows = set[TableName]()

    @cached_property
    def log(self) -> KafkaLog:
        """Kafka."""
        from cdc_assets.log.kafka import KafkaLog

        return KafkaLog(self.config.kafka.librdkafka, largest=self.config.max_record_bytes)

    @cached_property
    def formats(self) -> dict[str, Format]:
        """The format of each source."""
        from cdc_assets.formats.registered import formats_of

        return formats_of(self.config)

    @cached_property
    def lake(self) -> Lake:
        """The Iceberg catalog."""
        from cdc_assets.lake import Lake

        return Lake(self.config)

    @cached_property
    def contiguities(self) -> Contiguities:
        """The comparisons of tables' publishes."""
        from cdc_assets.operate.contiguity import Contiguities

        return Contiguities(self.lake)

    @cached_property
    def parts(self) -> Parts:
        """The parts that a survey does without."""
        from cdc_assets.operate.parts import Parts

        return Parts(self.config, lambda: self.lake)

    @cached_property
    def registry(self) -> RegistryFile:
        """The discovered tables."""
        return RegistryFile(self.config.registry)

    @cached_property
    def connects(self) -> Connects:
        """The sources' Kafka Connects."""
        from cdc_assets.operate.connectors import Connects

        return Connects(self.config)

    @cached_property
    def deliveries(self) -> Deliveries:
        """The delivered parts of the sources."""
        from cdc_assets.log.deliveries import Deliveries

        return Deliveries(self.config)

    @cached_property
    def failures(self) -> FailureBook:
        """The tables that fail."""
        return FailureBook.of_registry(self.config.registry)

    @cached_property
    def desired(self) -> DesiredBook:
        """People's directives for tables."""
        return DesiredBook.of_registry(self.config.registry)

    @cached_property
    def states(self) -> StateBook:
        """The tables' states as last seen, and when they began."""
        from cdc_assets.operate.seen_states import StateBook

        return StateBook.of_registry(self.config.registry)
