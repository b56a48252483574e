"""A thousand tables are compared over a day, not at once, and none of them is forgotten."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from cdc_assets.changes.cron import Cron
from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.orchestration.verify_schedules import whose_turn
from cdc_assets.registry import TableEntry

pytestmark = pytest.mark.slow

START = datetime(2026, 3, 4, tzinfo=UTC)
DAY = timedelta(days=1)


def entries(count: int) -> list[TableEntry]:
    return [
        TableEntry(TableName("s", "p", f"t{n:04}"), f"s.p.t{n:04}", LakeName("s_p", f"t{n}"), START)
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("count", "text", "most"),
    [(1_000, "*/30 * * * *", 21), (3, "*/30 * * * *", 1), (1_000, "0 1 * * *", 1_000),
     (100, "*/10 1-5 * * *", 4)],
)  # fmt: skip
def test_each_table_has_its_turn_once_a_day_and_few_at_a_time(
    count: int, text: str, most: int
) -> None:
    tables, cron = entries(count), Cron.parse(text)
    last: dict[TableEntry, datetime] = {}
    turns = Counter[TableEntry]()
    days = 4
    for minute in range(days * 24 * 60):
        now = START + timedelta(minutes=minute)
        if not cron.is_due(now):
            continue
        due = whose_turn(tables, last, now, cron, DAY)
        assert len(due) <= most
        turns.update(due)
        last |= {each: now + timedelta(seconds=40 + n) for n, each in enumerate(due)}
    assert set(turns) == set(tables)
    assert {days - 1, days} >= set(turns.values()), turns.most_common(3)


def test_those_that_have_waited_longest_come_first() -> None:
    cron, (one, two, three) = Cron.parse("0 * * * *"), entries(3)
    last = {one: START - 3 * DAY, two: START - 5 * DAY}
    assert whose_turn([one, two, three], last, START, cron, DAY) == (three,)
    assert whose_turn([one, two], last, START, cron, DAY) == (two,)
    assert whose_turn([one], {one: START}, START + DAY / 2, cron, DAY) == ()


def test_a_comparison_by_a_clock_that_was_ahead_does_not_put_the_next_one_off() -> None:
    cron, (one, two) = Cron.parse("0 * * * *"), entries(2)
    last = {one: START + 400 * DAY, two: START + timedelta(minutes=1)}
    assert whose_turn([one, two], last, START, cron, DAY) == (one,)


def test_tables_in_doubt_come_before_their_turn_and_once_for_each_doubt() -> None:
    cron, (one, two, three) = Cron.parse("0 * * * *"), entries(3)
    hour = timedelta(hours=1)
    last = {one: START - DAY, two: START - hour, three: START - 2 * hour}
    doubted = {two: START - hour / 2}
    assert whose_turn([one, two, three], last, START, cron, DAY, doubted) == (two,)
    compared = {**last, two: START - hour / 4}  # and found to differ: it stays in doubt
    assert whose_turn([one, two, three], compared, START, cron, DAY, doubted) == (one,)
