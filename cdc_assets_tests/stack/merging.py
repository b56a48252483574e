"""Merging single tables of a replicated database within the test's process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.error import KafkaError
from pyiceberg.table import Table

from cdc_assets.config import ReplicationConfig
from cdc_assets.merge import BatchResult, Replicator
from cdc_assets.registry import TableEntry
from cdc_assets_tests.lake_view import read_rows, read_table
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.replicated import Replicated


@dataclass(frozen=True)
class Record:
    """One record of a topic, parsed; a key without the schema around it."""

    partition: int
    offset: int
    key: Mapping[str, Any] | None
    value: Mapping[str, Any] | None

    @property
    def op(self) -> str:
        """Empty for a record without a value."""
        return self.value["op"] if self.value else ""

    @property
    def after(self) -> Mapping[str, Any]:
        assert self.value is not None
        return self.value["after"]

    @property
    def event(self) -> tuple[object, ...]:
        """The same for an event that was sent twice."""
        assert self.value is not None
        transaction = self.value["transaction"] or {}
        return self.value["source"]["sequence"], transaction.get("total_order")


@dataclass(frozen=True)
class Merging:
    """Waits until Kafka has what was committed, merges it, and asks the oracle."""

    database: Replicated
    spark: Session

    def merge(self, *tables: str) -> list[BatchResult]:
        """Until caught up; the batches of this call."""
        self.database.wait_until_delivered()
        return [batch for table in tables for batch in self.drain(self.database.entry(table))]

    def drain(
        self, entry: TableEntry, config: ReplicationConfig | None = None
    ) -> Iterator[BatchResult]:
        """Batch after batch, for as long as the log holds more."""
        replicator = Replicator(config or self.database.config, self.spark)
        drained = replicator.drain(entry, window=None, run_id="test", budget_seconds=300)
        return (each for each in drained if isinstance(each, BatchResult))

    def require_equal(self, *tables: str, ignoring: Sequence[str] = ()) -> list[BatchResult]:
        """Merge; then every row of these tables is in the lake, and no other.

        Columns to be ignored are those that the source has dropped.
        """
        batches = self.merge(*tables)
        different = self.database.differences(*tables, ignoring=ignoring)
        assert not different, different
        return batches

    def rows(self, table: str) -> list[dict[str, Any]]:
        """As the lake has them now."""
        return read_rows(self.database.config, self.database.entry(table).target)

    def records(self, table: str) -> list[Record]:
        """All of the table's topic, partition by partition."""
        return records(self.database.config, self.database.entry(table).topic)


def records(config: ReplicationConfig, topic: str) -> list[Record]:
    """All records of a topic, those of each partition in their order."""
    servers = {"bootstrap.servers": config.kafka.bootstrap_servers, "group.id": "look"}
    consumer = Consumer({**servers, "enable.auto.commit": False, "enable.partition.eof": True})
    try:
        partitions = list(consumer.list_topics(topic, 30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
        found: list[Record] = []
        open_ = set(partitions)
        while open_:
            message = consumer.poll(30)
            assert message is not None, f"{topic} does not answer"
            error, partition = message.error(), message.partition()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error  # noqa: SLF001
                open_.discard(partition)
            else:
                key, value = _parsed(message.key()), _parsed(message.value())
                bare = key.get("payload", key) if key else None
                found.append(Record(partition, message.offset(), bare, value))
    finally:
        consumer.close()
    return sorted(found, key=lambda each: (each.partition, each.offset))


def _parsed(text: bytes | None) -> dict[str, Any] | None:
    return None if text is None else json.loads(text)


def lake_table(database: Replicated, table: str) -> Table:
    """As PyIceberg reads it now."""
    found = read_table(database.config, database.entry(table).target)
    assert found is not None, f"{table} is not in the lake"
    return found


def published(database: Replicated, table: str, *columns: str) -> list[pa.Table]:
    """The rows of every snapshot that was ever the head of ``main``, oldest first."""
    seen = lake_table(database, table)
    heads = [entry.snapshot_id for entry in seen.metadata.snapshot_log]
    assert len(heads) >= len(database.publishes(table)) > 0
    return [seen.scan(snapshot_id=head, selected_fields=columns).to_arrow() for head in heads]
