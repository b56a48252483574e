"""Batches end between transactions: on a real broker."""

import json
import time
import uuid
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_assets.changes.offsets import OffsetRange, OffsetVector
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.reader import Reader
from cdc_assets_tests.formats.debezium import debezium_json

PARTITIONS = 4
START = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1000)


class Connector:
    """Writes as Debezium's PostgreSQL connector does; the clock advances by 1 ms a change."""

    def __init__(self, bootstrap, partitions=PARTITIONS, inline=False):
        self.bootstrap = bootstrap
        self.prefix = f"t{uuid.uuid4().hex}"
        self.topic, self.metadata = f"{self.prefix}.public.x", f"{self.prefix}.transaction"
        keep = {"retention.ms": "-1"}
        admin = AdminClient({"bootstrap.servers": bootstrap})
        made = admin.create_topics([
            NewTopic(self.topic, partitions, 1, config=keep),
            NewTopic(self.metadata, 2, 1, config=keep),
        ])  # fmt: skip
        for future in made.values():
            future.result()
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
        self.log = KafkaLog({"bootstrap.servers": bootstrap})
        self.inline, self.partitions = inline, partitions
        self.clock, self.lsn, self.last_commit, self.number = START, 1000, None, 500

    def transaction(self, size, end=True, upto=None, deletes=()):
        """A transaction, its changes in all partitions in turn."""
        self.number += 1
        self._metadata({"status": "BEGIN", "id": f"{self.number}:{self.lsn}"})
        for place in range(1, (upto or size) + 1):
            self.change(place, "d" if place in deletes else "c")
        commit = self.lsn + 5
        if end:
            self.end(size)
        self.last_commit, self.lsn = commit, commit + 10
        self.producer.flush()

    def aborts(self, count):
        """A Kafka transaction of this many records in each partition, which is aborted."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": self.prefix})
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(count * self.partitions):
            producer.produce(self.topic, b"{}", b"k", partition=number % self.partitions)
        producer.flush()
        producer.abort_transaction()

    def change(self, place, op="c"):
        self.lsn += 1
        block = {
            "id": f"{self.number}:{self.lsn}",
            "total_order": place * 2,
            "data_collection_order": place,
        }
        value = self._event(op, None if op == "r" else block)
        partition = place % self.partitions
        self._send(self.topic, value, partition)
        if op == "d":
            self._send(self.topic, None, partition)

    def rows(self, count):
        """A snapshot."""
        value = self._event("r", None)
        for row in range(count):
            self._send(self.topic, value, row % self.partitions)
        self.lsn += 10
        self.producer.flush()

    def end(self, size):
        self._metadata({
            "status": "END",
            "id": f"{self.number}:{self.lsn + 5}",
            "event_count": size * 2,
            "data_collections": [
                {"data_collection": "public.other", "event_count": size},
                {"data_collection": "public.x", "event_count": size},
            ],
        })  # fmt: skip
        self.producer.flush()

    def aligned(self, ranges=None, *, forward=False):
        end = self.log.watermarks([self.topic])[self.topic].end
        metadata = self.metadata
        transactions = self.log.transactions((self.topic, metadata), "public.x", debezium_json())
        ranges = OffsetVector().ranges_to(end) if ranges is None else ranges
        return {r.partition: (r.start, r.end) for r in transactions.aligned(
            tuple(ranges), end, forward=forward
        ).ranges}  # fmt: skip

    def _event(self, op, block):
        commit = None if self.last_commit is None else str(self.last_commit)
        sequence = json.dumps([None if op == "r" else commit, str(self.lsn)])
        source = {"connector": "postgresql", "lsn": self.lsn, "sequence": sequence}
        after = {"id": 1, "note": "n" * 300}
        return {"before": None, "after": after, "source": source, "op": op, "transaction": block}

    def _metadata(self, value):
        self._send(self.metadata, value, self.number % 2)

    def _send(self, topic, value, partition):
        self.clock += 1
        if value is not None:
            value = {"schema": {"type": "struct"}, "payload": value} if self.inline else value
            value = json.dumps(value)
        while True:
            try:
                self.producer.produce(topic, value, b"k", partition=partition, timestamp=self.clock)
            except BufferError:
                self.producer.poll(0.1)
            else:
                return


@pytest.fixture
def connector(kafka_bootstrap):
    return Connector(kafka_bootstrap)


def even(end):
    return dict.fromkeys(range(PARTITIONS), (0, end))


def first(ends):
    return [OffsetRange(partition, 0, end) for partition, end in enumerate(ends)]


@pytest.mark.stack
@pytest.mark.parametrize("inline", [False, True], ids=["plain", "inline schema"])
def test_the_last_transaction_waits_for_its_end(kafka_bootstrap, inline):
    connector = Connector(kafka_bootstrap, inline=inline)
    connector.transaction(8)
    connector.transaction(4, end=False)
    assert connector.aligned() == even(2)
    connector.end(4)
    assert connector.aligned() == even(3)


@pytest.mark.stack
def test_an_end_that_comes_before_the_last_changes_is_not_believed(connector):
    connector.transaction(8)
    connector.transaction(8, upto=6)
    assert connector.aligned() == even(2)


@pytest.mark.stack
def test_a_limit_inside_a_transaction_goes_back_to_the_one_before(connector):
    for _ in range(3):
        connector.transaction(8)
    assert connector.aligned(first([3, 4, 4, 4])) == even(2)
    assert connector.aligned(first([4, 4, 4, 4])) == even(4)
    assert connector.aligned(first([1, 1, 1, 1])) == even(2)
    assert connector.aligned(first([0, 3, 0, 0]), forward=True) == even(4)


@pytest.mark.stack
def test_a_tombstone_stays_with_its_delete(connector):
    connector.transaction(4, deletes=[1])
    connector.transaction(4)
    assert connector.aligned(first([1, 1, 1, 1])) == even(1) | {1: (0, 2)}


@pytest.mark.stack
def test_snapshot_rows_may_be_cut_anywhere(connector):
    connector.rows(40_000)
    assert connector.aligned(first([7, 9, 11, 13])) == {
        0: (0, 7),
        1: (0, 9),
        2: (0, 11),
        3: (0, 13),
    }
    connector.transaction(8, end=False)
    assert connector.aligned(first([10_001, 70, 80, 90])) == {
        0: (0, 10_000),
        1: (0, 70),
        2: (0, 80),
        3: (0, 90),
    }
    assert connector.aligned() == even(10_000)


@pytest.mark.stack
def test_one_cursor_reads_exactly_what_it_is_asked_for_again_and_again(connector):
    """Nothing that was fetched for a read before, finished or given up, gets into the next."""
    connector.rows(2000)
    cases = st.lists(st.tuples(st.integers(0, 499), st.integers(0, 500), st.booleans()))
    with Reader({"bootstrap.servers": connector.bootstrap}, 10).cursor() as cursor:

        @settings(max_examples=40, deadline=None)
        @given(cases)
        def reads(reads):
            for start, end, given_up in reads:
                spans = {(connector.topic, p): (start, end) for p in range(PARTITIONS)}
                found = cursor.records(spans)
                if given_up:
                    next(found, None)
                    continue
                offsets = sorted((r.coordinate.partition, r.coordinate.offset) for r in found)
                assert offsets == [(p, at) for p in range(PARTITIONS) for at in range(start, end)]

        reads()


@pytest.mark.stack
def test_a_topic_of_one_partition(kafka_bootstrap):
    connector = Connector(kafka_bootstrap, partitions=1)
    connector.transaction(5)
    connector.transaction(5)
    assert connector.aligned(first([7])) == {0: (0, 5)}
    assert connector.aligned(first([2])) == {0: (0, 5)}
    assert connector.aligned(first([5])) == {0: (0, 5)}


@pytest.mark.stack
@pytest.mark.parametrize("partitions", [1, PARTITIONS])
def test_a_kafka_transaction_that_was_aborted_does_not_hide_half_of_one(
    kafka_bootstrap, partitions
):
    connector = Connector(kafka_bootstrap, partitions=partitions)
    connector.transaction(partitions)
    connector.transaction(20 * partitions, end=False, upto=5 * partitions)
    connector.aborts(100)
    assert connector.aligned() == dict.fromkeys(range(partitions), (0, 1))
    inside = [OffsetRange(partition, 1, 50) for partition in range(partitions)]
    assert connector.aligned(inside) == {}


@pytest.mark.stack
def test_a_transaction_of_many_changes_is_taken_in_whole(connector):
    connector.transaction(100_000)
    connector.transaction(4)
    limit = first([250, 250, 250, 250])
    started = time.monotonic()
    assert connector.aligned(limit) == even(25_000)
    assert time.monotonic() - started < 5
    connector.transaction(100_000, end=False)
    assert connector.aligned() == even(25_001)


@pytest.mark.stack
def test_what_a_connector_sends_again_does_not_split_a_transaction(connector):
    connector.transaction(8)
    before = connector.number, connector.lsn, connector.last_commit
    connector.transaction(8)
    connector.transaction(8)
    connector.number, connector.lsn, connector.last_commit = before
    connector.transaction(8)
    connector.transaction(8)
    connector.transaction(8, end=False)
    assert connector.aligned() == even(10)
    assert connector.aligned(first([3, 4, 4, 4])) == even(2)
