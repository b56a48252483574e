"""Reads the records of batches: from Kafka, or from what was read for several tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pyspark.sql import DataFrame

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetRange, total_length
from cdc_assets.formats.by_table import SkippedRecords, find_skipped, with_owners
from cdc_assets.log.values import TopicIdentity
from cdc_assets.merge.attempt.context import AttemptContext
from cdc_assets.merge.intake.read import (
    FEW,
    FEW_BYTES,
    USUALLY_AT_ONCE,
    WITH_HEADERS,
    at_once,
    read_ranges,
    sent_along,
)
from cdc_assets.merge.intake.shared_reading import Share, SharedReadings
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements.deadline import Steps
from cdc_assets.registry import Taken

_Place = tuple[TableName, TopicIdentity, tuple[OffsetRange, ...]]
_Few = tuple[str, tuple[OffsetRange, ...]]
_KEPT: Final = 4


@dataclass(frozen=True, slots=True)
class Records:
    """The records of batches.

    Attributes:
        means: of the tries.
        most: by topic, the limit of a batch's records after a failure that may pass by itself: they
            may be what ended the Spark server, as records grow when they are decompressed.
    """

    means: AttemptContext
    most: dict[str, int] = field(default_factory=dict[str, int])
    _quickly: dict[str, int] = field(default_factory=dict[str, int])
    _skipped: dict[_Place, SkippedRecords] = field(default_factory=dict["_Place", SkippedRecords])
    _few: dict[_Few, DataFrame] = field(default_factory=dict["_Few", DataFrame])

    def failed(self, plan: BatchPlan) -> None:
        """Makes the next batch of the topic much smaller than this one."""
        records, topic = sum(each.length for each in plan.ranges), plan.entry.topic
        self.most[topic] = max(1, min(records, USUALLY_AT_ONCE) >> 5)
        self._quickly[topic] = max(1, records >> 3)

    def merged(self, topic: str) -> None:
        """Lets batches of the topic grow again: slowly once they come near the one that failed."""
        if topic not in self.most:
            return
        most = self.most.pop(topic)
        most = most << 2 if most << 2 <= self._quickly[topic] else most + (most >> 2) + 1
        if most < USUALLY_AT_ONCE:
            self.most[topic] = most

    def own_records(self, plan: BatchPlan, ranges: tuple[OffsetRange, ...]) -> DataFrame:
        """Returns the records in ranges of the plan's topic that the table has to read.

        These are all of them, unless its format's records may name their table and the topic has
        held others' (`TableEntry.is_shared`).

        Args:
            plan: of the batch.
            ranges: half-open, one per partition, none empty.
        """
        raw = self.read(plan, ranges)
        if not self._is_shared(plan):
            return raw
        fmt, entry = self.means.planner.format(plan.entry), plan.entry
        records = with_owners(raw, fmt, plan.layout, entry.topic)
        return self.skipped(plan, ranges).own_records(records, entry.at_source)

    def skipped(self, plan: BatchPlan, ranges: tuple[OffsetRange, ...]) -> SkippedRecords:
        """Returns which records in ranges are other tables'. The last ones looked at are kept.

        Args:
            plan: of the batch of a table whose format `names_tables`.
            ranges: as for `read`.
        """
        entry, place = plan.entry, (plan.entry.table, plan.identity, ranges)
        if place not in self._skipped:
            fmt = self.means.planner.format(entry)
            frames = [self.read(plan, ranges)]
            if ranges == plan.ranges and plan.context:
                frames.append(self.read(plan, plan.context))
            records = [with_owners(each, fmt, plan.layout, entry.topic) for each in frames]
            before = records[1] if len(records) > 1 else None
            found = find_skipped(records[0], before, entry.at_source)
            while len(self._skipped) >= _KEPT:
                del self._skipped[next(iter(self._skipped))]
            self._skipped[place] = found
        return self._skipped[place]

    def has_others(self, plan: BatchPlan) -> bool:
        """Returns whether records of other tables explain what a plan has not expected.

        Not if the table is already given its own alone, or takes all of its topic.
        """
        fmt, entry = self.means.planner.format(plan.entry), plan.entry
        may_differ = fmt.names_tables and entry.taken is not Taken.ALL and not entry.is_shared
        return may_differ and bool(self.skipped(plan, plan.ranges).others)

    def _is_shared(self, plan: BatchPlan) -> bool:
        fmt, entry = self.means.planner.format(plan.entry), plan.entry
        return fmt.names_tables and entry.is_shared and entry.taken is not Taken.ALL

    def read(self, plan: BatchPlan, ranges: tuple[OffsetRange, ...]) -> DataFrame:
        """Returns the records in ranges of the plan's topic, as they are in Kafka.

        Args:
            plan: of the batch.
            ranges: half-open, one per partition, none empty.
        """
        topic, most = plan.entry.topic, self.most.get(plan.entry.topic)
        with_headers = self.means.planner.format(plan.entry).reads_headers(plan.layout)
        if ranges == plan.ranges and not most and total_length(ranges) <= FEW:
            few = self._sent_along(plan, with_headers=with_headers)
            if few is not None:
                return few
        options = self.means.config.kafka.spark_options()
        if most:
            options |= at_once(most)
        if with_headers:
            options = {**options, **WITH_HEADERS}
        return read_ranges(self.means.session(), topic, ranges, options)

    def _sent_along(self, plan: BatchPlan, *, with_headers: bool) -> DataFrame | None:
        """Returns the few records of a batch, read once; None if they are too large, or none."""
        place, session = (plan.attempt, plan.ranges), self.means.session()
        kept = self._few.get(place)
        if kept is not None and kept.sparkSession is session:
            return kept
        found = self.means.connections.log.whole(plan.entry.topic, plan.ranges, FEW_BYTES)
        if not found:
            return None
        few = sent_along(session, found, with_headers=with_headers)
        while len(self._few) >= _KEPT:
            del self._few[next(iter(self._few))]
        self._few[place] = few
        return few

    def share(self, plan: BatchPlan, shared: SharedReadings | None, steps: Steps) -> Share | None:
        """Returns the batch's records if those of other tables are left out, else None.

        Args:
            plan: of the batch.
            shared: the run's readings; None if each table reads alone.
            steps: measures the reading.
        """
        fmt = self.means.planner.format(plan.entry)
        if self._is_shared(plan):
            with steps.step("tell the topic's tables apart"):
                others = self.skipped(plan, plan.ranges).others
                return Share(self.own_records(plan, plan.ranges), others)
        if shared is None or not shared.is_for(plan.entry, fmt):
            return None
        with steps.step("read the topic"):
            read = partial(self.read, plan, plan.ranges)
            return shared.share(plan, fmt, self.means.session(), read)
