"""Reads a topic of many tables once for all tables of a run.

1. The first table whose batch needs a range has it read from Kafka. Its records are told apart by
   their tables (`cdc_assets.formats.by_table`) and kept on Spark, those of a table side by side.
2. Each of the tables is given its own records, and those that are not told of one table: it
   decodes, counts and refuses these as if it had read everything. Of the others' it is told how
   many they are, and which tables they are of.
3. What is kept is given back once the last table of the topic has had its turn, after any
   failure, and when the run ends.

Nothing rests on it: each table plans by its own committed offsets, and reads for itself what was
not read for others. A reading is of exact offsets of one topic, told by its id, and belongs to one
Spark session. If Spark loses a part of it, it reads these offsets again.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector, total_length
from cdc_assets.effects import effect
from cdc_assets.formats.by_table import OF_ROWS, OF_TABLE, opened, told_apart
from cdc_assets.formats.flat import by_partition
from cdc_assets.formats.format import Format
from cdc_assets.log.values import TopicIdentity
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.plan.sharing import Ranges, cut_to, holds
from cdc_assets.merge.statements.failures import could_release, released_on_failure
from cdc_assets.registry import TableEntry

FRESH_SECONDS: Final = 60.0
"""For so long the end of what was read of a topic counts as its end, so that tables which follow
each other merge the same ranges, and not each a little more."""
_MOST_TABLES: Final = 10_000
"""Whose records are counted; a topic that names more is not shared."""

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Share:
    """A table's part of a reading.

    Attributes:
        records: its messages, as `opened` gives them.
        others: how many changes of each other table were left out, by ``schema.table``.
    """

    records: DataFrame
    others: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Reading:
    """``rows``: changes of each table; ``has_headers``: whether records were read with them."""

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
        """Dropping a view gives back what was cached of it."""
        return could_release(lambda: self.session.catalog.dropTempView(self.view))


class SharedReadings:
    """What one run has read of its topics. Not for several threads.

    Args:
        tables: how many tables of the run lie in a table's topic.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        tables: Callable[[TableEntry], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tables = tables
        self._clock = clock
        self._readings: dict[str, list[_Reading]] = defaultdict(list)
        self._gone: dict[str, set[TableName]] = defaultdict(set)
        self._crowded: set[str] = set()
        self._apart: set[tuple[str, TopicIdentity, Ranges]] = set()

    # ── what a table plans ───────────────────────────────────────────────────────────────

    def cut(self, entry: TableEntry, ranges: Ranges) -> Ranges:
        """What a batch may hold to lie within what was read already; see `cut_to`."""
        return cut_to([each.ranges for each in self._readings[_topic(entry)]], ranges)

    def end(self, entry: TableEntry, end: OffsetVector) -> OffsetVector:
        """Up to where a table merges in its turn, which begins now.

        Args:
            entry: the table.
            end: of the log.
        """
        readings = self._readings[_topic(entry)]
        if not readings or self._clock() - readings[-1].began > FRESH_SECONDS:
            return end
        return self._read_to(entry)

    def is_enough(self, entry: TableEntry, committed: OffsetVector, most: int) -> bool:
        """Whether a table's turn is over, so that others read what it has read.

        Args:
            entry: the table.
            committed: its offsets.
            most: how many records of a topic may be kept; ``batch.max_records``.
        """
        is_full = self._kept(entry) >= most
        return is_full and not committed.ranges_to(self._read_to(entry))

    def is_for(self, entry: TableEntry, fmt: Format) -> bool:
        """Whether a table may share: its records tell whose they are, and it is not alone."""
        return fmt.tells_tables and self._tables(entry) > 1

    # ── what a batch reads ───────────────────────────────────────────────────────────────

    def share(
        self, plan: BatchPlan, fmt: Format, session: SparkSession, read: Callable[[], DataFrame]
    ) -> Share | None:
        """A batch's records out of what was read, or is read now for the tables that follow.

        Args:
            plan: of the batch of a table that it `is_for`.
            fmt: of its records.
            session: the present one.
            read: reads the batch's records from Kafka.

        Returns:
            None if it has to read its records for itself.
        """
        found = self._found(plan, fmt, session)
        if found is None and self._is_wanted(plan, fmt):
            found = self._made(plan, fmt, session, read())
        return None if found is None else _share_of(found, plan)

    def _found(self, plan: BatchPlan, fmt: Format, session: SparkSession) -> _Reading | None:
        topic, has_headers = _topic(plan.entry), fmt.reads_headers(plan.layout)
        # With their sessions they are gone.
        mine = [each for each in self._readings[topic] if each.session is session]
        self._readings[topic] = mine
        for each in mine:
            is_same = each.identity == plan.identity and each.has_headers == has_headers
            if is_same and holds(each.ranges, plan.ranges):
                return each
        return None

    def _is_wanted(self, plan: BatchPlan, fmt: Format) -> bool:
        """Whether another table comes after this one, and there is room."""
        entry, topic = plan.entry, _topic(plan.entry)
        left = self._tables(entry) - len(self._gone[topic] | {entry.table})
        has_room = self._kept(entry) < fmt.source.batch.max_records
        return left > 0 and has_room and topic not in self._crowded

    def _made(
        self, plan: BatchPlan, fmt: Format, session: SparkSession, raw: DataFrame
    ) -> _Reading | None:
        view, topic = f"topic_{uuid.uuid4().hex}", _topic(plan.entry)
        apart = told_apart(opened(raw, fmt, plan.layout), fmt, plan.layout)
        # Side by side: Spark passes over what it keeps of tables that are not asked for.
        apart.sortWithinPartitions(OF_TABLE).createOrReplaceTempView(view)
        drop = partial(session.catalog.dropTempView, view)
        with released_on_failure(drop), effect("spark: keep topic"):
            session.catalog.cacheTable(view)
            rows = _rows_of(session.table(view))
        reading = _Reading(
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
        """Whether the records' own keys were found in one partition each, before a like batch.

        They are the same for each table: all that the log held when the run began with it.
        """
        return _log_of(plan) in self._apart

    def found_keys_apart(self, plan: BatchPlan) -> None:
        """They were, before this batch."""
        self._apart.add(_log_of(plan))

    # ── giving back ──────────────────────────────────────────────────────────────────────

    def leave(self, entry: TableEntry) -> None:
        """A table needs nothing more in this run."""
        topic = _topic(entry)
        self._gone[topic].add(entry.table)
        if len(self._gone[topic]) >= self._tables(entry):
            self.forget(entry)

    def forget(self, entry: TableEntry) -> None:
        """Give back what was read of a table's topic: it is read again where it is needed."""
        _release(self._readings.pop(_topic(entry), []))

    def release(self) -> None:
        """Give everything back."""
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
    """Sources may read one topic in different ways."""
    return f"{entry.table.source}:{entry.topic}"


def _log_of(plan: BatchPlan) -> tuple[str, TopicIdentity, Ranges]:
    return _topic(plan.entry), plan.identity, plan.ranges


def _release(readings: list[_Reading]) -> None:
    """A server that does not answer has released all itself, and asking in vain takes long."""
    all(each.could_release() for each in readings)


def _share_of(reading: _Reading, plan: BatchPlan) -> Share:
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
    """How many changes of each table there are, of a few more than `_MOST_TABLES` at most."""
    told = apart.where(F.col(OF_TABLE).isNotNull())
    counted = told.groupBy(OF_TABLE).agg(F.sum(OF_ROWS).alias("rows")).limit(_MOST_TABLES + 1)
    return {row[OF_TABLE]: row["rows"] for row in counted.collect()}
