"""Which tables go into which runs: a plan made of plain values, without side effects."""

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
"""More than this takes a table long enough to keep others waiting: its topic gets its own run."""


@dataclass(frozen=True, slots=True)
class Due:
    """A table with something to read, and the hour where reading goes on."""

    entry: TableEntry
    hour: HourWindow
    lag_changes: int

    @property
    def is_backlog(self) -> bool:
        """Whether it gets a run of its own."""
        return self.lag_changes > BACKLOG_CHANGES


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run: tables that share an hour, or the tables of one topic with its backlog."""

    hour: HourWindow
    entries: tuple[TableEntry, ...]
    backlog: bool = False


@dataclass(frozen=True, slots=True)
class Slots:
    """How many runs may be added now; backlogs may take all but one of them."""

    runs: int
    backlogs: int


def is_due(
    table: TableSurvey, busy: Collection[TableName], now: datetime, *, ignore_backoff: bool = False
) -> bool:
    """Whether there is something to do for a table, nobody is at it, and it need not wait.

    Nothing is done for a table that people have paused or dropped, whoever asks; nor for one that
    has stopped, unless that is a person.

    There is something to do if changes are unread, if its topic vanished (the run then says
    what that means), or if it failed before: a run without changes shows that it is well. A table
    that waits for a transaction is looked at when the log has moved, or its interval is over:
    until then a run could merge nothing, whoever starts it.
    """
    if table.table in busy or table.desired.held or not _has_work(table):
        return False
    failure = table.failure
    is_not_yet = failure is not None and now < failure.retry_at and not table.has_moved
    waits = is_not_yet or (failure is not None and failure.stopped)
    return not waits or (ignore_backoff and not table.waits)


def _has_work(table: TableSurvey) -> bool:
    if table.failure is not None:
        return True
    is_there = table.published is not None and table.entry.dropped is None
    vanished = table.marks is None and is_there
    return vanished or bool(table.lag_changes)


def plan_runs(due: Iterable[Due], slots: Slots) -> tuple[RunPlan, ...]:
    """As few runs as sensible: one per hour for small tables, then the backlogs.

    The newest hour comes first, so that what is nearly current stays so; of the backlogs the
    smallest. Tables of one topic have one backlog, which is read once in one run.
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
