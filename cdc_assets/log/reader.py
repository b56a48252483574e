"""Reads a few records by a short-lived consumer: assigned, never subscribed, nothing committed.

The time-out limits silence: it restarts whenever a partition that is still read from has answered,
and the time that the caller spends on a record does not count. A look-up ends even if partitions
answer slowly one after another: its total wait is limited in proportion to their number.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from cdc_assets.changes.offsets import Coordinate, OffsetVector
from cdc_assets.effects import effect
from cdc_assets.log.errors import ends_early, gone, no_answer, place_of, translate
from cdc_assets.log.values import RawRecord

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_MILLISECOND: Final = timedelta(milliseconds=1)
_FIRST_MILLIS: Final = (datetime(1000, 1, 1, tzinfo=UTC) - EPOCH) // _MILLISECOND
_LAST_MILLIS: Final = (datetime(9000, 1, 1, tzinfo=UTC) - EPOCH) // _MILLISECOND
"""Bounds of records' times. Kafka's are wider than Python's, and ages are added to them."""

_CUT_TIMES: Final = frozenset({
    EPOCH + _MILLISECOND * _FIRST_MILLIS, EPOCH + _MILLISECOND * _LAST_MILLIS,
})  # fmt: skip

_POLL_SECONDS: Final = 0.1
_SECONDS_PER_PARTITION: Final = 0.1
_SECONDS_PER_RECORD: Final = 0.01
_BATCH: Final = 500
_CONSUMER: Final[dict[str, Any]] = {
    "group.id": "cdc-assets",  # librdkafka wants one; it is never joined
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    # A question needs few records of each partition, and soon: fetch little ahead, and do not
    # wait a second (the default) when the queue is full.
    "queued.min.messages": 1,
    "fetch.message.max.bytes": 65536,
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 50,
}
"""A first record that is larger than a fetch is returned nevertheless:
https://cwiki.apache.org/confluence/display/KAFKA/KIP-74."""

# Some reads of a cursor take a thousand records: keep fetching while they are handed out.
_AT_ONCE: Final[dict[str, Any]] = {
    "queued.min.messages": 500,
    "fetch.queue.backoff.ms": 1,
    "fetch.wait.max.ms": 5,
}

# An offset that the log does not hold is an error, where the usual reads go on at its begin.
_WHOLE: Final[dict[str, Any]] = {**_AT_ONCE, "auto.offset.reset": "error"}

_KEPT_BYTES: Final = 64 << 20
_MOST_LOOKED_AT: Final = 10_000
_MOST_BYTES: Final = 512 << 20
"""Limits of a sample: memory that it may take, and the end of a search for wanted records."""

Place = tuple[str, int]
"""Topic and partition."""

Events = Callable[[Consumer, Collection[Place]], Iterator[tuple[Place, "RawRecord | int"]]]
"""Records, and the offsets at which partitions end."""

Largest = Callable[[str], int]
"""The size limit in bytes of a record of a topic that is to be read."""

Span = tuple[int, int | None]
"""First offset, and the one after the last; None for the log's present end."""


def every_size(_: str) -> int:
    """Returns no limit: records of every size are read."""
    return sys.maxsize


class Reader:
    """Reads from given offsets, in the order in which partitions answer.

    Records that are larger than ``largest`` are returned without content: `RawRecord.within`.
    """

    def __init__(
        self, conf: Mapping[str, Any], timeout_seconds: float, largest: Largest = every_size
    ) -> None:
        self._conf = conf
        self._largest = largest
        self._timeout = timeout_seconds
        self._last_error: KafkaError | None = None

    def first_of_each(self, starts: Mapping[str, OffsetVector]) -> list[RawRecord]:
        """Returns the first record at or after each partition's offset, where there is one.

        Raises:
            UnreachableError: if not every partition answers in time.
        """
        waiting = {(topic, number) for topic, vector in starts.items() for number, _ in vector}
        found: list[RawRecord] = []
        with self._consumer(starts) as consumer:
            for place, record in self._events(consumer, waiting):
                waiting.remove(place)
                consumer.pause([TopicPartition(*place)])
                found += [record] if isinstance(record, RawRecord) else []
        return found

    @contextmanager
    def cursor(self) -> Generator[Cursor]:
        """Opens one consumer for several small reads."""
        with self._consumer({}, _AT_ONCE) as consumer:
            yield Cursor(consumer, self._events, self._timeout)

    def spans(self, spans: Mapping[Place, Span]) -> list[RawRecord]:
        """Returns the records in these spans.

        Raises:
            UnreachableError: if not every partition answers in time.
        """
        with self.cursor() as cursor:
            return list(cursor.records(spans))

    def whole(self, spans: Mapping[Place, Span], most_bytes: int) -> list[RawRecord] | None:
        """Returns all records in these spans, in order per partition.

        None if the records are larger, or if a record's time is out of bounds (`_time_of`).

        Args:
            spans: with an end.
            most_bytes: of their keys, values and headers together.

        Raises:
            TransientError: if the log does not hold all of them, or does not answer in time.
        """
        found, size = list[RawRecord](), 0
        with self._consumer({}, _WHOLE) as consumer:
            cursor = Cursor(consumer, self._events, self._timeout)
            for record in cursor.records(spans, whole=True):
                size += record.size
                if size > most_bytes or record.timestamp in _CUT_TIMES:
                    return None
                found.append(record)
        return found

    def with_values(
        self,
        topic: str,
        starts: OffsetVector,
        limit: int,
        wanted: Callable[[RawRecord], bool] | None = None,
    ) -> tuple[RawRecord, ...]:
        """Returns up to ``limit`` records that are no tombstones, ordered by partition and offset.

        With ``wanted``, up to ``limit`` records for which it is true, and up to as many of the
        others: the first of them, if they are small. Ends with fewer, once it has looked at enough.

        Raises:
            UnreachableError: if the partitions do not answer in time.
        """
        waiting = {(topic, number) for number, _ in starts}
        found = _Sample(limit, wanted)
        with self._consumer({topic: starts}) as consumer:
            for place, record in self._events(consumer, waiting) if limit > 0 else ():
                if isinstance(record, int):
                    waiting.discard(place)
                elif record.value is not None:
                    found.add(record)
                if found.is_enough:
                    break
        return tuple(sorted(found.records, key=lambda record: record.coordinate))

    @contextmanager
    def _consumer(
        self, starts: Mapping[str, OffsetVector], extra: Mapping[str, Any] | None = None
    ) -> Generator[Consumer]:
        places = [
            TopicPartition(topic, partition, offset)
            for topic, vector in starts.items()
            for partition, offset in vector
        ]
        try:
            consumer = Consumer(
                {**self._conf, **_CONSUMER, **(extra or {}), "error_cb": self._remember}
            )
        except KafkaException as error:
            raise self._translated(error) from error
        try:
            with effect("kafka: read"):
                consumer.assign(places)
            yield consumer
        except KafkaException as error:
            raise self._translated(error) from error
        finally:
            consumer.close()

    def _events(
        self, consumer: Consumer, waiting: Collection[Place]
    ) -> Iterator[tuple[Place, RawRecord | int]]:
        """Yields records of partitions that are waited for, and the end's offset where reached.

        Args:
            consumer: assigned to them.
            waiting: these partitions. The caller removes those of which it has read enough.

        Raises:
            UnreachableError: if none of them answers for the time-out, or all of them together take
                too long.
        """
        silence = Silence(self._timeout, len(waiting))
        while waiting:
            asked = time.monotonic()
            messages = _messages(consumer)
            silence.waited(time.monotonic() - asked)
            for message in messages:
                place = (str(message.topic()), int(message.partition() or 0))
                error = message.error()
                if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
                    raise gone(*place)
                if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                    raise KafkaException(error)
                if place in waiting:
                    silence.broken()
                    largest = self._largest(place[0])
                    end = int(message.offset() or 0) if error else None
                    yield place, _record(message).within(largest) if end is None else end
            if silence.is_too_long:
                missing = (place for place in sorted(waiting))
                servers = place_of(self._conf)
                raise no_answer(servers, silence.seconds, self._last_error, tuple(missing))

    def _remember(self, error: KafkaError) -> None:
        self._last_error = error

    def _translated(self, error: KafkaException) -> Exception:
        return translate(error, place_of(self._conf), self._last_error)


class _Sample:
    """The records that are kept of a topic: bounded in number and in memory."""

    def __init__(self, limit: int, wanted: Callable[[RawRecord], bool] | None) -> None:
        self._limit = limit
        self._wanted = wanted
        self._others = self._bytes = self._looked = self._looked_bytes = 0
        self.records: list[RawRecord] = []

    def add(self, record: RawRecord) -> None:
        """Keeps a record that is wanted, and the first few others."""
        size = record.size
        self._looked += 1
        self._looked_bytes += size
        if self._wanted is not None and not self._wanted(record):
            full = self._others >= self._limit or self._bytes + size > _KEPT_BYTES
            if full and self._others:
                return
            self._others += 1
        self._bytes += size
        self.records.append(record)

    @property
    def is_enough(self) -> bool:
        """Whether to stop reading."""
        found = len(self.records) - self._others
        if found == self._limit or (found and self._bytes > _KEPT_BYTES):
            return True
        return self._looked >= _MOST_LOOKED_AT or self._looked_bytes >= _MOST_BYTES


class Silence:
    """The time without an answer, and the total time waited.

    Args:
        timeout: seconds of silence that are too long.
        partitions: number of partitions; each, and each record, adds to the permitted total.
    """

    def __init__(self, timeout: float, partitions: int) -> None:
        self._timeout = timeout
        self._allowed = timeout + partitions * _SECONDS_PER_PARTITION
        self._silent = 0.0
        self._total = 0.0

    def waited(self, seconds: float) -> None:
        """Counts seconds spent waiting."""
        self._silent += seconds
        self._total += seconds

    def broken(self) -> None:
        """Ends the silence: a record has arrived."""
        self._silent = 0.0
        self._allowed += _SECONDS_PER_RECORD

    @property
    def is_too_long(self) -> bool:
        """Whether to give up."""
        return self._silent >= self._timeout or self._total >= self._allowed

    @property
    def seconds(self) -> float:
        """The exceeded time-out, in seconds."""
        return self._timeout if self._silent >= self._timeout else round(self._total, 1)


class Cursor:
    """Several small reads by one consumer, one after another."""

    def __init__(self, consumer: Consumer, events: Events, timeout_seconds: float) -> None:
        self._consumer = consumer
        self._events = events
        self._timeout = timeout_seconds

    def records(self, spans: Mapping[Place, Span], *, whole: bool = False) -> Iterator[RawRecord]:
        """Yields the records in these spans, in order per partition. The next read ends this one.

        Raises:
            UnreachableError: if the partitions do not answer in time.
            TransientError: if a partition ends before the start of its span, as of a topic that was
                recreated, or if spans must be ``whole`` and one ends before its span does.
        """
        waiting = {place for place, (start, end) in spans.items() if end is None or start < end}
        if not waiting:
            return
        self._consumer.assign([TopicPartition(*place, spans[place][0]) for place in waiting])
        for place, record in self._events(self._consumer, waiting):
            start, end = spans[place]
            if isinstance(record, int):
                if whole and end is not None and record < end:
                    raise ends_early(*place, record, end)
                waiting.remove(place)
                continue
            offset = record.coordinate.offset
            if offset < start:  # the client has gone back to the log's begin
                raise gone(*place)
            if end is None or offset < end:
                yield record
            if end is not None and offset >= end - 1:
                waiting.remove(place)

    def offsets_at(self, topic: str, time: datetime) -> dict[int, int]:
        """Returns the first offset at or after a time, of partitions that have one.

        That is the log's beginning for times before 1970, which brokers refuse: records without a
        time are dated so.
        """
        millis = (time - EPOCH) // _MILLISECOND if time >= EPOCH else OFFSET_BEGINNING
        listed = self._consumer.list_topics(topic, timeout=self._timeout).topics[topic]
        asked = [TopicPartition(topic, number, millis) for number in listed.partitions]
        found = self._consumer.offsets_for_times(asked, timeout=self._timeout) if asked else []
        return {each.partition: each.offset for each in found if each.offset >= 0}


def _messages(consumer: Consumer) -> list[Message]:
    """Returns messages as soon as one is available; asking for many would wait for them all."""
    first = consumer.poll(_POLL_SECONDS)
    return [] if first is None else [first, *consumer.consume(_BATCH, timeout=0)]


def _record(message: Message) -> RawRecord:
    place = Coordinate(
        str(message.topic()), int(message.partition() or 0), int(message.offset() or 0)
    )
    _, millis = message.timestamp()
    return RawRecord(
        place,
        _time_of(millis),
        _bytes(message.key()),
        _bytes(message.value()),
        tuple((str(name), _bytes(value)) for name, value in message.headers() or ()),
    )


def _time_of(millis: int) -> datetime:
    """Returns a record's time; the nearest one within bounds, whatever a producer has written."""
    return EPOCH + _MILLISECOND * min(max(millis, _FIRST_MILLIS), _LAST_MILLIS)


def _bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
