"""Tells which upkeep the tables behind a lake table need, by their figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cdc_assets.changes.names import LakeName
from cdc_assets.changes.upkeep import Figures, Task, Thresholds, expirable, tasks
from cdc_assets.lake import Lake
from cdc_assets.lake.side import side_of
from cdc_assets.merge.plan.plan import OWN_BRANCH
from cdc_assets.registry import TableEntry


@dataclass(frozen=True, slots=True)
class Needs:
    """The upkeep that one table needs.

    Attributes:
        name: of the lake table or of a side table.
        figures: of its present files, snapshots and branches.
        tasks: in the order to do them.
        expirable: the snapshots that may be expired.
        limits: the thresholds that decided this.
    """

    name: LakeName
    figures: Figures
    tasks: tuple[Task, ...]
    expirable: tuple[int, ...]
    limits: Thresholds


@dataclass(frozen=True, slots=True)
class UpkeepTable:
    """A table to look after; ``owner`` is the source table whose side table it is, if it is one."""

    name: LakeName
    owner: TableEntry | None


class NeedsReader:
    """Reads what a lake table and its side tables need.

    Args:
        entries: the source tables that are merged into it.
        lake: for reading its state.
        limits: the thresholds that decide.
        clock: wall clock.
        in_cuts: returns the snapshots of a lake table that kept cuts name.
        pending: returns for how long cuts have waited for tables to reach them.
    """

    def __init__(
        self,
        entries: Sequence[TableEntry],
        lake: Lake,
        limits: Thresholds,
        clock: Callable[[], datetime],
        in_cuts: Callable[[LakeName], tuple[int, ...]],
        pending: Callable[[], timedelta],
    ) -> None:
        self._in_cuts, self._pending = in_cuts, pending
        self._entries, self._lake, self._limits, self._clock = entries, lake, limits, clock

    def tables(self) -> Iterator[UpkeepTable]:
        """Yields the lake table and the side tables that there may be."""
        target = self._entries[0].target
        yield UpkeepTable(target, None)
        for entry in self._entries:
            marks = self._lake.side_marks(target, entry.shard_value)
            names = (side_of(entry.stem, mark) for mark in (None, *marks))
            yield from (UpkeepTable(name, entry) for name in dict.fromkeys(names))

    def of(self, table: UpkeepTable) -> Needs | None:
        """Returns the needs of a table; None if there is no such table."""
        figures = self._lake.figures(table.name, OWN_BRANCH, self._named(table))
        if figures is None:
            return None
        now, limits = round(self._clock().timestamp() * 1000), self._limits
        gone = expirable(figures.history, limits, now)
        if gone and table.owner is None:  # some may be the table's snapshot in a pending cut
            limits = replace(limits, keep=max(limits.keep, self._pending()))
            gone = expirable(figures.history, limits, now)
        return Needs(table.name, figures, tasks(figures, limits, now), gone, limits)

    def _named(self, table: UpkeepTable) -> tuple[int, ...]:
        """Returns the snapshots that are named elsewhere.

        Those of a lake table by cuts, those of a side table by the publishes that are left.
        """
        owner = table.owner
        if owner is None:
            return self._in_cuts(table.name)
        marks = self._lake.side_marks(owner.target, owner.shard_value)
        mine = (each for each in marks if side_of(owner.stem, each) == table.name)
        return tuple(each.snapshot for each in mine if each.snapshot is not None)
