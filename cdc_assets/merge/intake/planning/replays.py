"""Finds the offsets of a replay: what the table has merged, from its own beginning on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.offsets import OffsetRange, OffsetVector
from cdc_assets.errors import LostRangeError, TerminalError
from cdc_assets.lake import Lake, Published
from cdc_assets.log.hours import HourWindow
from cdc_assets.merge.intake.planning.configured import Configured
from cdc_assets.merge.intake.planning.topics import Topics
from cdc_assets.registry import TableEntry


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
        """Returns an hour's offsets, as far as they were merged; none is empty.

        Raises:
            LostRangeError: if the log may no longer hold the hour's beginning, of what comes after
                the table's own.
            TerminalError: if the table does not exist yet, or has no key.
        """
        published = self._published(entry)
        committed, own = published.offsets, _beginning(published)
        offsets = self.topics.in_hour(entry, window)
        begin = self.topics.marks(entry).begin.as_dict()
        lost = [
            f"{p}:[0,{at})"
            for p, at in begin.items()
            if at > own.get(p) and offsets.start.get(p) <= at
        ]
        if lost:
            what = (
                f"the log may no longer hold the start of hour {window}: {' '.join(lost)} is gone"
            )
            where = f"table={entry.table} topic={entry.topic}"
            raise LostRangeError(what, where=where, remedy="replay later hours, or re-snapshot")
        merged = (
            replace(r, end=max(r.start, min(r.end, committed.get(r.partition))))
            for r in offsets.ranges
        )
        return _from(own, merged)

    def possible(
        self, entry: TableEntry, ranges: tuple[OffsetRange, ...]
    ) -> tuple[OffsetRange, ...]:
        """Returns the part of ranges that can be replayed: what is the table's; none is empty.

        Raises:
            TerminalError: if some of them was never merged, or the table cannot be replayed.
        """
        published = self._published(entry)
        committed = published.offsets
        ahead = [str(each) for each in ranges if each.end > committed.get(each.partition)]
        if ahead:
            what = f"offsets that were never merged cannot be replayed: {' '.join(ahead)}"
            where = f"table={entry.table}"
            raise TerminalError(what, where=where, remedy="materialize the table first")
        return _from(_beginning(published), ranges)

    def _published(self, entry: TableEntry) -> Published:
        """Returns the newest publish of a table that can be replayed.

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
            remedy = f"build it anew: cdc-assets rebuild {entry.table}"
            raise TerminalError(what, where=where, remedy=remedy)
        return state.published


def _beginning(published: Published) -> OffsetVector:
    """Returns the table's own beginning: records before it are another table's, or older rows."""
    return published.carried.read_from or OffsetVector()


def _from(beginning: OffsetVector, ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Cuts ranges at a beginning; none is empty.

    Not even looked at is what lies before: it could be refused, or show columns of another table.
    """
    own = (
        replace(each, start=min(each.end, max(each.start, beginning.get(each.partition))))
        for each in ranges
    )
    return tuple(each for each in own if each.length)
