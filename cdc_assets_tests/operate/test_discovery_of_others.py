"""A topic that nobody can judge, or that is one too many, keeps no other table from being found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.changes.offsets import Coordinate, OffsetVector
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import UnreachableError
from cdc_assets.log.kinds import TopicKind, kind_of_topic
from cdc_assets.log.values import Bounds, RawRecord, Watermarks
from cdc_assets.operate.discovery import Discovery, discover
from cdc_assets.operate.services import Services
from cdc_assets_tests.configuration import platform, source, write
from cdc_assets_tests.formats.registry_server import RegistryServer, running

pytestmark = pytest.mark.unit

UNKNOWN = b"\x00\x00\x00\x00\x07\x02"
"""A value whose schema no registry has."""
CHANGE = json.dumps({"before": None, "after": {"id": 1}, "source": {}, "op": "c"}).encode()


@dataclass
class Topics:
    """Topics by the values of their records; some without a leader."""

    values: Mapping[str, Iterable[bytes]]
    leaderless: Iterable[str] = ()

    def topics(self) -> tuple[str, ...]:
        return tuple(sorted(self.values))

    def bounds(self, topics: Iterable[str]) -> Bounds:
        away = {each: UnreachableError(f"a partition of {each} …") for each in self.leaderless}
        marks = Watermarks(OffsetVector(), OffsetVector())
        return Bounds({each: marks for each in topics if each not in away}, away)

    def kinds(
        self, topics: Iterable[str], kind_of: Callable[[RawRecord], TopicKind]
    ) -> dict[str, TopicKind]:
        return {topic: kind_of_topic([*self._records(topic)], kind_of) for topic in topics}

    def firsts(self, topics: Iterable[str]) -> dict[str, tuple[RawRecord, ...]]:
        return {topic: tuple(self._records(topic))[:1] for topic in topics}

    def _records(self, topic: str) -> Iterator[RawRecord]:
        at = datetime(2026, 3, 1, tzinfo=UTC)
        for n, each in enumerate(self.values[topic]):
            yield RawRecord(Coordinate(topic, 0, n), at, None, each)


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with running() as made:
        yield made


def configured(folder: Path, registry: RegistryServer) -> ReplicationConfig:
    """One source in Avro, and one in JSON."""
    schemas = {"schema_registry": {"url": registry.url}}
    avro: dict[str, Any] = {**source("avro"), "format": "debezium-avro", **schemas}
    return write(
        folder / "replication.yaml", platform(sources={"avro": avro, "json": source("json")})
    )


def found(config: ReplicationConfig, topics: Topics) -> Discovery:
    services = Services(config)
    services.log = topics  # type: ignore[assignment]
    return discover(services)


def tables(looked: Discovery) -> list[str]:
    return sorted(str(table) for table in looked.registry.tables)


def test_a_schema_that_no_registry_knows_concerns_its_topic(
    tmp_path: Path, registry: RegistryServer
) -> None:
    looked = found(
        configured(tmp_path, registry),
        Topics({"avro.public.bad": [UNKNOWN], "json.public.good": [CHANGE], "avro.public.new": []}),
    )
    assert tables(looked) == ["avro.public.new", "json.public.good"]
    (refused,) = looked.refused
    assert "does not know the schema id" in str(refused)
    assert "topic=avro.public.bad" in str(refused)
    assert not looked.registry.others, "it is looked at again at once"


def test_a_field_of_another_type_concerns_its_topic(
    tmp_path: Path, registry: RegistryServer
) -> None:
    looked = found(
        configured(tmp_path, registry),
        Topics({"json.public.bad": [b'{"status": {}}'], "json.public.good": [CHANGE]}),
    )
    assert tables(looked) == ["json.public.good"]
    assert [each.topic for each in looked.registry.others] == ["json.public.bad"]


def test_a_partition_without_a_leader_concerns_its_topic(
    tmp_path: Path, registry: RegistryServer
) -> None:
    topics = {"json.public.bad": [CHANGE], "json.public.good": [CHANGE]}
    looked = found(configured(tmp_path, registry), Topics(topics, ["json.public.bad"]))
    assert tables(looked) == ["json.public.good"]
    assert "json.public.bad" in str(looked.refused[0])


def test_two_topics_of_one_table_concern_their_source(
    tmp_path: Path, registry: RegistryServer
) -> None:
    looked = found(
        configured(tmp_path, registry),
        Topics({"json.a.public.t": [CHANGE], "json.b.public.t": [CHANGE], "avro.public.new": []}),
    )
    assert tables(looked) == ["avro.public.new"]
    assert "two topics hold changes of json.public.t" in str(looked.refused[0])
