"""Opens the connections to the log and the lake that the tables of one configuration share."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets.config import ReplicationConfig
from cdc_assets.formats.histories import Histories
from cdc_assets.lake import Lake
from cdc_assets.log.deliveries import Deliveries
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.merge.intake.witnesses import Witnesses


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
    def of(cls, config: ReplicationConfig) -> Connections:
        """Returns new ones, opened when they are first used."""
        log = KafkaLog(config.kafka.librdkafka, largest=config.max_record_bytes)
        return cls(log, Lake(config), Histories(log), Witnesses(Deliveries(config)))
