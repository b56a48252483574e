"""How topics are configured, as far as the exactness of what is read depends on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, cast

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from cdc_assets.log.errors import translate

_MISSING: Final = KafkaError.UNKNOWN_TOPIC_OR_PART
_REFUSED: Final = frozenset({
    KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """Of one topic.

    Attributes:
        policies: of ``cleanup.policy``.
        retention_ms: None for ever.
        retention_bytes: of a partition; None without a limit.
    """

    policies: frozenset[str]
    retention_ms: int | None
    retention_bytes: int | None


def read_settings(
    client: AdminClient, topics: Iterable[str], servers: str, timeout_seconds: float
) -> dict[str, TopicSettings | None]:
    """Read the settings of topics, in one request per broker.

    Args:
        client: that has been answered before.
        topics: to ask about.
        servers: for messages.
        timeout_seconds: for all of it.

    Returns:
        Of topics that exist; None of those whose settings the user may not read.

    Raises:
        UnreachableError: if Kafka does not answer.
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
            found[name] = settings_of({k: str(v.value) for k, v in future.result().items()})
        except KafkaException as error:
            code = error.args[0].code()
            if code in _REFUSED:
                found[name] = None
            elif code != _MISSING:
                raise translate(error, servers) from error
    return found


def settings_of(said: Mapping[str, str]) -> TopicSettings:
    """What a broker answers, as a value."""
    policies = said.get("cleanup.policy", "delete")
    return TopicSettings(
        frozenset(each.strip() for each in policies.split(",")),
        _limit(said.get("retention.ms", "-1")),
        _limit(said.get("retention.bytes", "-1")),
    )


def _limit(text: str) -> int | None:
    number = int(text)
    return None if number < 0 else number
