"""The quarantine table on real Spark: what is written, found, restated and removed."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.offsets import Coordinate, OffsetRange
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import RejectedRecordError
from cdc_assets.lake.quarantined import QuarantinedRecord, QuarantineLake
from cdc_assets.merge.statements import sql
from cdc_assets.merge.tables.quarantine import Origin, Quarantine
from cdc_assets.registry import TableEntry
from cdc_assets_tests.pipeline import Session

pytestmark = pytest.mark.spark

NOW = datetime(2026, 3, 4, 12, 30, tzinfo=UTC)
KAFKA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key: string, value: binary>>"
)
Place = tuple[int, int]
ID = "present"
"""Of the topic."""


class Source:
    """A source of its own, with tables of schema ``public``."""

    def __init__(self, config: ReplicationConfig, spark: Session) -> None:
        self.name = f"q{uuid.uuid4().hex[:8]}"
        self.spark = spark()
        self.catalog = config.lake.catalog.name
        self.quarantine = Quarantine(self.spark, self.catalog, self.name)
        self.lake = QuarantineLake(config)
        self.most_bytes = 1 << 30

    def entry(self, table: str) -> TableEntry:
        name = TableName(self.name, "public", table)
        return TableEntry(name, self.topic(table), LakeName(self.name, table), NOW)

    def topic(self, table: str) -> str:
        return f"{self.name}.public.{table}"

    def at(self, table: str, *places: Place) -> list[Coordinate]:
        return [Coordinate(self.topic(table), *place) for place in places]

    def raw(self, table: str, places: Iterable[Place]) -> DataFrame:
        rows = [
            (f"k{p}-{o}".encode(), f"v{p}-{o}".encode(), self.topic(table), p, o, NOW, 0,
             [("trace", b"header")])
            for p, o in places
        ]  # fmt: skip
        return self.spark.createDataFrame(rows, KAFKA)

    def set_aside(
        self,
        table: str,
        places: Sequence[Place],
        run_id: str = "run",
        read: Sequence[Place] = (),
        topic_id: str = ID,
    ) -> None:
        """Add records of one batch, of which ``read`` could be merged."""
        ends: dict[int, list[int]] = {}
        for partition, offset in (*places, *read):
            ends.setdefault(partition, []).append(offset)
        ranges = [OffsetRange(p, min(some), max(some) + 1) for p, some in ends.items()]
        reasons = [(*place, "why") for place in places]
        rejected = self.spark.createDataFrame(
            reasons, "partition int, offset bigint, reason string"
        )
        raw = self.raw(table, [*places, *read])
        origin = Origin(self.entry(table), topic_id, ranges, run_id, NOW)
        self.quarantine.add(raw, rejected, origin, self.most_bytes)

    def listed(self, table: str) -> dict[Place, QuarantinedRecord]:
        found, total = self.lake.quarantined(self.name, f"public.{table}", 10_000)
        assert total == len(found)
        return {(each.coordinate.partition, each.coordinate.offset): each for each in found}

    def stored(self) -> list[Place]:
        """Every row that is there."""
        name = sql.table(self.catalog, LakeName("cdc_assets_quarantine", self.name))
        rows = self.spark.table(name).select("partition", "offset").collect()
        return sorted((row["partition"], row["offset"]) for row in rows)

    def kept(self, table: str) -> list[tuple[int, int, str]]:
        found = self.quarantine.kept(self.entry(table).table)
        return [(each.at.partition, each.at.offset, each.topic_id) for each in found]

    def found(self, table: str, chosen: Sequence[Coordinate] | None = None) -> list[Place]:
        if chosen is None:
            return [(partition, offset) for partition, offset, _ in self.kept(table)]
        rows = self.quarantine.records(self.entry(table).table, ID, chosen).collect()
        return sorted((row["partition"], row["offset"]) for row in rows)

    def remove(self, table: str, *coordinates: Coordinate, topic_id: str = ID) -> None:
        self.quarantine.remove(self.entry(table).table, topic_id, coordinates)

    def forget_ids(self) -> None:
        """Make the quarantine one of an earlier version."""
        name = sql.table(self.catalog, LakeName("cdc_assets_quarantine", self.name))
        self.spark.sql(f"ALTER TABLE {name} DROP COLUMN topic_id")


@pytest.fixture
def source(stack_config: ReplicationConfig, spark: Session) -> Source:
    return Source(stack_config, spark)


def test_a_record_is_kept_with_its_bytes_and_found_as_kafka_gives_it(source: Source) -> None:
    source.set_aside("t", [(0, 5)], read=[(0, 6)])
    table = source.entry("t").table
    (row,) = source.quarantine.records(table, ID, source.at("t", (0, 5))).collect()
    assert row.asDict() == {
        "key": bytearray(b"k0-5"),
        "value": bytearray(b"v0-5"),
        "topic": source.topic("t"),
        "partition": 0,
        "offset": 5,
        "timestamp": NOW.astimezone().replace(tzinfo=None),
    }
    listed = source.listed("t")[0, 5]
    assert (listed.table, listed.reason, listed.run_id) == ("public.t", "why", "run")
    assert (listed.timestamp, listed.quarantined_at) == (NOW, NOW)


def test_no_more_bytes_are_kept_than_the_bound_of_the_table(source: Source) -> None:
    each = len(b"k0-5" + b"v0-5")
    source.set_aside("other", [(0, n) for n in range(5)])
    source.most_bytes = 3 * each
    source.set_aside("t", [(0, 5), (0, 6)])
    with pytest.raises(RejectedRecordError, match=f"{4 * each} bytes.*more than {3 * each}"):
        source.set_aside("t", [(0, 6), (0, 7), (0, 8)])
    assert source.found("t") == [(0, 5), (0, 6)], "none of them"
    source.set_aside("t", [(0, 5), (0, 6), (0, 7)])
    assert source.found("t") == [(0, 5), (0, 6), (0, 7)], "what is there counts once"


def test_headers_are_kept_out(source: Source) -> None:
    source.set_aside("t", [(0, 5)])
    name = sql.table(source.catalog, LakeName("cdc_assets_quarantine", source.name))
    assert "headers" not in source.spark.table(name).columns


def test_a_coordinate_is_written_once_and_is_one_of_its_topic(source: Source) -> None:
    source.set_aside("t", [(0, 5), (1, 5)], "first")
    source.set_aside("other", [(0, 5)])
    source.set_aside("t", [(0, 5), (0, 7)], "second", read=[(0, 2), (1, 5), (1, 6)])
    assert {place: each.run_id for place, each in source.listed("t").items()} == {
        (0, 5): "first",
        (0, 7): "second",
        (1, 5): "first",
    }
    assert source.stored() == [(0, 5), (0, 5), (0, 7), (1, 5)]
    assert source.found("other") == [(0, 5)]


def test_what_two_writers_wrote_twice_is_found_once_and_removed_at_once(source: Source) -> None:
    source.set_aside("t", [(0, 5)])
    name = sql.table(source.catalog, LakeName("cdc_assets_quarantine", source.name))
    source.spark.table(name).writeTo(name).append()
    assert source.stored() == [(0, 5), (0, 5)]
    assert source.found("t") == [(0, 5)]
    assert list(source.listed("t")) == [(0, 5)]

    source.remove("t", *source.at("t", (0, 5)))
    assert source.stored() == []


def test_chosen_records_are_found_as_far_as_they_are_there(source: Source) -> None:
    source.set_aside("t", [(0, 5), (0, 6), (1, 5)])
    source.set_aside("other", [(0, 7)])
    chosen = source.at("t", (0, 6), (1, 5), (0, 7), (2, 5))
    assert source.found("t", chosen) == [(0, 6), (1, 5)]
    assert source.found("t", []) == []


def test_where_nothing_was_ever_set_aside_nothing_is_found(source: Source) -> None:
    assert source.found("t") == []
    assert source.lake.quarantined(source.name, None, 1) == ((), 0)
    assert source.lake.tables_in_quarantine(source.name) == frozenset()


def test_only_what_is_named_is_removed_in_one_commit(source: Source) -> None:
    source.set_aside("t", [(0, n) for n in range(2500)])
    source.set_aside("other", [(0, 0), (0, 1)])
    name = LakeName("cdc_assets_quarantine", source.name)
    before = len(source.lake.parents(name))

    source.remove("t", *source.at("t", *((0, n) for n in range(1, 2400))))
    assert len(source.lake.parents(name)) == before + 1
    assert source.found("t") == [(0, 0), *((0, n) for n in range(2400, 2500))]
    assert len(source.listed("t")) == 101
    assert source.found("other") == [(0, 0), (0, 1)]

    foreign = [*source.at("t", (0, 0)), *source.at("other", (0, 0))]
    source.remove("other", *foreign)
    assert source.found("other") == [(0, 1)]
    assert (0, 0) in source.found("t"), "of another table"
    assert source.lake.tables_in_quarantine(source.name) == {"public.t", "public.other"}


def test_a_new_reason_replaces_the_old_one_of_that_record_only(source: Source) -> None:
    source.set_aside("t", [(0, 5), (0, 6)])
    (again,) = source.at("t", (0, 6))
    source.quarantine.restate(source.entry("t").table, ID, [(again, "it's `still` bad")])
    reasons = {place: each.reason for place, each in source.listed("t").items()}
    assert reasons == {(0, 5): "why", (0, 6): "it's `still` bad"}
    assert source.found("t") == [(0, 5), (0, 6)]


def test_what_two_tables_of_a_topic_refuse_each_of_them_keeps(source: Source) -> None:
    """Nobody could tell whose it is: what becomes of it for one table is not the other's affair."""
    topic = source.topic("shared")
    one, two = (replace(source.entry(name), topic=topic) for name in ("one", "two"))
    raw = source.raw("shared", [(0, 5)])
    why = source.spark.createDataFrame(
        [(0, 5, "why")], "partition int, offset bigint, reason string"
    )
    for entry in (one, two, two):
        origin = Origin(entry, ID, [OffsetRange(0, 0, 9)], "run", NOW)
        source.quarantine.add(raw, why, origin, source.most_bytes)
    assert [source.quarantine.count(each.table) for each in (one, two)] == [1, 1]
    (place,) = source.at("shared", (0, 5))
    source.quarantine.restate(two.table, ID, [(place, "another reason")])
    assert [source.listed(name)[0, 5].reason for name in ("one", "two")] == [
        "why", "another reason",
    ]  # fmt: skip
    source.quarantine.remove(one.table, ID, [place])
    assert [source.quarantine.count(each.table) for each in (one, two)] == [0, 1]


def test_records_of_two_topics_of_one_name_are_kept_apart(source: Source) -> None:
    source.set_aside("t", [(0, 5), (0, 6)], "first", topic_id="former")
    source.set_aside("t", [(0, 5)], "second")
    assert source.kept("t") == [(0, 5, "former"), (0, 5, ID), (0, 6, "former")]
    places = source.at("t", (0, 5), (0, 6))
    assert source.found("t", places) == [(0, 5)]
    source.quarantine.restate(source.entry("t").table, ID, [(places[0], "another")])
    listed, _ = source.lake.quarantined(source.name, "public.t", 10)
    said = {(each.coordinate.offset, each.topic_id): each.reason for each in listed}
    assert said == {(5, "former"): "why", (5, ID): "another", (6, "former"): "why"}
    source.remove("t", *places)
    assert source.kept("t") == [(0, 5, "former"), (0, 6, "former")]


def test_what_an_earlier_version_set_aside_counts_as_of_any_topic(source: Source) -> None:
    source.set_aside("t", [(0, 5), (0, 6)])
    source.forget_ids()
    assert source.kept("t") == [(0, 5, ""), (0, 6, "")]
    places = source.at("t", (0, 5), (0, 6))
    assert source.found("t", places) == [(0, 5), (0, 6)]
    assert {each.topic_id for each in source.listed("t").values()} == {""}
    source.set_aside("t", [(0, 5), (0, 7)])
    assert source.kept("t") == [(0, 5, ""), (0, 6, ""), (0, 7, ID)]
    source.forget_ids()
    source.quarantine.restate(source.entry("t").table, ID, [(places[1], "another")])
    assert source.listed("t")[0, 6].reason == "another"
    source.forget_ids()
    source.remove("t", places[0])
    assert source.found("t") == [(0, 6), (0, 7)]
