"""The sensor that shows statements: Debezium's events for MariaDB, in the real Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.orchestration.sensors import ddl_sensor
from cdc_assets.registry import Registry, TableEntry
from cdc_assets_tests.configuration import platform, source, write
from cdc_assets_tests.world import NOW

pytestmark = pytest.mark.stack

GOLDEN = Path(__file__).parents[1] / "formats" / "golden" / "mariadb_schema_changes.json"
EVENTS: list[dict[str, Any]] = json.loads(GOLDEN.read_text())
SHOWN = [
    "change age; add city",
    "rename name to called; change called",
    "add more",
    "the table is called shop.persons now",
    "the table was created",
]


class Followed:
    """A source's topic of schema changes, and the sensor's cursor."""

    def __init__(self, folder: Path, kafka: str, prefix: str, **said: object) -> None:
        (folder / "lake").mkdir(parents=True, exist_ok=True)
        rest = {"spark": {"remote": "sc://127.0.0.1:1"}, "registry": ".cdc/registry.json"}
        document = platform(kafka, **rest, sources={"shop": source(prefix, **said)})
        self.config: ReplicationConfig = write(folder / "replication.yaml", document)
        self.kafka, self.topic = kafka, prefix
        self.cursor: str | None = None
        self.admin = AdminClient({"bootstrap.servers": kafka})
        self.said = ""

    def produce(self, events: Iterable[object], topic: str | None = None) -> None:
        producer = Producer({"bootstrap.servers": self.kafka})
        for each in events:
            value = each if isinstance(each, bytes) else json.dumps(each).encode()
            producer.produce(topic or self.topic, value)
        assert producer.flush(20) == 0

    def tick(self) -> list[dg.AssetObservation]:
        name = TableName("shop", "shop", "people")
        target = self.config.source("shop").lake_name(name)
        entry = TableEntry(name, f"{self.topic}.{name.qualified}", target, NOW)
        context = dg.build_sensor_context(
            instance=dg.DagsterInstance.ephemeral(), cursor=self.cursor
        )
        result = ddl_sensor(self.config, Registry((entry,)))(context)
        assert isinstance(result, dg.SensorResult)
        self.cursor = result.cursor
        self.said = (result.skip_reason.skip_message if result.skip_reason else None) or ""
        return [each for each in result.asset_events if isinstance(each, dg.AssetObservation)]

    def does(self) -> list[object]:
        return [each.metadata["does"].value for each in self.tick()]


@pytest.fixture
def followed(tmp_path: Path, kafka_bootstrap: str) -> Iterator[Followed]:
    made = Followed(tmp_path, kafka_bootstrap, f"p{tmp_path.name}")
    made.admin.create_topics([NewTopic(made.topic, 1)])[made.topic].result()
    yield made
    made.admin.delete_topics([made.topic])[made.topic].result()


def test_each_statement_is_shown_once(followed: Followed) -> None:
    assert followed.does() == []
    followed.produce(EVENTS)
    found = followed.tick()
    assert [each.metadata["does"].value for each in found] == SHOWN
    assert {each.asset_key for each in found} == {dg.AssetKey(["shop", "shop", "people"])}
    assert found[0].metadata["statement"].value == EVENTS[4]["ddl"]
    assert found[0].metadata["offset"].value == 4
    assert found[0].metadata["plan"].value == "not made yet"
    assert followed.does() == []
    assert f"0 new statements in {followed.topic}" in followed.said
    followed.produce([EVENTS[4]])
    assert followed.does() == SHOWN[:1]


def test_what_was_deleted_or_cannot_be_read_is_said(followed: Followed) -> None:
    followed.produce([EVENTS[4]])
    assert followed.does() == SHOWN[:1]
    followed.produce([EVENTS[4], EVENTS[5], b"{broken", EVENTS[9]])
    place = TopicPartition(followed.topic, 0, 3)
    followed.admin.delete_records([place])[place].result()
    assert followed.does() == SHOWN[4:]
    assert f"2 records of {followed.topic} were deleted before they were read" in followed.said
    assert f"Not readable: topic={followed.topic} partition=0 offset=3" in followed.said


def test_a_topic_of_that_name_that_holds_rows_is_not_followed(followed: Followed) -> None:
    followed.produce([{"op": "c", "after": {"id": 1, "ddl": "DROP TABLE people"}}])
    assert followed.does() == []
    assert "no source tells of any" in followed.said


def test_a_statement_that_names_a_withheld_column_is_not_shown(
    followed: Followed, tmp_path: Path
) -> None:
    columns = {"shop.people": {"columns": {"city": {"exclude": True}}}}
    other = Followed(tmp_path / "b", followed.kafka, followed.topic, tables=columns)
    followed.produce(EVENTS[4:6])
    texts = [str(each.metadata["statement"].value) for each in other.tick()]
    assert [text.startswith("not shown") for text in texts] == [True, False]
