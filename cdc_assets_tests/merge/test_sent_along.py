"""The few records of a small batch, read by this process, are those that Spark reads."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.errors import TransientError
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.merge.intake.read import FEW_BYTES, WITH_HEADERS, read_ranges, sent_along
from cdc_assets_tests.merge.one_table import TABLE, Make
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.waiting import until

pytestmark = pytest.mark.stack

COLUMNS = ("topic", "partition", "offset", "key", "value", "timestamp", "headers")
AT_MS = 1_760_000_000_123
ODD = (
    Message(b"k", b"v", 0, (("a", b"1"), ("a", b"2"), ("", b"")), AT_MS),
    Message(None, b"", 1, (), AT_MS + 1),
    Message(b"", None, 0, (), 0),
    Message(b"\xff\x00", b"\x00" * 100_000, 1, (), AT_MS + 2),
    Message(None, None, 0, (), AT_MS + 3),
)


def log_of(made: Pipeline) -> KafkaLog:
    return KafkaLog(made.config.kafka.librdkafka())


def transaction(made: Pipeline, *values: bytes, commits: bool) -> None:
    servers = made.base.kafka.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "transactional.id": made.topic(TABLE)})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(made.topic(TABLE), value, partition=0)
    producer.flush(30)
    if commits:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def both(made: Pipeline, *ranges: OffsetRange) -> list[tuple[object, ...]]:
    """What Spark reads of them; the same as what is sent along."""
    topic, spark = made.topic(TABLE), made.spark()
    options = {**made.config.kafka.spark_options(), **WITH_HEADERS}
    by_spark = read_ranges(spark, topic, ranges, options).select(*COLUMNS)
    found = log_of(made).whole(topic, ranges, FEW_BYTES)
    assert found is not None
    along = sent_along(spark, found, with_headers=True).select(*COLUMNS)
    assert along.schema.simpleString() == by_spark.schema.simpleString()
    rows = [tuple(row) for row in by_spark.orderBy("partition", "offset").collect()]
    assert [tuple(row) for row in along.collect()] == rows
    return rows


def test_every_kind_of_record_and_gap(pipeline: Make) -> None:
    made = pipeline()
    made.create_topic(TABLE, 2)
    made.produce(TABLE, ODD)
    transaction(made, b"not there", b"neither", commits=False)
    transaction(made, b"there", commits=True)
    topic, log = made.topic(TABLE), log_of(made)
    until(lambda: dict(log.ends({topic: [0, 1]})[topic]) == {0: 8, 1: 2}, "all records and marks")
    whole = both(made, OffsetRange(0, 0, 8), OffsetRange(1, 0, 2))
    assert len(whole) == len(ODD) + 1
    assert len(both(made, OffsetRange(0, 1, 4), OffsetRange(1, 1, 2))) == 3
    aborted = OffsetRange(0, 3, 5)
    assert log.whole(topic, [aborted], FEW_BYTES) == []


def test_what_is_not_there_whole_is_an_error(pipeline: Make) -> None:
    made = pipeline()
    topic = made.create_topic(TABLE)
    made.produce(TABLE, [Message(b"k", str(n).encode()) for n in range(6)])
    log = log_of(made)
    with pytest.raises(TransientError, match="ends at offset 6, and its end was 7"):
        log.whole(topic, [OffsetRange(0, 4, 7)], FEW_BYTES)
    made.expire(TABLE, 3)
    with pytest.raises(TransientError, match=r"not in the log any more.*topic=.* partition=0"):
        log.whole(topic, [OffsetRange(0, 2, 6)], FEW_BYTES)
    found = log.whole(topic, [OffsetRange(0, 3, 6)], FEW_BYTES)
    assert found is not None
    assert [each.value for each in found] == [b"3", b"4", b"5"]


def test_large_records_and_times_that_python_has_not_are_left_to_spark(pipeline: Make) -> None:
    made = pipeline()
    topic = made.create_topic(TABLE, **{"message.timestamp.after.max.ms": str(2**63 - 1)})
    in_year_9900 = 250_000_000_000_000
    made.produce(TABLE, [Message(b"k", b"v" * 300), Message(b"k", b"v", 0, (), in_year_9900)])
    log = log_of(made)
    assert log.whole(topic, [OffsetRange(0, 0, 1)], 300) is None
    found = log.whole(topic, [OffsetRange(0, 0, 1)], 301)
    assert found is not None
    assert len(found) == 1
    assert log.whole(topic, [OffsetRange(0, 1, 2)], FEW_BYTES) is None
