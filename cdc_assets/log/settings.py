"""Reads topics' settings, as far as the exactness of reads depends on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, cast

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from cdc_assets.changes.retention import FOR_EVER, TopicRetention

_MISSING: Final = KafkaError.UNKNOWN_TOPIC_OR_PART
_REFUSED: Final = frozenset({
    KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of one topic.

    Attributes:
        policies: of ``cleanup.policy``.
        retention: by age and size; none for a topic that only compacts.
        append_time: whether records have the time at which their broker took them
            (``message.timestamp.type=LogAppendTime``), and not their producer's.
    """

    policies: frozenset[str]
    retention: TopicRetention
    append_time: bool = False


def read_settings(
    client: AdminClient, topics: Iterable[str], timeout_seconds: float
) -> dict[str, TopicSettings | None]:
    """Reads the settings of topics, in one request per broker.

    Args:
        client: a client that has been answered before.
        topics: topics to ask about.
        timeout_seconds: for all of it.

    Returns:
        Settings of topics that exist; None for topics whose settings the user may not read.

    Raises:
        KafkaException: if Kafka does not answer.
    """
    wanted = [ConfigResource(ResourceType.TOPIC, name) for name in sorted({*topics})]
    if not wanted:
        return {}
    asked = cast(
        "Mapping[ConfigResource, Future[Mapping[str, Any]]]",
        client.describe_configs(wanted, request_timeout=timeout_seconds),
    )
    found: dict[str, TopicSettings | None] = {}
    for resource, future in asked.items():
        name = cast("str", resource.name)
        try:
            found[name] = settings_of({k: v.value for k, v in future.result().items()})
        except KafkaException as error:
            code = error.args[0].code()
            if code in _REFUSED:
                found[name] = None
            elif code != _MISSING:
                raise
    return found


_MILLISECOND: Final = timedelta(milliseconds=1)


def settings_of(said: Mapping[str, str | None]) -> TopicSettings:
    """Converts a broker's answer, with what a topic inherits from its broker, to a value.

    A topic that only compacts deletes no record for its age.
    """
    policies = (said.get("cleanup.policy") or "delete").split(",")
    policy = frozenset(each.strip() for each in policies)
    kept = TopicRetention(_age(said), _bound(said, "retention.bytes"))
    append_time = said.get("message.timestamp.type") == "LogAppendTime"
    return TopicSettings(policy, kept if "delete" in policy else TopicRetention(), append_time)


def _age(settings: Mapping[str, str | None]) -> timedelta | None:
    """Returns None for ever, which people write in many ways, including 2^63 - 1."""
    millis = _bound(settings, "retention.ms")
    return None if millis is None or millis > FOR_EVER // _MILLISECOND else _MILLISECOND * millis


def _bound(settings: Mapping[str, str | None], name: str) -> int | None:
    """Returns None for -1, which stands for no bound."""
    value = int(settings.get(name) or -1)
    return value if value >= 0 else None
