"""Collects the ends of topics after deliveries, from which batches prove what a table has."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

from cdc_assets.changes.valid_through import Witness
from cdc_assets.log.deliveries import Deliveries
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.registry import TableEntry

KEPT: Final = 16
"""Number kept of each topic. A batch that ends between transactions seldom reaches the newest."""


class Witnesses:
    """Witnesses collected as batches are planned, for one request to Kafka per new delivery.

    All mergers of one configuration's tables share one object, because a table's next batch needs
    the witnesses of the batch before. May be used by several threads.
    """

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries
        self._lock = threading.Lock()
        self._kept: dict[str, deque[Witness]] = {}

    def of(self, entry: TableEntry, log: KafkaLog) -> tuple[Witness, ...]:
        """Returns the witnesses of a table's topic, the newest last.

        Raises:
            UnreachableError: if Kafka does not answer.
        """
        found = self._deliveries.known(entry)
        with self._lock:
            kept = self._kept.setdefault(entry.topic, deque(maxlen=KEPT))
            known = tuple(kept)
        if found is None or (known and known[-1].through >= found.through):
            return known
        ends = log.high_watermarks([entry.topic])
        if entry.topic not in ends:
            return known
        witness = Witness(found.through, ends[entry.topic])
        with self._lock:
            kept.append(witness)
        return (*known, witness)
