"""Asks Kafka's brokers: the client, its requests, and their errors as this package's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    OffsetSpec,  # pyright: ignore[reportPrivateImportUsage]
)

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.retention import Retention
from cdc_assets.effects import effect
from cdc_assets.errors import CdcError, LoginRefusedError
from cdc_assets.log.asked_offsets import Asked, Asking
from cdc_assets.log.errors import of_partition, translate
from cdc_assets.log.kept import retention_of
from cdc_assets.log.reaching import Attempts, reach
from cdc_assets.log.settings import TopicSettings, read_settings
from cdc_assets.log.values import TopicIdentity

_UNTOLD: Final = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)


class Admin:
    """A client for requests to brokers, made once the first is sent.

    Args:
        conf: returns the client's properties, secrets revealed; called again after a refused login.
        timeout_seconds: for each request as a whole.

    Every method raises what those of `cdc_assets.log.kafka.KafkaLog` do.
    """

    def __init__(self, conf: Callable[[], Mapping[str, str]], timeout_seconds: float) -> None:
        self._conf = conf
        self._servers = conf()["bootstrap.servers"]
        self._timeout = timeout_seconds
        self._attempts = Attempts()
        self._client: AdminClient | None = None
        self._asking = Asking(self.client, timeout_seconds)

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
        asked = self.asked(partitions, specs, isolation)
        for place, error in asked.leaderless.items():
            raise of_partition(error, *place)
        return [
            {t: OffsetVector.of(offsets) for t, offsets in each.items()} for each in asked.offsets
        ]

    def asked(
        self,
        partitions: Mapping[str, Sequence[int]],
        specs: Sequence[OffsetSpec],
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> Asked:
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
        cluster = self.client().describe_cluster(request_timeout=self._timeout)
        described = self.client().describe_topics(
            TopicCollection(wanted), request_timeout=self._timeout
        )
        cluster_id = str(self._result(cluster).cluster_id)
        found = {topic: self._unless_missing(future) for topic, future in described.items()}
        return {
            topic: TopicIdentity(cluster_id, str(description.topic_id))
            for topic, description in found.items()
            if description is not None
        }

    def retention(self, topics: Iterable[str]) -> dict[str, Retention]:
        """Returns topics' retention: one request. Left out where we may not ask."""
        asked = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in sorted(set(topics))]
        if not asked:
            return {}
        found = self.client().describe_configs(asked, request_timeout=self._timeout)
        with effect("kafka: retention"):
            said = {each.name: self._unless_refused(future) for each, future in found.items()}
        return {topic: retention_of(config) for topic, config in said.items() if config is not None}

    def settings(self, topics: Iterable[str]) -> dict[str, TopicSettings | None]:
        """Returns topics' settings; None for topics whose settings may not be read."""
        try:
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

    def _unless_refused(self, future: Any) -> Mapping[str, str | None] | None:
        """Returns a topic's settings; None if it is gone, or we may not see them."""
        try:
            return {name: entry.value for name, entry in future.result().items()}
        except KafkaException as error:
            if error.args[0].code() in _UNTOLD:
                return None
            raise self._translated(error) from error

    def _translated(self, error: KafkaException) -> CdcError:
        problem = translate(error, self._servers, self._attempts.last)
        if isinstance(problem, LoginRefusedError):  # this client would show the same login again
            self._client, self._attempts = None, Attempts()
        return problem
