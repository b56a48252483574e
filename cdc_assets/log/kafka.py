"""Answers operational questions about many topics, in few requests: `KafkaLog`.

Spark reads the bulk of the log; here are only bounds, times, identities and samples. No consumer
group is joined and nothing is ever committed to Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

from cdc_assets.changes.offsets import Coordinate, OffsetRange, OffsetVector
from cdc_assets.changes.retention import TopicRetention
from cdc_assets.log.admin import Admin
from cdc_assets.log.common_cut import CutFinder
from cdc_assets.log.errors import of_partition
from cdc_assets.log.hours import HOURS_START, HourWindow, WindowOffsets, boundaries, cut
from cdc_assets.log.kinds import TopicKind, kind_of_topic
from cdc_assets.log.marks import Marks
from cdc_assets.log.reader import EPOCH, Largest, Place, Reader, Span, every_size
from cdc_assets.log.settings import TopicSettings
from cdc_assets.log.transactions import TransactionLog
from cdc_assets.log.values import Bounds, RawRecord, TopicIdentity, Watermarks

_QUIET: Final = {
    "log_level": "2",
    "socket.connection.setup.timeout.ms": "10000",
    # A limit on replies. With the client's usual 100 MB a larger record could not even be skipped.
    "receive.message.max.bytes": str(2**31 - 1),
}
_EARLIEST: Final[Any] = OffsetSpec.earliest()
_LATEST: Final[Any] = OffsetSpec.latest()
_NO_SUCH_OFFSET: Final = -1
_MILLISECOND: Final = timedelta(milliseconds=1)
_LOOK: Final = 8
"""Number of offsets at each end of a partition by which a topic's kind is determined."""


class KafkaLog:
    """A client for topics of one cluster. Topics that do not exist are left out of answers.

    Safe to keep and to call again; one thread at a time.

    Args:
        librdkafka_conf: client properties, secrets revealed; or returns them, and is then called
            for each new client, so that renewed secrets are used.
        timeout_seconds: for each question as a whole.
        largest: see `Reader`; without it records of every size are read.

    Every method raises:
        UnreachableError: if Kafka does not answer; names the servers.
        ConfigError: if the client does not accept a property.
        LoginRefusedError: if Kafka refuses the login or its rights; the next call makes a new
            client.
    """

    def __init__(
        self,
        librdkafka_conf: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
        timeout_seconds: float = 10,
        largest: Largest = every_size,
    ) -> None:
        self._largest = cache(largest)  # it is asked for each record
        self._given = librdkafka_conf
        self._timeout = timeout_seconds
        self._admin = Admin(self._conf, timeout_seconds)

    def topics(self) -> tuple[str, ...]:
        """Returns all topics of the cluster, sorted, internal ones included."""
        return tuple(sorted(self._admin.partitions(None)))

    def identity(self, topics: Iterable[str]) -> dict[str, TopicIdentity]:
        """Returns cluster id and topic id of each topic: two requests."""
        return self._admin.identity(topics)

    def cluster_id(self) -> str:
        """Returns the id of the cluster: one request."""
        return self._admin.cluster_id()

    def watermarks(self, topics: Iterable[str]) -> dict[str, Watermarks]:
        """Returns each partition's first offset and read-committed end: two requests per broker."""
        partitions = self._admin.partitions(topics)
        begin, end = self._admin.offsets(partitions, [_EARLIEST, _LATEST])
        return {topic: Watermarks(begin[topic], end[topic]) for topic in partitions}

    def bounds(self, topics: Iterable[str]) -> Bounds:
        """Returns the watermarks of topics; a partition without a leader only leaves out its topic.

        Raises:
            UnreachableError: also if that is so of every topic.
        """
        partitions = self._admin.partitions(topics)
        answers = self._admin.answers(partitions, [_EARLIEST, _LATEST])
        begin, end = answers.offsets
        problems = {
            place[0]: of_partition(error, *place) for place, error in answers.leaderless.items()
        }
        there = [topic for topic in partitions if topic not in problems]
        if problems and not there:
            raise next(iter(problems.values()))
        marks = {
            topic: Watermarks(OffsetVector.of(begin[topic]), OffsetVector.of(end[topic]))
            for topic in there
        }
        return Bounds(marks, problems)

    def partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """Returns the partition numbers of each topic. Lists the whole cluster."""
        return self._admin.partitions(topics)

    def ends(self, partitions: Mapping[str, Sequence[int]]) -> dict[str, OffsetVector]:
        """Returns the read-committed end of each of these partitions: one request per broker."""
        (end,) = self._admin.offsets(partitions, [_LATEST])
        return end

    def retention(self, topics: Iterable[str]) -> dict[str, TopicRetention]:
        """Returns topics' retention. Topics whose settings may not be read are left out."""
        found = self.settings(topics).items()
        return {topic: each.retention for topic, each in found if each is not None}

    def high_watermarks(self, topics: Iterable[str]) -> dict[str, OffsetVector]:
        """Returns each partition's end, including records of unfinished producer transactions.

        Everything that Kafka had acknowledged before this call is below it.
        """
        uncommitted = IsolationLevel.READ_UNCOMMITTED
        while True:
            partitions = self._admin.partitions(topics)
            (end,) = self._admin.offsets(partitions, [_LATEST], uncommitted)
            if self._admin.partitions(topics) == partitions:
                return end

    def settled_watermarks(self, topic: str) -> Watermarks | None:
        """Returns the watermarks of one topic whose partitions were counted after reading its ends.

        Records produced once partitions are added may be in old ones too: a reader of any of them
        must know all partitions. None if the topic does not exist.
        """
        while True:
            marks = self.watermarks([topic]).get(topic)
            now = self._admin.partitions([topic]).get(topic)
            if marks is None or now is None:
                return None
            if len(now) == len(marks.end.offsets):
                return marks

    def offsets_at(
        self, topics: Iterable[str], times: Sequence[datetime]
    ) -> dict[tuple[str, datetime], OffsetVector]:
        """Returns ``f(t)``: per partition the earliest offset with a timestamp at or after ``t``.

        The read-committed end of the log where there is none. Kafka keeps milliseconds, so a time
        between two of them stands for the later one. For times before 1970, which brokers refuse or
        take for something else, it is the log's beginning: records without a time are dated so.
        """
        specs = [_spec(time) for time in times]
        partitions = self._admin.partitions(topics)
        *found, end = self._admin.offsets(partitions, [*specs, _LATEST])
        return {
            (topic, time): _or_end(offsets[topic], end[topic])
            for time, offsets in zip(times, found, strict=True)
            for topic in partitions
        }

    def window_offsets(
        self, topics: Iterable[str], windows: Sequence[HourWindow], first: datetime = HOURS_START
    ) -> dict[tuple[str, HourWindow], WindowOffsets]:
        """Returns the offsets of each topic in each hour; see `hours`.

        Args:
            topics: the topics.
            windows: the hours.
            first: the start of the first hour, which reaches back to the log's beginning.
        """
        wanted = tuple(topics)
        at = self.offsets_at(wanted, boundaries(windows, first))
        marks = self.watermarks(wanted)
        return {
            (topic, window): cut(
                window, marks[topic].begin, lambda t, topic=topic: at[topic, t], first
            )
            for topic in marks
            for window in windows
        }

    def first_unread(self, positions: Mapping[str, OffsetVector]) -> dict[str, datetime | None]:
        """Returns the smallest timestamp among the first unread records of a topic's partitions.

        Args:
            positions: next-to-read offsets. Partitions that are not listed are at 0; offsets
                below the log's beginning count as its beginning.

        Returns:
            None where nothing is unread.
        """
        marks = self.watermarks(positions)
        starts = {
            topic: _starts(mark.begin.merged_max(positions[topic]).ranges_to(mark.end))
            for topic, mark in marks.items()
        }
        first = self._reader().first_of_each(starts)
        oldest: dict[str, datetime | None] = dict.fromkeys(marks)
        for record in first:
            topic, known = record.coordinate.topic, oldest[record.coordinate.topic]
            oldest[topic] = record.timestamp if known is None else min(known, record.timestamp)
        return oldest

    def sample(
        self, topic: str, limit: int, *, wanted: Callable[[RawRecord], bool] | None = None
    ) -> tuple[RawRecord, ...]:
        """Returns up to ``limit`` records with a value, from the start of the log; () without any.

        With ``wanted``, up to ``limit`` records for which it is true, and up to as many others
        before them; the search for wanted records is bounded.
        """
        marks = self.watermarks([topic])
        if topic not in marks:
            return ()
        starts = _starts(marks[topic].begin.ranges_to(marks[topic].end))
        return self._reader().with_values(topic, starts, limit, wanted)

    def kinds(
        self, topics: Iterable[str], kind_of: Callable[[RawRecord], TopicKind]
    ) -> dict[str, TopicKind]:
        """Returns topics' kinds, by the first records of each partition, or else by the last.

        One change event among them is enough; see `cdc_assets.log.kinds`.

        Args:
            topics: topics to classify.
            kind_of: classifies one record.
        """
        marks = self.watermarks(topics)
        records: dict[str, list[RawRecord]] = {topic: [] for topic in marks}
        wanted = frozenset(marks)
        for at_end in (False, True):
            for record in self._reader().spans(_edges(marks, wanted, at_end=at_end)):
                records[record.coordinate.topic].append(record)
            kinds = {topic: kind_of_topic(found, kind_of) for topic, found in records.items()}
            wanted = frozenset(t for t, kind in kinds.items() if kind is not TopicKind.CHANGES)
        return kinds

    def edges(self, topics: Iterable[str]) -> dict[str, tuple[RawRecord, ...]]:
        """Returns the first and the last records of each partition, of topics that exist."""
        return self.edges_within(self.watermarks(topics))

    def edges_within(self, marks: Mapping[str, Watermarks]) -> dict[str, tuple[RawRecord, ...]]:
        """Returns the first and the last records of each partition, of topics with these bounds."""
        found: dict[str, dict[Coordinate, RawRecord]] = {topic: {} for topic in marks}
        for at_end in (False, True):
            for record in self._reader().spans(_edges(marks, marks, at_end=at_end)):
                found[record.coordinate.topic][record.coordinate] = record
        return {topic: tuple(records.values()) for topic, records in found.items()}

    def firsts(self, topics: Iterable[str]) -> dict[str, tuple[RawRecord, ...]]:
        """Returns the first record of each partition that has one, of topics that exist."""
        marks = self.watermarks(topics)
        starts = {t: _starts(mark.begin.ranges_to(mark.end)) for t, mark in marks.items()}
        found: dict[str, list[RawRecord]] = {topic: [] for topic in marks}
        for record in self._reader().first_of_each(starts):
            found[record.coordinate.topic].append(record)
        return {topic: tuple(records) for topic, records in found.items()}

    def settings(self, topics: Iterable[str]) -> dict[str, TopicSettings | None]:
        """Returns topics' settings; None for topics whose settings may not be read."""
        return self._admin.settings(topics)

    def part(self, spans: Mapping[Place, Span]) -> tuple[RawRecord, ...]:
        """Returns the records in these spans, each partition's in order.

        Args:
            spans: within the topics' bounds; small, as all is kept in memory.
        """
        return tuple(self._reader().spans(spans))

    def whole(
        self, topic: str, ranges: Iterable[OffsetRange], most_bytes: int
    ) -> list[RawRecord] | None:
        """Returns all records in these ranges, by partition and offset; see `Reader.whole`.

        Records of every size are read.

        Raises:
            TransientError: if the log does not hold all of them, or does not answer in time.
        """
        spans = {(topic, each.partition): (each.start, each.end) for each in ranges}
        found = Reader(self._conf(), self._timeout).whole(spans, most_bytes)
        return None if found is None else sorted(found, key=lambda each: each.coordinate)

    def first_of(self, topic: str, ranges: Iterable[OffsetRange]) -> tuple[RawRecord, ...]:
        """Returns the first record at or after the start of each range, where there is one."""
        return tuple(self._reader().first_of_each({topic: _starts(ranges)}))

    def last_of(self, topic: str, *looks: Mapping[int, Span]) -> tuple[dict[int, RawRecord], ...]:
        """Returns the last record in each partition's span, where there is one; for each look.

        Records of every size are read.

        Args:
            topic: the topic.
            looks: spans by partition, within the topic's bounds and small.
        """
        with Reader(self._conf(), self._timeout).cursor() as cursor:
            return tuple(
                {
                    record.coordinate.partition: record
                    for record in cursor.records({(topic, p): span for p, span in look.items()})
                }
                for look in looks
            )

    def transactions(
        self, topics: tuple[str, str], collection: str, marks: Marks
    ) -> TransactionLog:
        """Returns a reader for ending a batch between transactions; see `TransactionLog`."""
        return TransactionLog(self._reader(), topics, collection, marks)

    def cut_finder(self, topic: str, marks: Marks, patience: timedelta) -> CutFinder:
        """Returns a finder of cuts that tables of one source share; see `CutFinder`."""
        return CutFinder(self._reader(), topic, marks, self._stable_ends, patience)

    def _stable_ends(self, topics: Iterable[str]) -> dict[str, OffsetVector]:
        return self.ends(self.partitions(topics))

    def _reader(self) -> Reader:
        return Reader(self._conf(), self._timeout, self._largest)

    def _conf(self) -> dict[str, Any]:
        given = self._given
        return {**_QUIET, **(given() if callable(given) else given)}


def _starts(ranges: Iterable[OffsetRange]) -> OffsetVector:
    return OffsetVector.of({each.partition: each.start for each in ranges})


def _edges(
    marks: Mapping[str, Watermarks], topics: Collection[str], *, at_end: bool
) -> dict[Place, Span]:
    """Returns the first offsets of each partition, or the last."""
    edges: dict[Place, Span] = {}
    for topic in topics:
        for each in marks[topic].begin.ranges_to(marks[topic].end):
            start = max(each.start, each.end - _LOOK) if at_end else each.start
            edges[topic, each.partition] = (start, min(each.end, start + _LOOK))
    return edges


def _or_end(offsets: OffsetVector, end: OffsetVector) -> OffsetVector:
    last = end.as_dict()
    return OffsetVector.of({
        partition: last[partition] if offset == _NO_SUCH_OFFSET else offset
        for partition, offset in offsets
    })  # fmt: skip


def _spec(time: datetime) -> OffsetSpec:
    millis = _millis(time)
    return OffsetSpec.for_timestamp(millis) if millis >= 0 else _EARLIEST


def _millis(time: datetime) -> int:
    """Returns milliseconds since 1970, rounded up, in integers."""
    if time.tzinfo is None:
        msg = "a time without a zone has no place in the log"
        raise ValueError(msg)
    return -((EPOCH - time) // _MILLISECOND)
