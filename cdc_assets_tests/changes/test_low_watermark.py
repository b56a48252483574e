"""Why the low watermark is that of the partition, of complete snapshots, and below no commit.

And why rows of incremental snapshots do not stand at their LSN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from cdc_assets_tests.model.change import Change, LowWatermarks, Position, by_position
from cdc_assets_tests.model.reference import Merger, Rules
from cdc_assets_tests.toy.actions import (
    Action,
    Commit,
    Delete,
    Incremental,
    Insert,
    Restart,
    Snapshot,
    Toy,
    Update,
)
from cdc_assets_tests.toy.connector import Settings, changes_of
from cdc_assets_tests.toy.source import SINGLE

pytestmark = pytest.mark.unit

FLOATING = Insert(0, 0, {"n": 0}), Insert(1, 1, {"n": 0}), Commit(1, 0), Snapshot(), Commit(0, 0)
"""Key 1 is committed before the snapshot, key 0 in the transaction that was open then."""


def at_one_position(watermark: int) -> Callable[[Change, LowWatermarks], Position]:
    """Snapshot rows and floating changes alike at the highest snapshot row of any kind."""

    def order(change: Change, _: LowWatermarks) -> Position:
        first, lsn, offset = change.position
        if change.op == "r":
            return (first, first, offset)
        at = max(lsn, watermark)
        return (at, at, offset) if change.floats or first == watermark else change.position

    return order


def log_of(actions: Sequence[Action]) -> tuple[Toy, list[Change]]:
    toy = Toy(SINGLE, Settings(tombstones=False))
    for action in actions:
        toy.do(action)
    return toy, changes_of(toy.log.records)


def values(
    batches: Sequence[Sequence[Change]], *, known: int | None = None
) -> dict[object, object]:
    """``n`` by key after some batches; with a watermark for all that is ``known``, or the rule."""
    order = by_position if known is None else at_one_position(known)
    merger = Merger(SINGLE.shape, rules=Rules(order=order))
    for batch in batches:
        merger = merger.apply(batch)
    return {key[0]: held.values["n"] for key, held in merger.rows.items()}


def highest_read(changes: Sequence[Change]) -> int:
    return max(change.position[0] for change in changes if change.op == "r")


def test_an_incremental_snapshot_does_not_lift_what_is_sent_again() -> None:
    update = Update(0, 0, {"n": 2}), Commit(0, 0)
    toy, log = log_of([*FLOATING, *update, Incremental(frozenset({0})), Restart(2)])
    first, again = log[:-2], log[-2:]
    assert again[0].floats
    assert toy.source.rows[(0,)]["n"] == 2
    assert values([first, again]) == {0: 2, 1: 0}
    assert values([first, again], known=highest_read(log)) == {0: 0, 1: 0}


def test_a_row_does_not_win_over_the_change_that_closes_the_window_it_was_read_in() -> None:
    """It is sent right before that change, with its sequence, and does not hold it."""
    read = Incremental(frozenset({0, 1}), read_only=True)
    closing = Update(0, 0, {"n": 1}), Update(0, 1, {"n": 1}), Commit(0, 0)
    toy, log = log_of([*FLOATING, read, *closing])
    assert [change.op for change in log[-4:]] == ["r", "r", "u", "u"]
    assert values([log[:-2], log[-2:]]) == values([log]) == {0: 1, 1: 1}
    assert {key[0]: row["n"] for key, row in toy.source.rows.items()} == {0: 1, 1: 1}
    at_lsn = [
        replace(each, position=(log[-2].position[1], 0, each.offset)) if each.incremental else each
        for each in log
    ]
    assert values([at_lsn]) == {0: 0, 1: 0}, "by its LSN, as rows of complete snapshots stand"


def test_a_later_snapshot_does_not_lift_what_is_replayed() -> None:
    toy, log = log_of([*FLOATING, Delete(0, 0), Commit(0, 0), Snapshot()])
    floating = [change for change in log if change.floats]
    before, after = log[:-1], log[-1:]
    assert toy.source.rows.keys() == {(1,)}
    assert values([before, after, floating]) == {1: 0}
    assert values([before, after, floating], known=highest_read(log)) == {0: 0, 1: 0}


def test_the_first_transaction_sent_again_does_not_go_back() -> None:
    twice = (
        Insert(1, 0, {"n": 0}),
        Commit(1, 0),
        Update(0, 0, {"n": 1}),
        Update(0, 0, {"n": 2}),
        Snapshot(),
        Commit(0, 0),
        Restart(2),
    )
    _, log = log_of(twice)
    first, again = log[:-2], log[-2:-1]
    assert values([first, again]) == {0: 2}
    assert values([first, again], known=highest_read(log)) == {0: 1}
