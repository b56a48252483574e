"""Finds where a table's next batch starts, and checks that the log still holds all from there on.

A batch starts at the committed offsets of the newest publish. A table without one starts where it
was made to begin, or behind another table of its name that was dropped, or else where the log
begins.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.lake import TableState
from cdc_assets.merge.intake.planning.begin import begin_of
from cdc_assets.merge.intake.planning.checks import Checks, require_begun_here, require_offsets
from cdc_assets.merge.intake.planning.configured import Configured
from cdc_assets.merge.intake.planning.topics import TopicNow
from cdc_assets.merge.plan.plan import require_kept, require_whole
from cdc_assets.registry import TableEntry


@dataclass(frozen=True, slots=True)
class Starts:
    """The starts of tables' next batches.

    Attributes:
        configured: the tables.
        checks: of their offsets.
    """

    configured: Configured
    checks: Checks

    def of(self, entry: TableEntry, state: TableState | None, now: TopicNow) -> OffsetVector:
        """Returns the first offset to read of each partition, inclusive.

        Args:
            entry: the table.
            state: of the lake's table; None if it is yet to be made.
            now: its topic.

        Raises:
            LostRangeError, LogReplacedError: if the log is not the one to go on with.
            TransientError: if the table has another topic by now.
            MovedKeysError: if partitions were added, and nothing but offsets orders changes.
            TerminalError: if the table has no offsets, or records came under its former name.
        """
        self.checks.require_none_late(entry)
        require_offsets(entry, state)
        published, marks = state.published if state else None, now.marks
        begin = begin_of(state)
        if begin is None and entry.dropped:
            begin = entry.dropped.end_in(now.identity.topic_id)
        start = published.offsets if published else begin or marks.begin
        if published:
            self.checks.require_same_log(entry, state, published, now.identity)
            self.checks.require_unmoved(entry, state, published, marks)
        else:
            if state:
                require_begun_here(entry, state, now.identity)
            if begin is None and self.configured.source(entry).lost_start == "fail":
                require_whole(entry, marks)
        require_kept(entry, start, marks, self.configured.anew(entry))
        return start
