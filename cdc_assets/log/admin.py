"""Asks Kafka's brokers: the client, its requests, and their errors as this package's.

Asks for offsets of many partitions, and waits for those that are without a leader.

Distinguishes a refused connection, which is an answer, from a slow broker.

The client keeps connecting until a call's time-out, whatever the attempts' results. The first
request of a client is therefore watched, and given up early if every known broker turns the client
away (closed port, unknown name, failed login) for `TURNED_AWAY_SECONDS`: long enough for a broker
that starts a moment later. Silence gets the whole time-out, and so does a cluster of which one
broker may still answer.
"""

from __future__ import annotations

# librdkafka spells the codes of its own errors with a leading underscore.
# ruff: noqa: SLF001
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    OffsetSpec,  # pyright: ignore[reportPrivateImportUsage]
)
from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_delay, wait_fixed

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.effects import effect
from cdc_assets.errors import CdcError, LoginRefusedError
from cdc_assets.log.errors import of_partition, place_of, translate
from cdc_assets.log.reader import Place
from cdc_assets.log.settings import TopicSettings, read_settings
from cdc_assets.log.values import TopicIdentity


class Admin:
    """A client for requests to brokers, made once the first is sent.

    Args:
        conf: returns the client's properties, secrets revealed; called again after a refused login.
        timeout_seconds: for each request as a whole.

    Every method raises what those of `cdc_assets.log.kafka.KafkaLog` do.
    """

    def __init__(self, conf: Callable[[], Mapping[str, Any]], timeout_seconds: float) -> None:
        self._conf = conf
        self._servers = place_of(conf())
        self._timeout = timeout_seconds
        self._attempts = ConnectAttempts()
        self._client: AdminClient | None = None
        self._asking = OffsetRequests(self.client, timeout_seconds)

    def partitions(self, topics: Iterable[str] | None) -> dict[str, list[int]]:
        """Returns the partitions of existing topics (None: of all topics)."""
        try:
            with effect("kafka: topics"):
                listed = self.client().list_topics(timeout=self._timeout).topics
        except KafkaException as error:
            raise self._translated(error) from error
        wanted = set(listed) if topics is None else set(topics) & set(listed)
        return {topic: sorted(listed[topic].partitions) for topic in sorted(wanted)}

    def offsets(
        self,
        partitions: Mapping[str, Sequence[int]],
        specs: Sequence[OffsetSpec],
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> list[dict[str, OffsetVector]]:
        """Returns the offsets that each spec finds in all of these partitions."""
        answers = self.answers(partitions, specs, isolation)
        for place, error in answers.leaderless.items():
            raise of_partition(error, *place)
        return [
            {t: OffsetVector.of(offsets) for t, offsets in each.items()} for each in answers.offsets
        ]

    def answers(
        self,
        partitions: Mapping[str, Sequence[int]],
        specs: Sequence[OffsetSpec],
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> OffsetAnswers:
        """Returns likewise, with the partitions that have no leader."""
        try:
            return self._asking.ask(partitions, specs, isolation)
        except KafkaException as error:
            raise self._translated(error) from error

    def identity(self, topics: Iterable[str]) -> dict[str, TopicIdentity]:
        """Returns cluster id and topic id of each topic: two requests."""
        wanted = sorted(set(topics))
        if not wanted:
            return {}
        described = self.client().describe_topics(
            TopicCollection(wanted), request_timeout=self._timeout
        )
        cluster_id = self.cluster_id()
        found = {topic: self._unless_missing(future) for topic, future in described.items()}
        return {
            topic: TopicIdentity(cluster_id, str(description.topic_id))
            for topic, description in found.items()
            if description is not None
        }

    def cluster_id(self) -> str:
        """Returns the id of the cluster: one request."""
        cluster = self.client().describe_cluster(request_timeout=self._timeout)
        return str(self._result(cluster).cluster_id)

    def settings(self, topics: Iterable[str]) -> dict[str, TopicSettings | None]:
        """Returns topics' settings; None for topics whose settings may not be read."""
        try:
            with effect("kafka: settings"):
                return read_settings(self.client(), topics, self._timeout)
        except KafkaException as error:
            raise self._translated(error) from error

    def client(self) -> AdminClient:
        """Returns the client, once a broker has answered it."""
        try:
            if self._client is None:
                conf: dict[str, Any] = {**self._conf(), "error_cb": self._attempts.report}
                self._client = AdminClient(conf)
            reach(self._client, self._attempts, self._timeout)
        except KafkaException as error:
            raise self._translated(error) from error
        return self._client

    def _result(self, future: Any) -> Any:
        try:
            with effect("kafka: identity"):
                return future.result()
        except KafkaException as error:
            raise self._translated(error) from error

    def _unless_missing(self, future: Any) -> Any:
        try:
            return future.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise self._translated(error) from error

    def _translated(self, error: KafkaException) -> CdcError:
        problem = translate(error, self._servers, self._attempts.last)
        if isinstance(problem, LoginRefusedError):  # this client would show the same login again
            self._client, self._attempts = None, ConnectAttempts()
        return problem


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
class OffsetAnswers:
    """The answers, one for each question, and the errors of partitions that have no leader.

    Those partitions are absent from an answer.
    """

    offsets: Sequence[Offsets]
    leaderless: Mapping[Place, KafkaException]


class OffsetRequests:
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
    ) -> OffsetAnswers:
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
        answers = asking(lambda: _ask(self._admin(), partitions, specs, isolation, self._timeout))
        places = {(topic, number) for topic, numbers in partitions.items() for number in numbers}
        self._in_vain = (self._in_vain - places) | answers.leaderless.keys()
        return answers

    def _is_worth_a_wait(self, answers: OffsetAnswers) -> bool:
        return not answers.leaderless.keys() <= self._in_vain


def _ask(
    client: AdminClient,
    partitions: Mapping[str, Sequence[int]],
    specs: Sequence[OffsetSpec],
    isolation: IsolationLevel,
    timeout_seconds: float,
) -> OffsetAnswers:
    """Asks once, with all requests in flight at the same time."""
    places = [(topic, number) for topic, numbers in partitions.items() for number in numbers]
    if not places:
        return OffsetAnswers([{} for _ in specs], {})
    requests = [
        client.list_offsets(
            {TopicPartition(*place): spec for place in places},
            isolation_level=isolation,
            request_timeout=timeout_seconds,
        )
        for spec in specs
    ]
    leaderless: dict[Place, KafkaException] = {}
    with effect("kafka: offsets"):
        return OffsetAnswers(
            [_offsets(partitions, each, leaderless) for each in requests], leaderless
        )


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


TURNED_AWAY_SECONDS: Final = 1.5
_LOOK_SECONDS: Final = 0.2
_NO_ANSWER: Final = (KafkaError._TRANSPORT, KafkaError._TIMED_OUT)


@dataclass(slots=True)
class ConnectAttempts:
    """The results of one client's attempts to connect, as the client reports them.

    Attributes:
        last: the newest error of a single broker, which is more precise than that all are down.
        failed: number of errors.
        all_down: whether the client has reported that every broker it knows is down. It reports
            this once, and does not report when one is up again.
        connected: whether a request was answered, with nothing to the contrary since.
    """

    last: KafkaError | None = None
    failed: int = 0
    all_down: bool = False
    connected: bool = False

    def report(self, error: KafkaError) -> None:
        """Records an error; the client's ``error_cb``."""
        self.failed += 1
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.all_down, self.connected = True, False
        else:
            self.last = error

    def answered(self) -> None:
        """Records an answer."""
        self.last, self.all_down, self.connected = None, False, True


def reach(client: AdminClient, attempts: ConnectAttempts, timeout_seconds: float) -> None:
    """Waits until a broker answers, unless one did without errors since: one small request.

    Raises:
        KafkaException: after the time-out, or early if every broker turns the client away.
    """
    client.poll(0)  # delivers the errors since the last request
    if attempts.connected:
        return
    try:
        answer = client.describe_cluster(request_timeout=timeout_seconds)
        _wait(attempts, answer, client, timeout_seconds)
    except KafkaException as error:
        if _code(error) in _NO_ANSWER:
            raise  # any other error is an answer, if only to this request
    client.poll(0)
    attempts.answered()


def _wait(
    attempts: ConnectAttempts, answer: Any, client: AdminClient, timeout_seconds: float
) -> None:
    """Waits for the answer. A client without a token does not heed its own time-out."""
    give_up_at = time.monotonic() + TURNED_AWAY_SECONDS
    ends_at = time.monotonic() + timeout_seconds + 2 * _LOOK_SECONDS
    failed = attempts.failed
    while True:
        try:
            answer.result(timeout=_LOOK_SECONDS)
        except TimeoutError:
            client.poll(0)
            if time.monotonic() >= ends_at:
                raise KafkaException(attempts.last or KafkaError(KafkaError._TIMED_OUT)) from None
            if not attempts.all_down or attempts.failed == failed:
                give_up_at = time.monotonic() + TURNED_AWAY_SECONDS
            elif time.monotonic() >= give_up_at:
                raise KafkaException(attempts.last or KafkaError(KafkaError._TRANSPORT)) from None
            failed = attempts.failed
        else:
            return


def _code(error: KafkaException) -> int | None:
    cause = error.args[0] if error.args else None
    return cause.code() if isinstance(cause, KafkaError) else None
