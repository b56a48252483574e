"""Opens the signals of the connector that writes a table's topic; the format reads its answers."""

from __future__ import annotations

from cdc_assets.config import ReplicationConfig
from cdc_assets.formats.registered import format_of
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.signal_channel import channel_of
from cdc_assets.log.signalling import Signalling
from cdc_assets.registry import TableEntry


def signalling_of(config: ReplicationConfig, log: KafkaLog, entry: TableEntry) -> Signalling:
    """Returns the signals and notifications of the connector that writes a table's topic.

    Raises:
        ConfigError: if it cannot be signalled; names the settings that it lacks.
        UnreachableError: if Kafka Connect does not answer.
    """
    channel = channel_of(config, entry)
    fmt = format_of(config.source(entry.table.source))
    return Signalling(log, config.kafka.librdkafka(), channel, fmt.notice)
