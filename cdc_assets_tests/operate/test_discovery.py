"""Topics become tables by what is in them: on a real broker."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from cdc_assets.changes.renamed import RenamedTable
from cdc_assets.config.table import TableOverrides
from cdc_assets.log.left_behind import late_under_old_name
from cdc_assets.operate.discovery import LOOK_AGAIN_AFTER, Discovery, discover
from cdc_assets.operate.failures import FailureKind
from cdc_assets.operate.services import Services
from cdc_assets.operate.status import read_status
from cdc_assets.registry import RegistryFile, TableEntry
from cdc_assets.registry.document import from_document, to_document
from cdc_assets_tests.waiting import until
from cdc_assets_tests.world import NOW, World, entry_of

pytestmark = pytest.mark.stack

CHANGE = {"before": None, "after": {"id": 1}, "source": {}, "op": "c"}
HEARTBEAT = {"ts_ms": 1}
BEGIN = {"status": "BEGIN", "id": "5:7"}
MESSAGE = {"op": "m", "source": {}, "message": {"prefix": "p", "content": "YQ=="}}
NOTIFICATION = {"id": "1", "type": "COMPLETED", "aggregate_type": "Initial Snapshot",
                "additional_data": {"connector_name": "shop"}, "timestamp": 1}  # fmt: skip
DDL = {"source": {}, "databaseName": "shop", "ddl": "CREATE TABLE x", "tableChanges": []}


class Cluster(World):
    """Topics with any name and records under the world's prefix."""

    def holding(self, name: str, *values: object, partitions: int = 1) -> str:
        topic = f"{self.prefix}.{name}"
        if topic not in self._topics:
            for future in self._admin.create_topics([NewTopic(topic, partitions)]).values():
                future.result()
            self._topics.append(topic)
        producer = Producer({"bootstrap.servers": self.kafka})
        for value in values:
            content = value if isinstance(value, bytes) else json.dumps(value).encode()
            producer.produce(topic, content, partition=partitions - 1)
        assert producer.flush(20) == 0
        return topic

    def look(self) -> Discovery:
        return discover(self.services)

    def found(self) -> tuple[set[str], dict[str, str]]:
        """Tables, and what the other topics hold, without the prefix."""
        registry = self.look().registry
        others = {
            each.topic.removeprefix(f"{self.prefix}."): each.holds for each in registry.others
        }
        return {str(entry.table).partition(".")[2] for entry in registry}, others


@pytest.fixture
def cluster(tmp_path, kafka_bootstrap):
    made = Cluster(tmp_path, kafka_bootstrap)
    yield made
    made.close()


def test_only_what_holds_changes_becomes_a_table(cluster: Cluster) -> None:
    cluster.holding("public.orders", CHANGE, partitions=3)
    cluster.holding("public.transaction", CHANGE)
    cluster.holding("public.message", CHANGE)
    cluster.holding("heartbeat.shop", HEARTBEAT, HEARTBEAT)
    cluster.holding("west.message", MESSAGE)
    cluster.holding("west.transaction", BEGIN)
    cluster.holding("signals.shop", {"type": "execute-snapshot", "data": {}})
    cluster.holding("connector.notifications", NOTIFICATION)
    cluster.holding("eu.west", DDL)
    cluster.holding("plain.json", {"id": 1})
    cluster.holding("avro.values", b"\x00\x00\x00\x00\x01")
    tables, others = cluster.found()
    assert tables == {"public.orders", "public.transaction", "public.message"}
    assert {name: holds.partition(" (")[0] for name, holds in others.items()} == {
        "avro.values": "no JSON objects",
        "heartbeat.shop": "heartbeats",
        "connector.notifications": "notifications",
        "eu.west": "schema changes",
        "plain.json": "JSON that is no change event",
        "signals.shop": "signals",
        "west.message": "logical decoding messages",
        "west.transaction": "transaction metadata",
    }
    status = json.loads(read_status(cluster.services).to_json())
    assert {each["topic"] for each in status["not_tables"]} == {
        f"{cluster.prefix}.{name}" for name in others
    }


def test_a_change_among_broken_records_makes_a_table(cluster: Cluster) -> None:
    cluster.holding("public.first", CHANGE, *[b"broken"] * 30)
    cluster.holding("public.last", *[b"broken"] * 30, CHANGE)
    assert cluster.found() == ({"public.first", "public.last"}, {})


def test_a_topic_without_records_is_told_by_its_name_until_they_come(cluster: Cluster) -> None:
    for name in ("public.orders", "west.transaction", "west.message", "west.shop-signal"):
        cluster.holding(name)
    assert cluster.found() == ({"public.orders"}, {})

    cluster.holding("public.orders", CHANGE)
    cluster.holding("west.transaction", CHANGE)
    cluster.holding("west.message", MESSAGE)
    tables, others = cluster.found()
    assert tables == {"public.orders", "west.transaction"}
    assert others == {"west.message": "logical decoding messages"}
    assert all(entry.is_confirmed for entry in cluster.services.registry.load())


def test_a_table_that_was_taken_from_a_name_alone_is_corrected(cluster: Cluster) -> None:
    """As those in the registry of an earlier version, which never looked into topics."""
    topic = cluster.holding("heartbeat.shop")
    (entry,) = cluster.look().added
    cluster.services.failures.record(entry.table, FailureKind.TERMINAL, "no change event", NOW)
    cluster.holding("heartbeat.shop", HEARTBEAT)
    found = cluster.look()
    assert [each.topic for each in found.registry.others] == [topic]
    assert found.registry.tables == frozenset()
    assert cluster.services.failures.load() == {}


def test_a_table_that_is_in_the_lake_stays_whatever_is_in_its_topic_by_now(
    cluster: Cluster,
) -> None:
    cluster.holding("public.orders")
    (entry,) = cluster.look().added
    cluster.publish(entry.target, {0: 0}, {0: 1})
    cluster.holding("public.orders", HEARTBEAT)
    assert cluster.found() == ({"public.orders"}, {})


def test_a_topic_that_was_set_aside_becomes_a_table_once_it_has_changes(cluster: Cluster) -> None:
    cluster.holding("public.orders", {"id": 1})
    assert cluster.found()[0] == set()
    cluster.holding("public.orders", CHANGE)
    cluster.now = NOW + LOOK_AGAIN_AFTER - timedelta(seconds=1)
    assert cluster.found()[0] == set(), "it is not looked into at each tick"
    cluster.now = NOW + LOOK_AGAIN_AFTER
    assert cluster.found() == ({"public.orders"}, {})


def test_a_topic_that_a_clock_which_was_ahead_has_set_aside_becomes_a_table(
    cluster: Cluster,
) -> None:
    cluster.now = NOW + timedelta(days=400)
    cluster.holding("public.orders", {"id": 1})
    assert cluster.found()[0] == set()
    cluster.holding("public.orders", CHANGE)
    cluster.now = NOW
    assert cluster.found() == ({"public.orders"}, {})


def test_what_the_configuration_lists_is_a_table_in_any_case(cluster: Cluster) -> None:
    cluster.holding("public.orders", {"id": 1})
    assert cluster.found()[0] == set()
    shop = cluster.config.sources["shop"]
    listed = shop.model_copy(update={"tables": {"public.orders": TableOverrides()}})
    config = cluster.config.model_copy(update={"sources": {"shop": listed}})
    cluster.services = Services(config, clock=lambda: cluster.now)
    assert cluster.found()[0] == {"public.orders"}
    assert read_status(cluster.services).not_tables == ()


def test_a_registry_of_an_earlier_version_is_read_and_confirmed(cluster: Cluster) -> None:
    cluster.holding("public.orders", CHANGE)
    registry = cluster.look().registry
    document = json.loads(to_document(registry))
    del document["not_tables"]
    del document["tables"][0]["confirmed"]
    old = from_document(json.dumps(document))
    assert old.tables == registry.tables
    file = RegistryFile(cluster.config.registry)
    file.remove(registry.tables)
    file.add(old)
    assert not any(entry.is_confirmed for entry in file.load())
    assert cluster.look().added == ()
    assert cluster.services.registry.load() == registry


def renamed(cluster: Cluster, topic: str, **more: str) -> TableEntry:
    """A table that is called ``orders_v1`` by now, and had all of a topic merged before."""
    entry = entry_of("orders", cluster.config, topic)
    end = cluster.services.log.watermarks([topic])[topic].end
    now = RenamedTable("public", "orders_v1", f"{topic}_v1", topic, end, **more)
    return replace(entry, topic=now.topic, renamed=now)


def test_the_former_topic_of_a_renamed_table_that_is_made_anew_is_refused(
    cluster: Cluster,
) -> None:
    """From its first record on, though its end is far below that of the topic before."""
    topic = cluster.holding("public.orders", CHANGE, CHANGE, CHANGE)
    topic_id = cluster.services.log.identity([topic])[topic].topic_id
    entry = renamed(cluster, topic, topic_id=topic_id)
    cluster.services.registry.add([entry])
    assert cluster.look().refused == ()

    cluster.close()
    until(lambda: topic not in cluster.services.log.topics(), "the topic is deleted")
    assert cluster.look().refused == ()
    cluster._topics.clear()  # noqa: SLF001
    cluster.holding("public.orders")
    assert cluster.look().refused == (), "an empty topic holds no table yet"
    cluster.holding("public.orders", CHANGE)
    (refused,) = cluster.look().refused
    assert f"topic {topic} was recreated for another table" in refused.what
    assert "part of another source" in refused.remedy
    cluster.holding("public.orders", *[CHANGE] * 5)
    assert len(cluster.look().refused) == 1
    log = cluster.services.log
    assert late_under_old_name(entry, log) is None, "the renamed table goes on"
    by_offsets = replace(entry.renamed, topic_id="") if entry.renamed else None
    assert late_under_old_name(replace(entry, renamed=by_offsets), log) is not None


def test_late_records_of_the_same_former_topic_stop_the_table(cluster: Cluster) -> None:
    topic = cluster.holding("public.orders", CHANGE)
    topic_id = cluster.services.log.identity([topic])[topic].topic_id
    entry = renamed(cluster, topic, topic_id=topic_id)
    cluster.holding("public.orders", CHANGE)
    late = late_under_old_name(entry, cluster.services.log)
    assert late is not None
    assert "offsets=0:[1,2)" in late.where
