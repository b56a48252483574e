"""Makes the plan of a batch from the lake and the log. The batch's records complete it later.

Finds the offsets of a replay: what the table has merged, from its own beginning on.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.offsets import OffsetRange, OffsetVector
from cdc_assets.errors import LostRangeError, TerminalError
from cdc_assets.formats.spec import LINE_BITS
from cdc_assets.lake import Lake, Published, TableState
from cdc_assets.lake.properties import accepted_restart
from cdc_assets.lake.side import Forgettable
from cdc_assets.log.hours import HourWindow
from cdc_assets.log.values import TopicIdentity, Watermarks
from cdc_assets.merge.intake.planning.configured import Configured
from cdc_assets.merge.intake.planning.pending import Offsets
from cdc_assets.merge.intake.planning.topics import TopicNow, Topics
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.registry import TableEntry
from cdc_assets.schema.file_layout import AS_IT_IS, FileLayout


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans of batches of tables.

    Attributes:
        configured: the tables.
    """

    configured: Configured

    def of(
        self,
        entry: TableEntry,
        state: TableState | None,
        offsets: Offsets,
        now: TopicNow,
        run_id: str,
    ) -> BatchPlan:
        """Returns the plan of a batch after the committed offsets.

        Args:
            entry: the table.
            state: of the lake's table; None if it is yet to be made.
            offsets: of the batch.
            now: the topic.
            run_id: recorded.

        Raises:
            TerminalError: see `LakeTables.plan`.
        """
        table, marks = self.configured.tables(entry).plan(state), now.marks
        published = state.published if state else None
        begin = marks.begin
        context = (
            OffsetRange(r.partition, r.start - 1, r.start)
            for r in offsets.ranges
            if r.start > begin.get(r.partition)
        )
        plan = BatchPlan(
            entry=entry,
            head=state.snapshot_id if state else None,
            published=published,
            identity=now.identity,
            start=offsets.start,
            ranges=offsets.ranges,
            end=offsets.end,
            partitions=len(marks.end.offsets),
            context=tuple(context),
            schema=table.first.schema,
            layout=table.first.layout,
            is_empty=state.is_empty if state else True,
            head_columns=state.head_columns if state else {},
            soft=self.configured.source(entry).overrides(entry.table).deletes == "soft",
            mode=self.configured.mode(entry),
            replay=False,
            run_id=run_id,
            attempt=str(uuid.uuid4()),
            state=state,
            steps=table.steps,
            files=FileLayout.left_alone(state.properties) if state else AS_IT_IS,
            numbering=published.carried.numbering if published else "",
            permit=state.properties.get(accepted_restart(entry.shard_value), "") if state else "",
        )
        return replace(plan, forgettable=self._forgettable(plan, marks))

    def _forgettable(self, plan: BatchPlan, marks: Watermarks) -> Forgettable | None:
        """Returns forgettable deletes; None if keys may move, or changes are in quarantine."""
        said = self.configured.source(plan.entry).upkeep(plan.entry.table)
        published = plan.published
        if not said.enabled or published is None or published.counts.get("quarantined"):
            return None
        if not plan.keys_stay:
            return None
        begin, end = marks.begin.as_dict(), marks.end.as_dict()
        held = [at for partition, at in begin.items() if at < end.get(partition, at)]
        below = min(held) if held else max(end.values(), default=0)
        if self.configured.format(plan.entry).has_many_rows:
            below <<= LINE_BITS
        return Forgettable(below, said.remembered_deletes) if below else None

    def swap(self, entry: TableEntry, state: TableState, published: Published) -> BatchPlan:
        """Returns the plan of a publish that reads no records: see `cdc_assets.operations.rebuild`.

        Args:
            entry: the table.
            state: of the lake's table, on whose head it is published.
            published: to be recorded.
        """
        tables = self.configured.tables(entry)
        table = tables.plan(replace(state, published=published))
        return BatchPlan(
            entry=entry,
            head=state.snapshot_id,
            published=state.published,
            identity=TopicIdentity(published.cluster_id, published.topic_id),
            start=published.start,
            ranges=(),
            end=published.offsets,
            partitions=published.carried.partitions_seen,
            context=(),
            schema=table.first.schema,
            layout=table.first.layout,
            is_empty=state.is_empty,
            head_columns=state.head_columns,
            soft=False,
            mode=self.configured.mode(entry),
            replay=False,
            run_id=published.run,
            attempt=published.attempt,
            state=state,
            files=tables.layout(table.first.schema, state).files,
        )


@dataclass(frozen=True, slots=True)
class Replays:
    """The replays of tables.

    Attributes:
        configured: the tables.
        lake: read for committed offsets.
        topics: of the tables.
    """

    configured: Configured
    lake: Lake
    topics: Topics

    def ranges(self, entry: TableEntry, window: HourWindow) -> tuple[OffsetRange, ...]:
        """Returns an hour's merged offsets, without empty ranges.

        A partition whose records of that time are gone held none of the hour if they had all been
        merged before it began: a kept publish shows that.

        Raises:
            LostRangeError: if the log may no longer hold the hour's beginning, of what comes after
                the table's own.
            TerminalError: if the table does not exist yet, or has no key.
        """
        published = self._published(entry)
        own = _beginning(published)
        offsets = self.topics.in_hour(entry, window)
        begin = self.topics.marks(entry).begin.as_dict()
        gone = {p: at for p, at in begin.items() if at > own.get(p) and offsets.start.get(p) <= at}
        older = OffsetVector()
        if gone and not window.is_first(entry.hours_from):
            older = self._merged_by(entry, published, window.start)
        lost = [f"{p}:[0,{at})" for p, at in gone.items() if older.get(p) < at]
        if lost:
            what = (
                f"the log may no longer hold the start of hour {window}: {' '.join(lost)} is gone"
            )
            where = f"table={entry.table} topic={entry.topic}"
            raise LostRangeError(
                what, where=where, remedy="replay later hours, or re-snapshot", page="lost-hour"
            )
        return merged_part(published, offsets.ranges)

    def _merged_by(self, entry: TableEntry, newest: Published, time: datetime) -> OffsetVector:
        """Returns the offsets of the last kept publish up to a time; empty if none shows them.

        Before a rebuild the log may have been cut back and have grown again. A broker without ids
        of topics does not tell whether it is the same topic.
        """
        log = newest.topic_id, newest.carried.generation
        for each in self.lake.history(entry.target, sys.maxsize, entry.shard_value):
            if each.published_at <= time:
                is_same = each.topic_id and (each.topic_id, each.carried.generation) == log
                return each.offsets if is_same else OffsetVector()
        return OffsetVector()

    def _published(self, entry: TableEntry) -> Published:
        """Returns the newest publish of a table; fails if the table cannot be replayed.

        Raises:
            TerminalError: if there is none, or its rows are counted.
        """
        state = self.lake.state(entry.target, entry.shard_value)
        where = f"table={entry.table}"
        if state is None or state.published is None:
            what = "there is nothing to replay: the table was not replicated yet"
            raise TerminalError(what, where=where, remedy="materialize it first")
        is_mirror = self.configured.mode(entry) is Mode.MIRROR
        if is_mirror and not self.configured.tables(entry).plan(state).first.schema.key:
            what = "a table without a key is not replayed: its rows are counted, not replaced"
            remedy = f"rebuild it: cdc-assets rebuild {entry.table}"
            raise TerminalError(what, where=where, remedy=remedy, page="keyless-replay")
        return state.published


def _beginning(published: Published) -> OffsetVector:
    """Returns the table's own beginning: earlier records are another table's, or older rows."""
    return published.carried.read_from or OffsetVector()


def merged_part(published: Published, ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Cuts ranges to what a table has merged, from its own beginning on; omits empty ones.

    Earlier records must not even be read: they could be refused, or show another table's columns.
    """
    beginning, committed = _beginning(published), published.offsets
    return tuple(each for each in (_within(r, beginning, committed) for r in ranges) if each.length)


def _within(each: OffsetRange, beginning: OffsetVector, committed: OffsetVector) -> OffsetRange:
    """Returns the part of a range at or after a beginning and before the committed offsets."""
    end = max(each.start, min(each.end, committed.get(each.partition)))
    return replace(each, start=min(end, max(each.start, beginning.get(each.partition))), end=end)
