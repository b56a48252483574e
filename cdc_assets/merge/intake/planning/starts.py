"""Finds where a table's next batch starts, and checks that the log still holds all from there on.

A batch starts at the committed offsets of the newest publish. A table without one starts where it
was made to begin, or behind another table of its name that was dropped, or where it began before
people had it removed, or else where the log begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.errors import TerminalError
from cdc_assets.lake import TableState
from cdc_assets.log.values import Watermarks
from cdc_assets.merge.intake.planning.begin import begin_of
from cdc_assets.merge.intake.planning.checks import Checks, require_begun_here, require_offsets
from cdc_assets.merge.intake.planning.configured import Configured
from cdc_assets.merge.intake.planning.continuity import require_kept, require_whole
from cdc_assets.merge.intake.planning.topics import TopicNow
from cdc_assets.registry import TableEntry

_SKEW: Final = timedelta(hours=1)
"""By which the clocks of producers may differ from this one's."""


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
            TerminalError: if the table has no offsets, or records came under its former name, or it
                is not known where a dropped table of its name ended.
        """
        self.checks.require_none_late(entry)
        require_offsets(entry, state)
        if state and state.published:
            start = state.published.offsets
            self.checks.require_same_log(entry, state, state.published, now.identity)
            self.checks.require_unmoved(entry, state, state.published, now.marks)
        else:
            start = self._of_new(entry, state, now)
        require_kept(entry, start, now.marks, self.configured.anew(entry))
        return start

    def _of_new(self, entry: TableEntry, state: TableState | None, now: TopicNow) -> OffsetVector:
        """Returns the start of a table that has no publish."""
        if state:
            require_begun_here(entry, state, now.identity)
        begin = begin_of(state)
        if begin is not None:
            return begin
        own = self._behind_another(entry, now)
        if entry.begins is not None:
            own = own.merged_max(entry.begins.at_in(now.identity.topic_id))
        if self.configured.source(entry).lost_start == "fail":
            require_whole(entry, now.marks, own)
        return now.marks.begin.merged_max(own)

    def _behind_another(self, entry: TableEntry, now: TopicNow) -> OffsetVector:
        """Returns where changes of a dropped table of its name end; empty if there are none."""
        dropped = entry.dropped
        if dropped is None or dropped.end is None:
            return OffsetVector()
        if dropped.topic_id:
            return dropped.end_in(now.identity.topic_id) or OffsetVector()
        times = (dropped.at, dropped.at + _SKEW)
        first = self.checks.log.offsets_at([entry.topic], times)
        since, later = (first[entry.topic, each] for each in times)
        return end_by_time(entry, dropped.end, (since, later), now.marks)


def end_by_time(
    entry: TableEntry,
    end: OffsetVector,
    first: tuple[OffsetVector, OffsetVector],
    marks: Watermarks,
) -> OffsetVector:
    """Returns the end of a dropped table's changes, which an earlier version noted without topic.

    All of them are older than the note, and all of a topic that was made anew is newer.

    Args:
        entry: the table.
        end: noted.
        first: the first offsets not older than the note, and those that are newer for certain.
        marks: of the topic as it is.

    Returns:
        The end; empty if the topic was made anew.

    Raises:
        TerminalError: if neither is certain.
    """
    since, later = first
    if all(since.get(p) >= at for p, at in end):
        return end
    if all(later.get(p) <= marks.begin.get(p) for p, _ in end):
        return OffsetVector()
    what = (
        f"a dropped table of this name ended at offsets {end}, and whether that was in this topic, "
        "or in one before it was made anew, is not known"
    )
    where = f"table={entry.table} topic={entry.topic}"
    remedy = (
        "in the registry's file, give the table's `dropped` the `topic_id` of the topic as it is, "
        "or take its `end` out if the topic was made anew since"
    )
    raise TerminalError(what, where=where, remedy=remedy)
