"""Messages in, rows out: a real Kafka topic, the real merge, the rows read by PyIceberg."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.sql import SparkSession

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.config import ReplicationConfig
from cdc_assets.lake import Lake
from cdc_assets.log.hours import HourWindow, hour_of
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.values import TopicIdentity
from cdc_assets.merge import BatchResult, Replicator, Waiting
from cdc_assets.merge.intake.planning.plans import merged_part
from cdc_assets.merge.intake.shared_reading import SharedReadings
from cdc_assets.merge.plan.request import ReplayRequest
from cdc_assets.operate.discovery import Discovery, discover
from cdc_assets.operate.services import Services
from cdc_assets.registry import TableEntry
from cdc_assets_tests.configuration import beside, source
from cdc_assets_tests.lake_view import read_rows
from cdc_assets_tests.waiting import until

Session = Callable[[], SparkSession]


def hours_since(time: datetime) -> list[HourWindow]:
    """The hour of a time, and those that have begun since."""
    hours = [hour_of(time)]
    while hours[-1] != hour_of(datetime.now(UTC)):
        hours.append(hours[-1].next())
    return hours


@dataclass(frozen=True)
class Message:
    """One record to be produced."""

    key: bytes | None
    value: bytes | None
    partition: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None


class OffsetReplicator(Replicator):
    """Replays any merged offsets, not only those of whole hours."""

    def replay_offsets(
        self, entry: TableEntry, ranges: tuple[OffsetRange, ...]
    ) -> Iterator[BatchResult]:
        return self._again(entry, "again", ReplayRequest(ranges))


@dataclass
class Pipeline:
    """A source with topics of its own in a shared Kafka, lake and Spark server."""

    base: ReplicationConfig
    spark: Session
    folder: Path
    source: dict[str, object] = field(default_factory=dict)
    prefix: str = field(default_factory=lambda: f"t{uuid.uuid4().hex[:8]}")
    made: datetime = field(default_factory=lambda: datetime.now(UTC))
    shared: dict[str, str] = field(default_factory=dict)
    """Tables that lie in a topic of another name."""
    client: dict[str, str] = field(default_factory=dict)
    """What the producer is told beside the usual."""
    found: dict[str, TableEntry] = field(default_factory=dict)
    """Tables as `discovered` has found them, instead of by names."""

    def __post_init__(self) -> None:
        brokers = self.base.kafka.bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": brokers})
        self.producer = self._producer()
        self.config = self._config()
        self.lake = Lake(self.config)

    def topic(self, table: str) -> str:
        return f"{self.prefix}.{table}"

    def create_topic(self, table: str, partitions: int = 1, **config: str) -> str:
        wanted = NewTopic(self.topic(table), partitions, 1, config=config)
        made = self.admin.create_topics([wanted])
        for future in made.values():
            future.result(30)
        return self.topic(table)

    def add_partitions(self, table: str, total: int) -> None:
        for future in self.admin.create_partitions(
            [NewPartitions(self.topic(table), total)]
        ).values():
            future.result(30)
        # The broker answers before its metadata has them; a producer that asks now refuses them.
        until(lambda: self._partitions(table) == total, f"{total} partitions", every_seconds=0.01)
        self.producer = self._producer()  # one that does not know the topic as it was

    def expire(self, table: str, before: int) -> None:
        """Remove the records of partition 0 below an offset, as retention does."""
        place = TopicPartition(self.topic(table), 0, before)
        for future in self.admin.delete_records([place]).values():
            future.result(30)

    def _partitions(self, table: str) -> int:
        topic = self.topic(table)
        return len(self.admin.list_topics(topic, timeout=30).topics[topic].partitions)

    def identity(self, table: str) -> TopicIdentity:
        log = KafkaLog(self.config.kafka.librdkafka())
        return log.identity([self.topic(table)])[self.topic(table)]

    def produce_as(self, table: str, messages: Iterable[Message], **client: str) -> None:
        """By a producer with these settings, their names with ``_`` for ``.``."""
        self.client = {name.replace("_", "."): value for name, value in client.items()}
        self.producer = self._producer()
        self.produce(table, messages)

    def produce(self, table: str, messages: Iterable[Message]) -> None:
        failed: list[object] = []
        for message in messages:
            extra = {} if message.timestamp_ms is None else {"timestamp": message.timestamp_ms}
            self.producer.produce(
                self.topic(table),
                key=message.key,
                value=message.value,
                partition=message.partition,
                headers=list(message.headers),
                on_delivery=lambda error, _: failed.append(error) if error else None,
                **extra,
            )
        assert self.producer.flush(30) == 0
        assert not failed, failed[0]

    def discovered(self) -> Discovery:
        """Look for tables as the sensor does, and go on with those that are registered."""
        services = Services(self.config)
        looked = discover(services)
        mine = (each for each in looked.registry if each.table.source == self.prefix)
        self.found = {each.table.qualified: each for each in mine}
        return looked

    def entry(self, table: str) -> TableEntry:
        if table in self.found:
            return self.found[table]
        name = TableName(self.prefix, *table.split("."))
        target = self.config.source(self.prefix).lake_name(name)
        topic = self.topic(self.shared.get(table, table))
        shard = self.config.source(self.prefix).shard(name)
        return TableEntry(name, topic, target, datetime.now(UTC), shard=shard)

    def replicator(self, shared: SharedReadings | None = None) -> Replicator:
        alone = Replicator(self.config, self.spark)
        return alone if shared is None else alone.sharing(shared)

    def merge(self, table: str, shared: SharedReadings | None = None) -> list[BatchResult]:
        """Its batches, without what it waits for in the end."""
        return [each for each in self.drained(table, shared) if isinstance(each, BatchResult)]

    def drained(
        self, table: str, shared: SharedReadings | None = None
    ) -> list[BatchResult | Waiting]:
        drained = self.replicator(shared).drain(
            self.entry(table), window=None, run_id="test", budget_seconds=300
        )
        return list(drained)

    def replay(self, table: str) -> list[BatchResult]:
        """All hours since this was made."""
        hours = hours_since(self.made)
        return list(self.replicator().replay(self.entry(table), hours, run_id="replay"))

    def replay_offsets(self, table: str, *ranges: OffsetRange) -> list[BatchResult]:
        """What the table has merged of ranges that need not be whole hours."""
        entry = self.entry(table)
        state = self.lake.state(entry.target, entry.shard_value)
        assert state is not None
        assert state.published is not None
        own = merged_part(state.published, ranges)
        return list(OffsetReplicator(self.config, self.spark).replay_offsets(entry, own))

    def rows(self, table: str) -> list[dict[str, object]]:
        """All rows, without our own columns; [] if there is no table."""
        return read_rows(self.config, self.entry(table).target)

    def by_key(self, table: str, key: Sequence[str] = ("id",)) -> dict[object, dict[str, object]]:
        rows = self.rows(table)
        keyed = {
            tuple(row[name] for name in key) if len(key) > 1 else row[key[0]]: row for row in rows
        }
        assert len(keyed) == len(rows), "a key is there twice"
        return keyed

    def _producer(self) -> Producer:
        brokers = self.base.kafka.bootstrap_servers
        usual = {"bootstrap.servers": brokers, "enable.idempotence": True}
        return Producer({**usual, **self.client})

    def _config(self) -> ReplicationConfig:
        return beside(
            self.base, self.prefix, sources={self.prefix: source(self.prefix, **self.source)}
        )
