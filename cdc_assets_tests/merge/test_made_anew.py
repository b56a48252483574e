"""A connector that is made anew on the slot of the old one sends changes again.

The first transaction that it sends has no last commit, whatever it had the first time.
"""

from __future__ import annotations

from typing import Any

import pytest

from cdc_assets_tests.merge.events import PLACEHOLDER, event, tombstone
from cdc_assets_tests.merge.one_table import TABLE, Make, names, start
from cdc_assets_tests.pipeline import Message
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

LARGE = "x" * 9000


def keyless(commit: int | None) -> list[Message]:
    """One transaction."""
    rows = [{"a": 1, "b": "x"}, {"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    return [
        event("c", row, 100 + n, commit=commit, order=n, key=()) for n, row in enumerate(rows, 1)
    ]


def test_rows_without_a_key_are_not_counted_twice(pipeline: Make) -> None:
    table = start(pipeline, *keyless(commit=90))
    before = table.rows(TABLE)
    assert len(before) == 3
    table.produce(TABLE, keyless(commit=None))
    table.merge(TABLE)
    assert table.rows(TABLE) == before


def test_rows_without_a_key_are_not_counted_twice_in_one_batch(pipeline: Make) -> None:
    table = start(pipeline, *keyless(commit=90), *keyless(commit=None))
    assert len(table.rows(TABLE)) == 3


def row(id_: int, name: str | None) -> dict[str, Any]:
    return {"id": id_, "name": name}


def moved(
    old: int, new: int, lsn: int, commit: int | None, partitions: tuple[int, int] = (0, 0)
) -> list[Message]:
    """A changed key that left its large value alone."""
    gone, made = partitions
    return [
        event("d", row(old, None), lsn, commit=commit, partition=gone),
        tombstone(old, gone),
        event("c", row(new, PLACEHOLDER), lsn, commit=commit, partition=made),
    ]


def test_a_changed_key_that_is_sent_again_keeps_the_value_that_it_left_alone(
    pipeline: Make,
) -> None:
    table = start(pipeline, event("c", row(1, LARGE), 60, commit=50), *moved(1, 2, 200, 190))
    table.produce(TABLE, moved(1, 2, 200, None))
    table.merge(TABLE)
    assert names(table) == {2: LARGE}


@profiles.in_soak
def test_a_changed_key_that_is_sent_again_takes_nothing_of_a_row_that_came_after(
    pipeline: Make,
) -> None:
    made = event("c", row(1, LARGE), 10, commit=9)
    table = start(pipeline, made, *moved(1, 2, 20, 19), event("c", row(1, "new"), 30, commit=29))
    assert names(table) == {1: "new", 2: LARGE}
    table.produce(TABLE, moved(1, 2, 20, 19))
    table.merge(TABLE)
    assert names(table) == {1: "new", 2: LARGE}


@profiles.in_soak
def test_halves_of_a_changed_key_may_follow_different_snapshots_in_their_partitions(
    pipeline: Make,
) -> None:
    table = start(pipeline, event("r", row(1, LARGE), 50), partitions=2)
    first = moved(1, 2, 70, None, (0, 1))
    table.produce(TABLE, [event("r", row(1, LARGE), 80), *first])
    table.merge(TABLE)
    assert names(table) == {2: LARGE}
