"""Reads a few records by a short-lived consumer: assigned, never subscribed, nothing committed."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from cdc_assets.changes.offsets import Coordinate, OffsetVector
from cdc_assets.log.errors import no_answer, translate
from cdc_assets.log.values import RawRecord

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_POLL_SECONDS: Final = 0.1
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

Place = tuple[str, int]
"""Topic and partition."""


class Reader:
    """Reads from given offsets, in the order in which partitions answer."""

    def __init__(self, conf: Mapping[str, str], timeout_seconds: float) -> None:
        self._conf = conf
        self._timeout = timeout_seconds
        self._last_error: KafkaError | None = None

    def first_of_each(self, starts: Mapping[str, OffsetVector]) -> list[RawRecord]:
        """The first record at or after each partition's offset, where there is one.

        Raises:
            UnreachableError: if not every partition answers in time.
        """
        waiting = {(topic, number) for topic, vector in starts.items() for number, _ in vector}
        found: list[RawRecord] = []
        with self._consumer(starts) as consumer:
            for place, record in self._events(consumer) if waiting else ():
                if place in waiting:
                    waiting.remove(place)
                    consumer.pause([TopicPartition(*place)])
                    found += [record] if record is not None else []
                if not waiting:
                    break
        return found

    def with_values(self, topic: str, starts: OffsetVector, limit: int) -> tuple[RawRecord, ...]:
        """Up to ``limit`` records that are no tombstones, ordered by partition and offset.

        Raises:
            UnreachableError: if the partitions do not answer in time.
        """
        waiting = {(topic, number) for number, _ in starts}
        found: list[RawRecord] = []
        with self._consumer({topic: starts}) as consumer:
            for place, record in self._events(consumer) if waiting and limit > 0 else ():
                if record is None:
                    waiting.discard(place)
                elif record.value is not None:
                    found.append(record)
                if len(found) == limit or not waiting:
                    break
        return tuple(sorted(found, key=lambda record: record.coordinate))

    @contextmanager
    def _consumer(self, starts: Mapping[str, OffsetVector]) -> Generator[Consumer]:
        places = [
            TopicPartition(topic, partition, offset)
            for topic, vector in starts.items()
            for partition, offset in vector
        ]
        try:
            consumer = Consumer({**self._conf, **_CONSUMER, "error_cb": self._remember})
        except KafkaException as error:
            raise self._translated(error) from error
        try:
            consumer.assign(places)
            yield consumer
        except KafkaException as error:
            raise self._translated(error) from error
        finally:
            consumer.close()

    def _events(self, consumer: Consumer) -> Iterator[tuple[Place, RawRecord | None]]:
        """Records, and None for a partition whose end is reached; never ends by itself."""
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            for message in consumer.consume(_BATCH, timeout=_POLL_SECONDS):
                place = (str(message.topic()), int(message.partition() or 0))
                error = message.error()
                if error is None:
                    yield place, _record(message)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                    yield place, None
                else:
                    raise KafkaException(error)
        raise no_answer(self._conf["bootstrap.servers"], self._timeout, self._last_error)

    def _remember(self, error: KafkaError) -> None:
        self._last_error = error

    def _translated(self, error: KafkaException) -> Exception:
        return translate(error, self._conf["bootstrap.servers"], self._last_error)


def _record(message: Message) -> RawRecord:
    place = Coordinate(
        str(message.topic()), int(message.partition() or 0), int(message.offset() or 0)
    )
    _, millis = message.timestamp()
    return RawRecord(
        place,
        EPOCH + timedelta(milliseconds=millis),
        _bytes(message.key()),
        _bytes(message.value()),
    )


def _bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
