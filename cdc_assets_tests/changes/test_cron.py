"""Cron expressions are due when cron and Dagster say so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from dagster._utils.schedules import cron_string_iterator
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.cron import Cron
from cdc_assets_tests.toy.profiles import examples

START = datetime(2026, 2, 27, 22, 7, tzinfo=UTC)


def _range(ends: list[int]) -> str:
    """Dagster takes ``0-0`` for any weekday."""
    return f"{min(ends)}-{max(ends)}"


def fields(lowest: int, highest: int) -> st.SearchStrategy[str]:
    number = st.integers(lowest, highest)
    part = st.one_of(
        st.just("*"),
        number.map(str),
        st.lists(number, min_size=2, max_size=2, unique=True).map(_range),
        st.integers(2, 7).map(lambda step: f"*/{step}"),
    )
    return st.one_of(part, st.lists(number, min_size=2, max_size=3, unique=True).map(
        lambda found: ",".join(map(str, found))))  # fmt: skip


crons = st.tuples(fields(0, 59), fields(0, 23), fields(1, 28), fields(1, 12), fields(0, 6)).map(
    " ".join
)


@pytest.mark.property
@examples(100)
@given(crons)
def test_it_ticks_when_dagster_does(text: str) -> None:
    ticks = cron_string_iterator(START.timestamp(), text, "UTC")
    found = [at for at, _ in zip(ticks, range(5), strict=False)]
    cron = Cron.parse(text)
    for at in found:
        assert cron.is_due(at), (text, at)
    first = found[0]
    between = first - START if first > START else timedelta()
    if between < timedelta(days=40):
        assert cron.ticks(START, between) == 0, text
        assert cron.ticks(START, between + timedelta(minutes=1)) == 1, text


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "count"),
    [("*/30 * * * *", 48), ("0 1-5 * * *", 5), ("7 2 * * mon-fri", 1), ("0 0 jan sun", None),
     ("0 0 1 1 7", 0)],
)  # fmt: skip
def test_ticks_of_a_day_are_counted(text: str, count: int | None) -> None:
    if count is None:
        with pytest.raises(ValueError, match="4 fields"):
            Cron.parse(text)
        return
    monday = datetime(2026, 3, 2, tzinfo=UTC)
    assert Cron.parse(text).ticks(monday, timedelta(days=1)) == count


@pytest.mark.unit
@pytest.mark.parametrize("text", ["60 * * * *", "* 5-3 * * *", "* * 0 * *", "* * * foo *",
                                  "*/0 * * * *", "a * * * *", "* * * * 8", "@daily"])  # fmt: skip
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"its \w+ cannot be read|fields"):
        Cron.parse(text)
