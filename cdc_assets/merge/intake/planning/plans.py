"""Makes the plan of a batch from the lake and the log. The batch's records complete it later."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.formats.spec import LINE_BITS
from cdc_assets.lake import Published, TableState
from cdc_assets.lake.properties import accepted_restart
from cdc_assets.lake.side import Forgettable
from cdc_assets.log.values import TopicIdentity, Watermarks
from cdc_assets.merge.intake.planning.configured import Configured
from cdc_assets.merge.intake.planning.pending import Offsets
from cdc_assets.merge.intake.planning.topics import TopicNow
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.registry import TableEntry


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
            numbering=published.carried.numbering if published else "",
            permit=state.properties.get(accepted_restart(entry.shard_value), "") if state else "",
        )
        return replace(plan, forgettable=self._forgettable(plan, marks))

    def _forgettable(self, plan: BatchPlan, marks: Watermarks) -> Forgettable | None:
        """Returns which deletes may go; None if keys may move, or changes are in quarantine."""
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
        """Returns the plan of a publish that reads no records: see `cdc_assets.merge.rebuild`.

        Args:
            entry: the table.
            state: of the lake's table, on whose head it is published.
            published: to be recorded.
        """
        table = self.configured.tables(entry).plan(state)
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
        )
