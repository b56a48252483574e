"""A broker's answers about offsets, given by a client that connects to none."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from cdc_assets.log.admin import Admin


@dataclass
class Broker:
    """Topics of two partitions, of which the first holds this many records, all new.

    Attributes:
        topics: the number of records in each.
        leaderless: topics whose second partition has no leader.
        asked: how often offsets were asked for.
    """

    topics: Mapping[str, int]
    leaderless: Collection[str] = ()
    asked: int = field(default=0)

    def answer_for(self, patch: pytest.MonkeyPatch) -> None:
        """Be what every client connects to."""
        patch.setattr(Admin, "client", lambda _: self)

    def list_topics(self, timeout: float) -> Any:
        assert timeout > 0
        partitions = {0: SimpleNamespace(), 1: SimpleNamespace()}
        return SimpleNamespace(
            topics={name: SimpleNamespace(partitions=partitions) for name in self.topics}
        )

    def list_offsets(self, asked: Mapping[TopicPartition, OffsetSpec], **_: Any) -> Any:
        self.asked += 1
        return {place: self._offset(place, spec) for place, spec in asked.items()}

    def _offset(self, place: TopicPartition, spec: OffsetSpec) -> Future[Any]:
        answer: Future[Any] = Future()
        if place.topic in self.leaderless and place.partition == 1:
            answer.set_exception(KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE)))
        else:
            at_end = spec is OffsetSpec.latest() and place.partition == 0
            answer.set_result(SimpleNamespace(offset=self.topics[place.topic] if at_end else 0))
        return answer
