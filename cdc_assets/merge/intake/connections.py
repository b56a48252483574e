"""Opens the connections to the log and the lake that the tables of one configuration share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.config import ReplicationConfig
from cdc_assets.formats.histories import Histories
from cdc_assets.lake import Lake
from cdc_assets.log.deliveries import Deliveries
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.merge.intake.witnesses import Witnesses
from cdc_assets.registry import TableEntry

Register = Callable[[TableEntry, Sequence[str], int], None]
"""Registers other tables that the records of a table's batch name (``schema.table``); the number is
that of their changes. It may raise a `CdcError`."""


class Boundaries(Protocol):
    """The boundaries at which tables of a source wait until all of them are there."""

    def of(self, entry: TableEntry, committed: OffsetVector) -> OffsetVector | None:
        """Returns the next-to-read offsets that a table must not pass now; None for no boundary.

        Args:
            entry: the table.
            committed: its next-to-read offsets.
        """
        ...


@dataclass(frozen=True, slots=True)
class Connections:
    """Connections to the log and the lake, with what was read from them.

    Attributes:
        log: Kafka.
        lake: the catalog, and tables' metadata.
        histories: read from topics of statements.
        witnesses: for what batches may prove; None to prove nothing.
        boundaries: at which tables wait for each other; None for none.
        register: called before a batch is published, as no later batch names its tables again;
            None to leave them to the caller.
    """

    log: KafkaLog
    lake: Lake
    histories: Histories
    witnesses: Witnesses | None = None
    boundaries: Boundaries | None = None
    register: Register | None = None

    @classmethod
    def of(
        cls, config: ReplicationConfig, log: KafkaLog | None = None, lake: Lake | None = None
    ) -> Connections:
        """Returns connections over a log and a lake; each opened at its first use if None."""
        log = log or KafkaLog(config.kafka.librdkafka, largest=config.max_record_bytes)
        return cls(log, lake or Lake(config), Histories(log), Witnesses(Deliveries(config)))
