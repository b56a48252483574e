"""Reads a topic of many tables once for all tables of a run.

1. The first table whose batch needs a range has it read from Kafka. Its records are separated by
   table (`cdc_assets.formats.by_table`) and cached on Spark, those of a table side by side.
2. Each table gets its own records, and those whose table is unknown: it decodes, counts and
   refuses these as if it had read everything. Of other tables' records it gets only the number
   for each table.
3. The cached records are released once the last table of the topic has had its turn, after any
   failure, and when the run ends.

Correctness does not depend on it: each table plans by its own committed offsets, and reads for
itself what was not read for others. A reading covers exact offsets of one topic, identified by its
id, and belongs to one Spark session. If Spark loses a part of it, it reads these offsets again.

Cuts a batch to the ranges of its topic that were read for other tables of the run.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetRange, OffsetVector, total_length
from cdc_assets.effects import effect
from cdc_assets.formats.by_table import OF_ROWS, OF_TABLE, opened, with_tables
from cdc_assets.formats.flat import by_partition
from cdc_assets.formats.format import Format
from cdc_assets.log.values import TopicIdentity
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements.failures import could_release, released_on_failure
from cdc_assets.registry import TableEntry

Ranges = tuple[OffsetRange, ...]
"""At most one of each partition."""


def cut_to(readings: Sequence[Ranges], ranges: Ranges) -> Ranges:
    """Returns the beginning of ranges that one reading covers, or else up to the next reading.

    No returned range is empty. Partitions may advance one after the other: what is left out here
    is for a later batch.

    Args:
        readings: the ranges read, in any order.
        ranges: offsets that a table has not merged yet.
    """
    for reading in readings:
        found = tuple(each for each in map(_Within(reading), ranges) if each.length)
        if found:
            return found
    return tuple(_before(readings, each) for each in ranges if each.length)


def holds(reading: Ranges, ranges: Ranges) -> bool:
    """Returns whether a reading covers all of the ranges."""
    return bool(ranges) and total_length(tuple(map(_Within(reading), ranges))) == total_length(
        ranges
    )


class _Within:
    """A cut of ranges to those of a reading; empty for a range that begins outside it."""

    def __init__(self, reading: Ranges) -> None:
        self._by_partition = {each.partition: each for each in reading}

    def __call__(self, wanted: OffsetRange) -> OffsetRange:
        there = self._by_partition.get(wanted.partition)
        if there is None or not there.start <= wanted.start < there.end:
            return replace(wanted, end=wanted.start)
        return replace(wanted, end=min(wanted.end, there.end))


def _before(readings: Sequence[Ranges], wanted: OffsetRange) -> OffsetRange:
    starts = (each.start for reading in readings for each in reading
              if each.partition == wanted.partition and each.start > wanted.start)  # fmt: skip
    return replace(wanted, end=min(wanted.end, *starts, wanted.end))


FRESH_SECONDS: Final = 60.0
"""For this long the end of what was read of a topic counts as its end, so that tables that follow
each other merge the same ranges, instead of each a little more."""
_MOST_TABLES: Final = 10_000
"""Largest number of tables whose records are counted; a topic with more is not shared."""

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Share:
    """A table's part of a reading.

    Attributes:
        records: its messages, as `opened` returns them.
        others: number of changes left out of each other table, by ``schema.table``.
    """

    records: DataFrame
    others: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _TopicReading:
    """A reading. ``rows``: changes by table; ``has_headers``: whether headers were read."""

    session: SparkSession
    view: str
    identity: TopicIdentity
    ranges: Ranges
    has_headers: bool
    rows: Mapping[str, int]
    began: float

    @property
    def frame(self) -> DataFrame:
        return self.session.table(self.view)

    def could_release(self) -> bool:
        """Drops the view, which also releases its cache; returns whether Spark answered."""
        return could_release(lambda: self.session.catalog.dropTempView(self.view))


class SharedReadings:
    """The readings of one run's topics. Not for several threads.

    Args:
        tables: returns how many tables of the run share a table's topic.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        tables: Callable[[TableEntry], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tables = tables
        self._clock = clock
        self._readings: dict[str, list[_TopicReading]] = defaultdict(list)
        self._gone: dict[str, set[TableName]] = defaultdict(set)
        self._crowded: set[str] = set()
        self._apart: set[tuple[str, TopicIdentity, Ranges]] = set()

    # ── what a table plans ───────────────────────────────────────────────────────────────

    def cut(self, entry: TableEntry, ranges: Ranges) -> Ranges:
        """Cuts a batch's ranges to those that were read already; see `cut_to`."""
        return cut_to([each.ranges for each in self._readings[_topic(entry)]], ranges)

    def end(self, entry: TableEntry, end: OffsetVector) -> OffsetVector:
        """Returns the end up to which a table merges in its turn, which begins now.

        Args:
            entry: the table.
            end: of the log.
        """
        readings = self._readings[_topic(entry)]
        if not readings or self._clock() - readings[-1].began > FRESH_SECONDS:
            return end
        return self._read_to(entry)

    def is_enough(self, entry: TableEntry, committed: OffsetVector, most: int) -> bool:
        """Returns whether a table's turn is over, so that others use what it has read.

        Args:
            entry: the table.
            committed: its offsets.
            most: limit for cached records of a topic; ``batch.max_records``.
        """
        is_full = self._kept(entry) >= most
        return is_full and not committed.ranges_to(self._read_to(entry))

    def is_for(self, entry: TableEntry, fmt: Format) -> bool:
        """Returns whether a table may share: its records name their table, and it is not alone."""
        return fmt.tells_tables and self._tables(entry) > 1

    # ── what a batch reads ───────────────────────────────────────────────────────────────

    def share(
        self, plan: BatchPlan, fmt: Format, session: SparkSession, read: Callable[[], DataFrame]
    ) -> Share | None:
        """Returns a batch's records from a reading, an earlier one or one made now for others too.

        Args:
            plan: of the batch of a table that it `is_for`.
            fmt: of its records.
            session: the present one.
            read: reads the batch's records from Kafka.

        Returns:
            None if the batch has to read its records for itself.
        """
        found = self._kept_reading(plan, fmt, session)
        if found is None and self._is_wanted(plan, fmt):
            found = self._made(plan, fmt, session, read())
        return None if found is None else _share_of(found, plan)

    def _kept_reading(
        self, plan: BatchPlan, fmt: Format, session: SparkSession
    ) -> _TopicReading | None:
        topic, has_headers = _topic(plan.entry), fmt.reads_headers(plan.layout)
        # Readings of other sessions are gone with these.
        mine = [each for each in self._readings[topic] if each.session is session]
        self._readings[topic] = mine
        for each in mine:
            is_same = each.identity == plan.identity and each.has_headers == has_headers
            if is_same and holds(each.ranges, plan.ranges):
                return each
        return None

    def _is_wanted(self, plan: BatchPlan, fmt: Format) -> bool:
        """Returns whether another table comes after this one, and there is room."""
        entry, topic = plan.entry, _topic(plan.entry)
        left = self._tables(entry) - len(self._gone[topic] | {entry.table})
        has_room = self._kept(entry) < fmt.source.batch.max_records
        return left > 0 and has_room and topic not in self._crowded

    def _made(
        self, plan: BatchPlan, fmt: Format, session: SparkSession, raw: DataFrame
    ) -> _TopicReading | None:
        view, topic = f"topic_{uuid.uuid4().hex}", _topic(plan.entry)
        apart = with_tables(opened(raw, fmt, plan.layout), fmt, plan.layout)
        # Side by side, so that Spark skips the cached records of tables that are not asked for.
        apart.sortWithinPartitions(OF_TABLE).createOrReplaceTempView(view)
        drop = partial(session.catalog.dropTempView, view)
        with released_on_failure(drop), effect("spark: keep topic"):
            session.catalog.cacheTable(view)
            rows = _rows_of(session.table(view))
        reading = _TopicReading(
            session, view, plan.identity, plan.ranges, fmt.reads_headers(plan.layout), rows,
            self._clock(),
        )  # fmt: skip
        if len(rows) > _MOST_TABLES:
            _log.warning("topic=%s names too many tables for one reading", plan.entry.topic)
            self._crowded.add(topic)
            reading.could_release()
            return None
        self._readings[topic].append(reading)
        return reading

    # ── what a first batch asks of the whole log ─────────────────────────────────────────

    def has_keys_apart(self, plan: BatchPlan) -> bool:
        """Returns whether a batch of the same log and ranges found each key in one partition.

        The records checked are the same for each table: all that the log held when the run began
        with it.
        """
        return _log_of(plan) in self._apart

    def found_keys_apart(self, plan: BatchPlan) -> None:
        """Notes that they were, for other tables' batches of the same log and ranges."""
        self._apart.add(_log_of(plan))

    # ── giving back ──────────────────────────────────────────────────────────────────────

    def leave(self, entry: TableEntry) -> None:
        """Notes that a table needs nothing more in this run; the last one releases the readings."""
        topic = _topic(entry)
        self._gone[topic].add(entry.table)
        if len(self._gone[topic]) >= self._tables(entry):
            self.forget(entry)

    def forget(self, entry: TableEntry) -> None:
        """Releases what was read of a table's topic; it is read again where it is needed."""
        _release(self._readings.pop(_topic(entry), []))

    def release(self) -> None:
        """Releases everything."""
        readings = [each for topic in self._readings.values() for each in topic]
        self._readings.clear()
        _release(readings)

    def _kept(self, entry: TableEntry) -> int:
        return sum(total_length(each.ranges) for each in self._readings[_topic(entry)])

    def _read_to(self, entry: TableEntry) -> OffsetVector:
        end = OffsetVector()
        for reading in self._readings[_topic(entry)]:
            end = end.merged_max(OffsetVector.of({r.partition: r.end for r in reading.ranges}))
        return end


def _topic(entry: TableEntry) -> str:
    """Returns the source with the topic, as sources may read one topic in different ways."""
    return f"{entry.table.source}:{entry.topic}"


def _log_of(plan: BatchPlan) -> tuple[str, TopicIdentity, Ranges]:
    return _topic(plan.entry), plan.identity, plan.ranges


def _release(readings: list[_TopicReading]) -> None:
    """Releases readings up to the first failure.

    A server that does not answer has released everything itself, and requests in vain take long.
    """
    all(each.could_release() for each in readings)


def _share_of(reading: _TopicReading, plan: BatchPlan) -> Share:
    frame, rows = reading.frame, reading.rows
    if set(plan.ranges) != set(reading.ranges):
        frame = frame.where(_is_within(plan.ranges))
        rows = _rows_of(frame)
    mine = plan.entry.table.qualified
    is_mine = F.col(OF_TABLE).isNull() | (F.col(OF_TABLE) == mine)
    others = {name: count for name, count in rows.items() if name != mine}
    return Share(frame.where(is_mine).drop(OF_TABLE, OF_ROWS), others)


def _is_within(ranges: Ranges) -> Expression:
    partition, offset = F.col("partition"), F.col("offset")
    starts = by_partition(partition, {each.partition: each.start for each in ranges})
    ends = by_partition(partition, {each.partition: each.end for each in ranges})
    return (offset >= starts) & (offset < ends)


def _rows_of(apart: DataFrame) -> dict[str, int]:
    """Returns the number of changes by table, for at most one table more than `_MOST_TABLES`."""
    owned = apart.where(F.col(OF_TABLE).isNotNull())
    counted = owned.groupBy(OF_TABLE).agg(F.sum(OF_ROWS).alias("rows")).limit(_MOST_TABLES + 1)
    return {row[OF_TABLE]: row["rows"] for row in counted.collect()}
