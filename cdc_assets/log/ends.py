"""Looks up the ends of topics repeatedly, in few requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.log.kafka import KafkaLog

PARTITIONS_SECONDS: Final = 30.0
"""Seconds for which topics' partitions count as known: asking for them lists the whole cluster."""


class TopicEnds:
    """A reader of topics' ends: one request for all, with partitions looked up only now and then.

    Args:
        log: Kafka.
        clock: monotonic seconds.
    """

    def __init__(self, log: KafkaLog, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._partitions: dict[str, Sequence[int]] = {}
        self._known_at = 0.0
        self._asked: frozenset[str] = frozenset()

    def __call__(self, topics: Iterable[str]) -> dict[str, OffsetVector]:
        """Returns the read-committed end of each topic that exists.

        Raises:
            UnreachableError: if Kafka does not answer.
        """
        wanted, now = frozenset(topics), self._clock()
        if not wanted <= self._asked or now - self._known_at > PARTITIONS_SECONDS:
            self._partitions = dict(self._log.partitions(wanted))
            self._asked, self._known_at = wanted, now
        return self._log.ends({t: p for t, p in self._partitions.items() if t in wanted})
