"""Look-ups of many partitions: the time-out is one for silence."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from cdc_assets.changes.offsets import Coordinate, OffsetVector
from cdc_assets.errors import TransientError, UnreachableError
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.reader import Cursor, Place, Reader, Silence
from cdc_assets.log.values import RawRecord
from cdc_assets_tests.toy.profiles import in_soak, is_soak

PARTITIONS = 2_000 if is_soak() else 500


@pytest.fixture(scope="module")
def wide(kafka_bootstrap: str) -> Iterator[str]:
    """A topic of many partitions with two records in each."""
    topic = f"t{uuid.uuid4().hex}.public.wide"
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        future.result(240)
    log = KafkaLog({"bootstrap.servers": kafka_bootstrap}, timeout_seconds=120)
    assert len(log.watermarks([topic])[topic].end.offsets) == PARTITIONS
    producer = Producer({"bootstrap.servers": kafka_bootstrap, "linger.ms": 50})
    for partition in range(PARTITIONS):
        for _ in range(2):
            producer.produce(topic, b'{"op": "c"}', b"k", partition=partition)
        producer.poll(0)
    assert producer.flush(240) == 0
    yield topic
    for future in admin.delete_topics([topic]).values():
        future.result(240)


@pytest.mark.stack
def test_a_look_up_of_many_partitions_finds_the_first_record_of_each(
    wide: str, kafka_bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    starts = {wide: OffsetVector.of(dict.fromkeys(range(PARTITIONS), 0))}
    started = time.monotonic()
    found = Reader({"bootstrap.servers": kafka_bootstrap}, 10).first_of_each(starts)
    took = time.monotonic() - started
    coordinates = sorted((each.coordinate.partition, each.coordinate.offset) for each in found)
    assert coordinates == [(partition, 0) for partition in range(PARTITIONS)]
    with capsys.disabled():
        print(f"\nfirst records of {PARTITIONS} partitions: {took:.1f} s")


@in_soak
@pytest.mark.stack
def test_work_on_the_records_of_many_partitions_does_not_count(
    wide: str, kafka_bootstrap: str
) -> None:
    """Three times the time-out is spent on records, none of it waiting for Kafka."""
    timeout = 3.0
    spans = {(wide, partition): (0, 2) for partition in range(PARTITIONS)}
    work, records = 0.0, 0
    with Reader({"bootstrap.servers": kafka_bootstrap}, timeout).cursor() as cursor:
        for _ in cursor.records(spans):
            records += 1
            if work < 3 * timeout:
                time.sleep(0.01)  # the caller's work
                work += 0.01
    assert records == 2 * PARTITIONS
    assert work >= 3 * timeout


@pytest.mark.stack
def test_a_partition_that_does_not_exist_ends_the_look_up(wide: str, kafka_bootstrap: str) -> None:
    spans = {(wide, 0): (0, 1), (wide, PARTITIONS + 7): (0, 1)}
    reader = Reader({"bootstrap.servers": kafka_bootstrap}, 2)
    with pytest.raises(UnreachableError) as caught, reader.cursor() as cursor:
        list(cursor.records(spans))
    assert f"{PARTITIONS + 7}" in str(caught.value) or "UNKNOWN" in str(caught.value)


@pytest.mark.unit
def test_silence_is_what_lasts_and_not_what_adds_up() -> None:
    silence = Silence(10, partitions=2_000)
    for _ in range(20):
        silence.waited(9)
        assert not silence.is_too_long
        silence.broken()
    silence.waited(10)
    assert silence.is_too_long
    assert silence.seconds == 10


@pytest.mark.unit
def test_even_without_silence_a_look_up_ends() -> None:
    """The more there is to come, the later."""

    def waits(partitions: int) -> int:
        silence, waited = Silence(10, partitions), 0
        while not silence.is_too_long:
            silence.waited(5)
            silence.broken()
            waited += 5
        return waited

    assert waits(1) == 15
    assert 200 < waits(2_000) < 230


class RestartedConsumer:
    """A consumer that has gone back to the log's begin, as the log does not hold its offset.

    Its broker refuses times that stand for nothing, as brokers do.
    """

    def assign(self, places: object) -> None: ...

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=[0])})

    def offsets_for_times(
        self, asked: list[TopicPartition], timeout: float
    ) -> list[TopicPartition]:
        if any(each.offset < OFFSET_BEGINNING for each in asked):
            raise KafkaException(KafkaError(KafkaError.UNSUPPORTED_VERSION))
        return [TopicPartition(each.topic, each.partition, 7) for each in asked]

    def events(self, _: object, waiting: Collection[Place]) -> Iterator[tuple[Place, RawRecord]]:
        for place in [*waiting]:
            yield (
                place,
                RawRecord(Coordinate(*place, 0), datetime(2026, 3, 4, tzinfo=UTC), b"", b""),
            )


@pytest.mark.unit
def test_records_from_before_a_span_are_none_of_it() -> None:
    consumer = RestartedConsumer()
    cursor = Cursor(cast("Consumer", consumer), consumer.events, 1)
    with pytest.raises(TransientError, match="not in the log any more"):
        list(cursor.records({("t", 0): (5, 7)}))


@pytest.mark.unit
def test_offsets_are_found_for_records_without_a_time() -> None:
    consumer = RestartedConsumer()
    cursor = Cursor(cast("Consumer", consumer), consumer.events, 1)
    assert cursor.offsets_at("t", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)) == {0: 7}
