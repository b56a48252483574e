"""Debezium's signals in a topic of Kafka, and what it answers in another one.

The topics of both, and that of heartbeats, are named as tables' topics could be.
https://debezium.io/documentation/reference/3.6/configuration/signalling.html
https://debezium.io/documentation/reference/3.6/configuration/notification.html
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from cdc_assets_devstack.stack import LocalStack
from confluent_kafka import Producer

from cdc_assets.changes.json_text import read_object
from cdc_assets.log.kafka import KafkaLog
from cdc_assets_tests.stack.merging import records
from cdc_assets_tests.stack.replicated import Replicated
from cdc_assets_tests.waiting import until

READ_ONLY = {"signal.enabled.channels": "kafka", "read.only": "true"}
"""Watermarks are what transactions are running: nothing is written to the database."""

SIGNAL_TABLE = "CREATE TABLE signals (id text PRIMARY KEY, type text, data text)"
WRITTEN = {"signal.enabled.channels": "source,kafka", "signal.data.collection": "public.signals"}
"""Watermarks are rows of that table, so that its channel is needed whoever sends the signal."""

CHUNK = 1024


@dataclass(frozen=True)
class Signals:
    """Those of one connector, which is named like the prefix of its topics."""

    stack: LocalStack
    name: str

    @property
    def topic(self) -> str:
        return f"{self.name}.signals.kafka"

    @property
    def others(self) -> dict[str, str]:
        """What the topics beside the tables' hold, by name."""
        return {
            self.topic: "signals",
            self.notifications: "notifications",
            f"{self.name}.beats.{self.name}": "heartbeats",
        }

    @property
    def notifications(self) -> str:
        return f"{self.name}.notifications.kafka"

    @property
    def settings(self) -> dict[str, str]:
        """Of the connector, beside what says how watermarks are made."""
        return {
            "signal.kafka.topic": self.topic,
            "signal.kafka.bootstrap.servers": self.stack.kafka.address,
            "signal.poll.interval.ms": "500",
            "notification.enabled.channels": "sink",
            "notification.sink.topic.name": self.notifications,
            "incremental.snapshot.chunk.size": str(CHUNK),
            "topic.heartbeat.prefix": f"{self.name}.beats",
            "heartbeat.interval.ms": "500",
        }

    def snapshot(self, name: str, *tables: str) -> None:
        """Ask for an incremental snapshot."""
        self._send(name, "execute-snapshot", *tables)

    def stop(self, name: str, *tables: str) -> None:
        """End that of some tables: with the next signals that the connector reads."""
        self._send(name, "stop-snapshot", *tables)

    def _send(self, name: str, kind: str, *tables: str) -> None:
        data = {"data-collections": [f"public.{table}" for table in tables], "type": "INCREMENTAL"}
        signal = {"id": name, "type": kind, "data": data}
        producer = Producer({"bootstrap.servers": self.stack.kafka.address})
        producer.produce(self.topic, key=self.name, value=json.dumps(signal), partition=0)
        assert producer.flush(20) == 0

    def sent(self, database: Replicated) -> list[dict[str, Any]]:
        """The signals that were; their keys are no JSON."""
        log = KafkaLog(database.config.kafka.librdkafka())
        return [read_object(each.value) for each in log.part({(self.topic, 0): (0, None)})]

    def is_done(self, database: Replicated) -> bool:
        """Whether the connector has said that an incremental snapshot is complete."""
        told = [each.value or {} for each in records(database.config, self.notifications)]
        kinds = [(each["aggregate_type"], each["type"]) for each in told]
        return ("Incremental Snapshot", "COMPLETED") in kinds

    def wait_until_done(self, database: Replicated) -> None:
        """Until it says so."""
        until(
            lambda: self.is_done(database),
            "the snapshot is complete",
            within_seconds=300,
            every_seconds=0.5,
        )
