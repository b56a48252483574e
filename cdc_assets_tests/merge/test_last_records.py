"""The record before each range tells a log that was cut back and has grown again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.offsets import Coordinate, OffsetRange, OffsetVector
from cdc_assets.errors import LostRangeError
from cdc_assets.lake import Published
from cdc_assets.lake.carried import Carried, LastRecords
from cdc_assets.log.values import RawRecord
from cdc_assets.merge.intake.planning.continuity import last_records, require_unchanged
from cdc_assets.registry import TableEntry
from cdc_assets_tests.waiting import until
from cdc_assets_tests.world import NOW, World

ENTRY = TableEntry(TableName("s", "public", "t"), "t", LakeName("n", "t"), NOW)
RECORD = RawRecord(Coordinate("t", 0, 7), NOW, b"key", b"value")


@pytest.fixture
def world(tmp_path: Path, kafka_bootstrap: str) -> Iterator[World]:
    made = World(tmp_path, kafka_bootstrap)
    yield made
    made.close()


def published(last: LastRecords) -> Published:
    carried = Carried(last_merged=last)
    return Published(
        OffsetVector.of({0: 8}), OffsetVector(), "t", "id", "cluster", "", "", "tail", NOW, carried
    )


@pytest.mark.unit
@pytest.mark.parametrize(
    "other",
    [
        replace(RECORD, key=b"yek"),
        replace(RECORD, value=b"other"),
        replace(RECORD, key=b"keyv", value=b"alue"),
        replace(RECORD, timestamp=NOW + timedelta(milliseconds=1)),
    ],
    ids=["key", "value", "between key and value", "time"],
)
def test_another_record_has_another_digest(other: RawRecord) -> None:
    """Also if both have the place and the length."""
    assert other.digest != RECORD.digest
    found = {0: (7, other.digest)}
    with pytest.raises(LostRangeError, match=r"end of 0:\[\?,8\), .*topic=t\b.*resnapshot"):
        require_unchanged(ENTRY, published({0: (7, RECORD.digest)}), found, "resnapshot")


@pytest.mark.unit
def test_the_same_record_goes_on_also_by_its_short_digest_or_by_none() -> None:
    found = {0: (7, RECORD.digest)}
    for kept in (RECORD.digest, RECORD.digest % 2**12):
        require_unchanged(ENTRY, published({0: (7, kept)}), found, "")
    require_unchanged(ENTRY, published({}), {}, "")
    require_unchanged(ENTRY, None, {}, "")


def written(world: World, cleanup_policy: str = "delete") -> TableEntry:
    """Two records and the end of their Kafka transaction, which is an offset without a record."""
    topic = world.topic("t", cleanup_policy=cleanup_policy)
    producer = Producer({"bootstrap.servers": world.kafka, "transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    for n in range(2):
        producer.produce(topic, b"%d" % n, b"key", 0)
    producer.commit_transaction(20)
    log = world.services.log
    until(lambda: log.watermarks([topic])[topic].end.get(0) == 3, "the transaction is there")
    return replace(ENTRY, topic=topic)


@pytest.mark.stack
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_only_compaction_takes_a_record_away(world: World, policy: str) -> None:
    """Where the last merged record was, there is none: no digest is that of no record."""
    entry = written(world, cleanup_policy=policy)
    log, before = world.services.log, published({0: (2, 2**12 - 1)})
    marks = log.watermarks([entry.topic])[entry.topic]
    found, now = last_records(log, entry, before, marks, (OffsetRange(0, 0, 3),))
    assert now.keys() == {0}
    assert now[0][0] == 1, "the last record is before the end of its Kafka transaction"
    if policy == "compact":
        require_unchanged(entry, before, found, "")
    else:
        with pytest.raises(LostRangeError):
            require_unchanged(entry, before, found, "")


@pytest.mark.stack
def test_what_was_seen_last_is_found_again_unless_it_has_expired(world: World) -> None:
    entry = written(world)
    log = world.services.log
    marks = log.watermarks([entry.topic])[entry.topic]
    _, now = last_records(log, entry, None, marks, (OffsetRange(0, 0, 2),))
    found, _ = last_records(log, entry, published(now), marks, (OffsetRange(0, 2, 3),))
    assert found == now
    world.lose(entry.topic, 2)
    later = log.watermarks([entry.topic])[entry.topic]
    assert last_records(log, entry, published(now), later, (OffsetRange(0, 2, 3),)) == ({}, {})
