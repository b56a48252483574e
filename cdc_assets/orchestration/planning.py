"""Plans which tables go into which runs, from plain values and without side effects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cdc_assets.changes.names import TableName
from cdc_assets.log.hours import HourWindow
from cdc_assets.operate.survey import TableSurvey
from cdc_assets.registry import TableEntry

BACKLOG_CHANGES: Final = 200_000
"""More changes than this keep other tables waiting too long: the topic gets a run of its own."""


@dataclass(frozen=True, slots=True)
class Due:
    """A table with something to read, and the hour where reading continues."""

    entry: TableEntry
    hour: HourWindow
    lag_changes: int

    @property
    def is_backlog(self) -> bool:
        """Whether it is too much for a common run."""
        return self.lag_changes > BACKLOG_CHANGES


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run: tables that share an hour, or the tables of one topic with its backlog."""

    hour: HourWindow
    entries: tuple[TableEntry, ...]
    backlog: bool = False


@dataclass(frozen=True, slots=True)
class Slots:
    """The number of runs that may be added now; backlogs may take all but one of them."""

    runs: int
    backlogs: int


def is_due(
    table: TableSurvey, busy: Collection[TableName], now: datetime, *, ignore_backoff: bool = False
) -> bool:
    """Returns whether a table has work, no run has it, and it need not wait.

    A table that people have paused or dropped is never due, nor is one that cannot be read; one
    that has stopped is due for its probe, and with ``ignore_backoff``, which a person's request
    sets.

    A table has work if its first rows or changes are unread, if its topic vanished (the run then
    reports the consequences), or if it failed before: a run without changes shows its recovery. A
    table that waits for a transaction is due when the log has moved, or its interval is over: until
    then no run could merge anything, whoever starts it.
    """
    if table.table in busy or table.desired.held or table.problem is not None:
        return False
    if not _has_work(table):
        return False
    failure = table.failure
    is_not_yet = failure is not None and failure.is_waited_for(now) and not table.has_moved
    waits = is_not_yet or (failure is not None and failure.is_held_back(now))
    return not waits or (ignore_backoff and not table.waits)


def _has_work(table: TableSurvey) -> bool:
    if table.failure is not None or table.reading is not None:
        return True
    is_there = table.published is not None and table.entry.dropped is None
    vanished = table.marks is None and is_there
    return vanished or bool(table.lag_changes)


def one_run_reads(
    due: Iterable[TableSurvey], tables: Iterable[TableSurvey], busy: Collection[TableName]
) -> list[TableSurvey]:
    """Leaves out due tables whose source is being read by another run.

    Tables that are read from their source for the first time are read in one run at a time, so that
    the source serves no more readers than that run has slots.

    Args:
        due: the tables with work.
        tables: all tables.
        busy: those that unfinished runs have.
    """
    read = {e.table.source for e in tables if e.reading is not None and e.table in busy}
    return [each for each in due if each.reading is None or each.table.source not in read]


def plan_runs(due: Iterable[Due], slots: Slots) -> tuple[RunPlan, ...]:
    """Plans few runs: one per hour for small tables, then the backlogs.

    The newest hour comes first, so that nearly current tables stay current; the backlogs follow,
    smallest first. Backlogs of one topic and hour share a run, which reads the topic once.
    """
    by_hour: dict[HourWindow, list[Due]] = defaultdict(list)
    by_topic: dict[tuple[str, str, HourWindow], list[Due]] = defaultdict(list)
    for each in due:
        topic = (each.entry.table.source, each.entry.topic, each.hour)
        (by_topic[topic] if each.is_backlog else by_hour[each.hour]).append(each)
    newest_first = sorted(by_hour, key=lambda hour: hour.start, reverse=True)
    groups = [RunPlan(hour, _entries(by_hour[hour])) for hour in newest_first]
    smallest_first = sorted(by_topic.values(), key=lambda them: max(e.lag_changes for e in them))
    alone = [RunPlan(them[0].hour, _entries(them), backlog=True) for them in smallest_first]
    return tuple([*groups, *alone[: max(0, slots.backlogs)]][: max(0, slots.runs)])


def _entries(due: Sequence[Due]) -> tuple[TableEntry, ...]:
    return tuple(sorted((each.entry for each in due), key=lambda entry: entry.table))
