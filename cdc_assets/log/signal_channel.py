"""Determines the settings a connector needs so that a signal in Kafka makes it read tables again.

Rules over a connector's settings, for senders of signals and for an assessment.
https://debezium.io/documentation/reference/3.6/configuration/signalling.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import ConfigError
from cdc_assets.log.connect import described_connector
from cdc_assets.registry import TableEntry

_CHANNELS: Final = "signal.enabled.channels"
_SERVERS: Final = "signal.kafka.bootstrap.servers"
_TOPIC: Final = "signal.kafka.topic"
_TABLE: Final = "signal.data.collection"
_SINK: Final = "notification.enabled.channels"
_NOTICES: Final = "notification.sink.topic.name"
_READ_ONLY: Final = "read.only"
_BY_TRANSACTIONS: Final = ("Postgres", "MySql", "MariaDb")
"""Connectors, by a part of their class, that mark chunks without writing to the database."""

Settings = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SignalChannel:
    """The topics from which a connector takes signals, and in which it answers.

    Attributes:
        connector: its name in Kafka Connect.
        prefix: its ``topic.prefix``, which is the key of its signals.
        signals: topic of the signals.
        notices: topic of the notifications.
    """

    connector: str
    prefix: str
    signals: str
    notices: str

    def collection_of(self, entry: TableEntry) -> str:
        """Returns the connector's name of a table: the name of its topic after the prefix.

        Raises:
            ConfigError: if its topic has another name.
        """
        head, _, collection = entry.topic.partition(f"{self.prefix}.")
        if head or not collection:
            what = f"its topic {entry.topic} does not tell what connector {self.connector} calls it"
            remedy = "a transformation has renamed it: ask for the snapshot by a signal of your own"
            raise ConfigError(what, where=f"table={entry.table}", remedy=remedy)
        return collection


def channel_of(config: ReplicationConfig, entry: TableEntry) -> SignalChannel:
    """Returns the channel of the connector that writes a table's topic.

    Raises:
        ConfigError: if the connector is unknown, or cannot be signalled; names each setting that it
            lacks.
        UnreachableError: if Kafka Connect does not answer.
    """
    connector, settings = described_connector(config, entry)
    missing = lacking(settings)
    if missing:
        listed = "; ".join(f"{name}={value}" for name, value in missing)
        what = f"connector {connector.name} cannot be asked for a snapshot by a signal"
        remedy = f"set {listed} (docs/how-to/tables/resnapshot-by-signal.md)"
        raise ConfigError(what, where=f"table={entry.table}", remedy=remedy)
    prefix = settings["topic.prefix"]
    signals = settings.get(_TOPIC) or usual_signals(prefix)
    return SignalChannel(connector.name, prefix, signals, settings[_NOTICES])


def lacking(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Returns settings that a connector lacks, each with its value; none if it can be signalled."""
    channels, prefix = _listed(settings, _CHANNELS, "source"), settings.get("topic.prefix", "")
    by_table = bool(settings.get(_TABLE)) and not _is_read_only(settings)
    needed = ("source", "kafka") if by_table else ("kafka",)
    found = list[tuple[str, str]]()
    if not {*needed} <= {*channels}:
        found.append((_CHANNELS, ",".join(needed)))
    if not settings.get(_SERVERS):
        found.append((_SERVERS, "<the brokers of this Kafka>"))
    if not settings.get(_TABLE) and not _is_read_only(settings):
        found.append((_READ_ONLY, "true") if _marks_by_transactions(settings) else
                     (_TABLE, "<a table that the connector may write to>"))  # fmt: skip
    sinks = _listed(settings, _SINK, "")
    if "sink" not in sinks:
        found.append((_SINK, ",".join((*sinks, "sink"))))
    if not settings.get(_NOTICES):
        found.append((_NOTICES, usual_notices(prefix)))
    return tuple(found)


def is_begun(settings: Settings) -> bool:
    """Returns whether a connector is at least partly set up for signals in Kafka."""
    return "kafka" in _listed(settings, _CHANNELS, "source") or any(
        settings.get(name) for name in (_TOPIC, _SERVERS)
    )


def usual_signals(prefix: str) -> str:
    """Returns the topic from which a connector reads signals by default."""
    return f"{prefix}-signal"


def usual_notices(prefix: str) -> str:
    """Returns a topic for notifications, named like it."""
    return f"{prefix}-notifications"


def _is_read_only(settings: Settings) -> bool:
    is_set = settings.get(_READ_ONLY, "").strip().lower() == "true"
    return is_set and _marks_by_transactions(settings)


def _marks_by_transactions(settings: Settings) -> bool:
    kind = settings.get("connector.class", "")
    return any(each in kind for each in _BY_TRANSACTIONS)


def _listed(settings: Settings, name: str, default: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in settings.get(name, default).split(",") if each.strip())
