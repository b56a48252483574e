"""A small real world without Spark: topics in the real Kafka, snapshots in a real catalog.

What Spark would publish is published here by PyIceberg, with the same snapshot properties.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog import Catalog

from cdc_assets.changes.latency import LatencyHistogram
from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.slo import SloWindow
from cdc_assets.config import ReplicationConfig
from cdc_assets.lake.properties import Published
from cdc_assets.operate.discovery import discover
from cdc_assets.operate.services import Services
from cdc_assets.registry import Registry, TableEntry
from cdc_assets_tests.configuration import NOWHERE, database_of, platform, source, write
from cdc_assets_tests.lake_view import open_catalog

NOW = datetime(2026, 3, 4, 12, 30, tzinfo=UTC)


def write_config(
    folder: Path,
    *,
    kafka: str = NOWHERE,
    prefix: str = "shop",
    maintenance: Mapping[str, object] | None = None,
    consistent: Mapping[str, str] | None = None,
    **replaced: object,
) -> ReplicationConfig:
    """A configuration file in ``folder``, read back; its source is ``shop``, its Spark nowhere."""
    (folder / "lake").mkdir(exist_ok=True)
    said = {"maintenance": maintenance, "consistent": consistent}
    own = {name: dict(each) for name, each in said.items() if each is not None}
    shop = source(prefix, **database_of("SHOP_DSN"), **own)
    rest = {"spark": {"remote": f"sc://{NOWHERE}"}, "registry": ".cdc/registry.json", **replaced}
    document = platform(kafka, **rest, sources={"shop": shop})
    return write(folder / "replication.yaml", document)


def entry_of(table: str, config: ReplicationConfig, topic: str | None = None) -> TableEntry:
    """A registry entry of a table of schema ``public``."""
    name = TableName("shop", "public", table)
    target = config.sources["shop"].lake_name(name)
    return TableEntry(name, topic or f"shop.public.{table}", target, NOW - timedelta(days=2))


def registry_of(config: ReplicationConfig, *tables: str) -> Registry:
    """A registry of tables of schema ``public``."""
    return Registry.of(entry_of(table, config) for table in tables)


@dataclass
class World:
    """Kafka under a prefix of its own, a catalog in a folder of its own, a clock."""

    folder: Path
    kafka: str
    now: datetime = NOW
    prefix: str = field(default_factory=lambda: f"t{uuid.uuid4().hex[:8]}")

    def __post_init__(self) -> None:
        self.config = write_config(self.folder, kafka=self.kafka, prefix=self.prefix)
        self.services = Services(self.config, clock=lambda: self.now)
        self._admin = AdminClient({"bootstrap.servers": self.kafka})
        self._topics: list[str] = []

    def topic(self, table: str, partitions: int = 1, **settings: str) -> str:
        """Create the topic of a table of schema ``public``; ``retention_ms`` and the like."""
        topic = f"{self.prefix}.public.{table}"
        config = {"retention.ms": "-1"}  # records are of `NOW`, which is long ago
        config |= {name.replace("_", "."): value for name, value in settings.items()}
        new = NewTopic(topic, partitions, config=config)
        for future in self._admin.create_topics([new]).values():
            future.result()
        self._topics.append(topic)
        return topic

    def produce(self, topic: str, times: Sequence[datetime], partition: int = 0) -> None:
        """One record at each time."""
        producer = Producer({"bootstrap.servers": self.kafka})
        for time in times:
            millis = int(time.timestamp() * 1000)
            producer.produce(topic, b'{"op": "c"}', b"{}", partition, timestamp=millis)
        assert producer.flush(20) == 0

    def lose(self, topic: str, below: int) -> None:
        """What retention does to the first partition of a topic."""
        asked = self._admin.delete_records([TopicPartition(topic, 0, below)])
        for future in asked.values():
            future.result()

    def discover(self) -> Registry:
        """Register every topic's table."""
        return discover(self.services).registry

    def publish(self, target: LakeName, start: dict[int, int], end: dict[int, int]) -> None:
        """One snapshot that says it merged ``[start, end)`` within a second each."""
        catalog = self._catalog
        catalog.create_namespace_if_not_exists(target.namespace)
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
        identifier = (target.namespace, target.name)
        table = catalog.create_table_if_not_exists(identifier, schema)
        records = sum(end.values()) - sum(start.values())
        published = Published(
            offsets=OffsetVector.of(end), start=OffsetVector.of(start), topic="", topic_id="",
            cluster_id="", attempt=uuid.uuid4().hex, run="", kind="tail", published_at=self.now,
            counts={"records": records},
            slo=SloWindow().add(self.now, LatencyHistogram.of([1.0] * records)),
        )  # fmt: skip
        rows = pa.table({"id": [records], "name": ["x"]}, schema=schema)
        table.append(rows, snapshot_properties=published.to_properties())

    def close(self) -> None:
        """Delete the topics."""
        if self._topics:
            for future in self._admin.delete_topics(self._topics).values():
                future.result()

    @cached_property
    def _catalog(self) -> Catalog:
        return open_catalog(self.config)
