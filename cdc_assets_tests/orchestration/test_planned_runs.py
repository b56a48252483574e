"""Which tables go into which runs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.log.hours import HOUR, hour_of
from cdc_assets.orchestration.planning import BACKLOG_CHANGES, Due, RunPlan, Slots, plan_runs
from cdc_assets.registry import TableEntry

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 4, 12, 30, tzinfo=UTC)
THIS, EARLIER = hour_of(NOW), hour_of(NOW - HOUR)
MANY = BACKLOG_CHANGES + 1


def due(table: str, topic: str, lag: int, hour=THIS, source: str = "s") -> Due:
    name = TableName(source, "shop", table)
    return Due(TableEntry(name, topic, LakeName("shop", table), NOW), hour, lag)


def named(plans: tuple[RunPlan, ...]) -> list[tuple[bool, list[str]]]:
    return [(each.backlog, [entry.table.name for entry in each.entries]) for each in plans]


def test_the_backlog_of_a_topic_is_one_run_of_its_tables() -> None:
    tables = [
        due("b", "all", MANY), due("a", "all", MANY + 5), due("c", "all", MANY, EARLIER),
        due("d", "all", MANY, source="other"), due("e", "own", MANY + 2), due("f", "own2", 1),
        due("g", "all", 1),
    ]  # fmt: skip
    assert named(plan_runs(tables, Slots(10, 10))) == [
        (False, ["f", "g"]),
        (True, ["c"]),
        (True, ["d"]),
        (True, ["e"]),
        (True, ["a", "b"]),
    ]


def test_backlogs_leave_room_for_others() -> None:
    tables = [due("a", "all", MANY), due("b", "all", MANY), due("c", "own", MANY + 1)]
    assert named(plan_runs(tables, Slots(10, 1))) == [(True, ["a", "b"])]
