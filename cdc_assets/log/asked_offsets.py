"""Asks for offsets of many partitions, and waits for those that are without a leader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    OffsetSpec,  # pyright: ignore[reportPrivateImportUsage]
)
from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_delay, wait_fixed

from cdc_assets.effects import effect
from cdc_assets.log.reader import Place

_LEADER_WAIT_SECONDS: Final = 0.1
_BETWEEN_LEADERS: Final = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
)

Offsets = Mapping[str, Mapping[int, int]]
"""By topic and partition."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The answers, one for each question, and the errors of partitions that have no leader.

    Those partitions are absent from an answer.
    """

    offsets: Sequence[Offsets]
    leaderless: Mapping[Place, KafkaException]


class Asking:
    """Asks for offsets, and waits for leaders.

    A partition may briefly have no leader, when its topic was just made or its broker restarts.
    One that is waited for in vain is not waited for again until it has had a leader: whoever asks
    every few seconds would wait each time. Threads may share it.

    Args:
        admin: returns the client.
        timeout_seconds: for a request, and about the longest wait.
    """

    def __init__(self, admin: Callable[[], AdminClient], timeout_seconds: float) -> None:
        self._admin = admin
        self._timeout = timeout_seconds
        self._in_vain: frozenset[Place] = frozenset()

    def ask(
        self,
        partitions: Mapping[str, Sequence[int]],
        specs: Sequence[OffsetSpec],
        isolation: IsolationLevel,
    ) -> Asked:
        """Asks for the offsets that each spec finds in these partitions of topics.

        Raises:
            KafkaException: if Kafka does not answer, or a partition has another error.
        """
        asking = Retrying(
            retry=retry_if_result(self._is_worth_a_wait),
            stop=stop_after_delay(self._timeout),
            wait=wait_fixed(_LEADER_WAIT_SECONDS),
            retry_error_callback=_last_answer,
        )
        asked = asking(lambda: _ask(self._admin(), partitions, specs, isolation, self._timeout))
        places = {(topic, number) for topic, numbers in partitions.items() for number in numbers}
        self._in_vain = (self._in_vain - places) | asked.leaderless.keys()
        return asked

    def _is_worth_a_wait(self, asked: Asked) -> bool:
        return not asked.leaderless.keys() <= self._in_vain


def _ask(
    client: AdminClient,
    partitions: Mapping[str, Sequence[int]],
    specs: Sequence[OffsetSpec],
    isolation: IsolationLevel,
    timeout_seconds: float,
) -> Asked:
    """Asks once, with all requests in flight at the same time."""
    places = [(topic, number) for topic, numbers in partitions.items() for number in numbers]
    if not places:
        return Asked([{} for _ in specs], {})
    asked = [
        client.list_offsets(
            {TopicPartition(*place): spec for place in places},
            isolation_level=isolation,
            request_timeout=timeout_seconds,
        )
        for spec in specs
    ]
    leaderless: dict[Place, KafkaException] = {}
    with effect("kafka: offsets"):
        return Asked([_offsets(partitions, each, leaderless) for each in asked], leaderless)


def _offsets(
    partitions: Mapping[str, Sequence[int]],
    futures: Mapping[TopicPartition, Any],
    leaderless: dict[Place, KafkaException],
) -> Offsets:
    """Returns the offsets in an answer; adds the partitions that have no leader to the others."""
    offsets: dict[str, dict[int, int]] = {topic: {} for topic in partitions}
    for place, future in futures.items():
        try:
            offsets[place.topic][place.partition] = future.result().offset
        except KafkaException as error:
            if not _is_between_leaders(error):
                raise
            leaderless[place.topic, place.partition] = error
    return offsets


def _is_between_leaders(error: KafkaException) -> bool:
    cause = error.args[0] if error.args else None
    return isinstance(cause, KafkaError) and cause.code() in _BETWEEN_LEADERS


def _last_answer(state: RetryCallState) -> Any:
    """Returns the answer to the last attempt, or raises its error."""
    return state.outcome.result() if state.outcome else None
