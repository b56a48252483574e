"""`KafkaLog` against a real broker, and against none."""

import socket
import time
import uuid
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.errors import ConfigError, UnreachableError
from cdc_assets.log.hours import HOUR, HOURS_START, HourWindow, hour_of
from cdc_assets.log.kafka import KafkaLog
from cdc_assets_tests.waiting import until

START = datetime(2026, 3, 1, tzinfo=UTC)


class Broker:
    """Makes topics with records at chosen places and times."""

    def __init__(self, bootstrap):
        self.conf = {"bootstrap.servers": bootstrap}
        self.admin = AdminClient(self.conf)

    def topic(self, partitions=2):
        name = f"t{uuid.uuid4().hex}.public.x"
        keep = {"retention.ms": "-1"}  # the records' times are older than Kafka's default week
        self._done(self.admin.create_topics([NewTopic(name, partitions, 1, config=keep)]))
        return name

    def delete_before(self, topic, offset):
        self._done(self.admin.delete_records([TopicPartition(topic, 0, offset)]))

    def drop(self, topic):
        self._done(self.admin.delete_topics([topic]))

    def recreate(self, topic):
        self._done(self.admin.create_topics([NewTopic(topic, 1, 1)]))

    def write(self, topic, records, **conf):
        """Records are ``(partition, minutes after START, value)``."""
        producer = Producer({**self.conf, **conf})
        if conf:
            producer.init_transactions()
            producer.begin_transaction()
        for partition, minutes, value in records:
            at = START + timedelta(minutes=minutes)
            stamp = int(at.timestamp() * 1000)
            producer.produce(topic, value, b"k", partition=partition, timestamp=stamp)
        producer.flush()
        return producer

    @staticmethod
    def _done(futures):
        for future in futures.values():
            future.result()


@pytest.fixture(scope="module")
def broker(kafka_bootstrap):
    return Broker(kafka_bootstrap)


@pytest.fixture(scope="module")
def log(kafka_bootstrap):
    return KafkaLog({"bootstrap.servers": kafka_bootstrap})


@pytest.mark.stack
def test_watermarks_of_many_topics(broker, log):
    full, empty = broker.topic(3), broker.topic(1)
    broker.write(full, [(0, 0, b"a"), (0, 1, b"b"), (2, 2, b"c")])
    marks = log.watermarks([full, empty, "not.a.topic"])
    assert set(marks) == {full, empty}
    assert marks[full].begin == OffsetVector.of({0: 0, 1: 0, 2: 0})
    assert marks[full].end == OffsetVector.of({0: 2, 1: 0, 2: 1})
    assert marks[empty].end == OffsetVector.of({0: 0})
    assert {full, empty} <= set(log.topics())


@pytest.mark.stack
def test_a_recreated_topic_has_another_identity(broker, log):
    topic = broker.topic(1)
    before = log.identity([topic, "not.a.topic"])
    assert set(before) == {topic}
    assert log.identity([topic]) == before
    broker.drop(topic)
    until(lambda: log.identity([topic]) == {}, "the topic is gone")
    broker.recreate(topic)
    until(lambda: topic in log.identity([topic]), "the topic is there")
    after = log.identity([topic])
    assert after[topic].topic_id != before[topic].topic_id
    assert after[topic].cluster_id == before[topic].cluster_id


@pytest.mark.stack
def test_offsets_at_a_time_are_the_first_at_or_after_it(broker, log):
    topic = broker.topic(2)
    broker.write(topic, [(0, 0, b"a"), (0, 10, b"b"), (0, 5, b"c"), (0, 20, b"d")])
    at = [START + timedelta(minutes=minutes) for minutes in (-1, 0, 1, 10, 11, 21)]
    found = log.offsets_at([topic], at)
    assert [found[topic, time].get(0) for time in at] == [0, 0, 1, 1, 3, 4]
    assert all(found[topic, time].get(1) == 0 for time in at)


@pytest.mark.stack
def test_a_time_between_two_milliseconds_stands_for_the_later_one(broker, log):
    topic = broker.topic(1)
    broker.write(topic, [(0, 0, b"a")])
    just_after = START + timedelta(microseconds=1)
    assert log.offsets_at([topic], [START, just_after]) == {
        (topic, START): OffsetVector.of({0: 0}),
        (topic, just_after): OffsetVector.of({0: 1}),
    }


@pytest.mark.stack
def test_records_of_an_open_transaction_are_not_there_yet(broker, log):
    topic = broker.topic(1)
    broker.write(topic, [(0, 0, b"a")])
    producer = broker.write(topic, [(0, 1, b"b")], **{"transactional.id": topic})
    assert log.watermarks([topic])[topic].end == OffsetVector.of({0: 1})
    assert log.offsets_at([topic], [START + HOUR])[topic, START + HOUR].get(0) == 1
    producer.commit_transaction()
    # The record and the commit marker.
    until(lambda: log.watermarks([topic])[topic].end.get(0) == 3, "the transaction is there")
    assert log.first_unread({topic: OffsetVector.of({0: 2})}) == {topic: None}


@pytest.mark.stack
def test_the_first_unread_record_is_the_oldest_over_partitions(broker, log):
    topic, done = broker.topic(3), broker.topic(1)
    broker.write(topic, [(0, 0, b"a"), (0, 30, b"b"), (1, 20, b"c"), (1, 1, b"d")])
    broker.write(done, [(0, 0, b"a")])
    positions = {topic: OffsetVector.of({0: 1}), done: OffsetVector.of({0: 1})}
    assert log.first_unread(positions) == {topic: START + timedelta(minutes=20), done: None}


@pytest.mark.stack
def test_a_position_below_the_log_counts_as_its_beginning(broker, log):
    topic = broker.topic(1)
    broker.write(topic, [(0, minutes, b"x") for minutes in range(5)])
    broker.delete_before(topic, 3)
    assert log.watermarks([topic])[topic].begin == OffsetVector.of({0: 3})
    assert log.first_unread({topic: OffsetVector()}) == {topic: START + timedelta(minutes=3)}


@pytest.mark.stack
def test_records_have_their_headers_in_order(broker, log):
    topic = broker.topic(partitions=1)
    headers = [("a", b"1"), ("b", None), ("a", b"\xff")]
    producer = Producer(broker.conf)
    producer.produce(topic, b"v", headers=headers)
    producer.produce(topic, b"v")
    producer.flush()
    assert [each.headers for each in log.sample(topic, 2)] == [tuple(headers), ()]


@pytest.mark.stack
def test_a_sample_holds_the_first_records_with_a_value(broker, log):
    topic = broker.topic(2)
    broker.write(topic, [(0, 0, None), (0, 1, b"a"), (0, 2, None), (0, 3, b"b"), (1, 4, b"c")])
    found = log.sample(topic, 10)
    assert [(r.coordinate.partition, r.coordinate.offset, r.value) for r in found] == [
        (0, 1, b"a"),
        (0, 3, b"b"),
        (1, 0, b"c"),
    ]
    assert found[0].timestamp == START + timedelta(minutes=1)
    assert found[0].key == b"k"
    assert len(log.sample(topic, 1)) == 1
    assert log.sample("not.a.topic", 5) == ()
    assert log.sample(broker.topic(1), 5) == ()


@pytest.mark.stack
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(minutes=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 300)), max_size=25))
def test_hours_tile_a_real_log_even_when_timestamps_are_out_of_order(broker, log, minutes):
    topic = broker.topic(2)
    broker.write(topic, [(partition, minute, b"x") for partition, minute in minutes])
    first = HourWindow.starting(HOURS_START)
    windows = [first, *(HourWindow.starting(START + hours * HOUR) for hours in range(6))]
    found = log.window_offsets([topic], windows)
    cuts = [found[topic, window] for window in windows]
    marks = log.watermarks([topic])[topic]
    assert cuts[0].start == marks.begin
    assert cuts[-1].end == marks.end
    for one, following in pairwise(cuts):
        assert one.end == following.start
    broker.drop(topic)


@pytest.mark.stack
def test_answers_for_many_topics_take_few_requests(broker, log):
    topics = [broker.topic(4) for _ in range(20)]
    for topic in topics:
        broker.write(topic, [(partition, 1, b"x") for partition in range(4)])
    started = time.monotonic()
    assert len(log.watermarks(topics)) == 20
    assert len(log.identity(topics)) == 20
    assert len(log.window_offsets(topics, [hour_of(START)])) == 20
    unread = log.first_unread(dict.fromkeys(topics, OffsetVector()))
    assert unread == dict.fromkeys(topics, START + timedelta(minutes=1))
    assert time.monotonic() - started < 10


@pytest.mark.unit
def test_no_topics_need_no_broker():
    log = KafkaLog({"bootstrap.servers": "127.0.0.1:1"}, timeout_seconds=1)
    assert log.identity([]) == {}


@pytest.mark.unit
@pytest.mark.parametrize("listens", [False, True], ids=["nobody listens", "nobody answers"])
def test_an_unreachable_broker_is_named(listens):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listens:
            server.listen()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        log = KafkaLog({"bootstrap.servers": address}, timeout_seconds=0.3)
        with pytest.raises(UnreachableError) as caught:
            log.watermarks(["x"])
    assert address in str(caught.value)
    assert "kafka.bootstrap_servers" in str(caught.value)


@pytest.mark.unit
def test_a_property_that_the_client_does_not_accept_is_named_without_its_value():
    conf = {"bootstrap.servers": "x", "security.protocol": "hunter2"}
    with pytest.raises(ConfigError, match=r"security\.protocol") as caught:
        KafkaLog(conf).topics()
    assert "hunter2" not in str(caught.value)


@pytest.mark.unit
def test_a_time_without_a_zone_is_refused():
    log = KafkaLog({"bootstrap.servers": "127.0.0.1:1"}, timeout_seconds=1)
    with pytest.raises(ValueError, match="zone"):
        log.offsets_at(["x"], [datetime(2026, 1, 1)])  # noqa: DTZ001
