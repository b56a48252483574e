"""Rows that were read while they changed, with the log merged over them, are its fold again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets_tests.model.change import (
    BEFORE_ALL,
    Change,
    Held,
    Key,
    LowWatermarks,
    Position,
    by_position,
)
from cdc_assets_tests.model.moves import is_in_doubt
from cdc_assets_tests.model.reference import Merger, fold
from cdc_assets_tests.toy import cuts
from cdc_assets_tests.toy.connector import changes_of
from cdc_assets_tests.toy.cuts import Vector
from cdc_assets_tests.toy.profiles import examples
from cdc_assets_tests.toy.read_beside import Reading, reading

pytestmark = pytest.mark.property

SEEDS = st.integers(0, 2**32)


@dataclass(frozen=True, slots=True)
class Rules:
    """What is not right is tried, and found to be wrong.

    Attributes:
        at_position: rows are put at the highest position of the old table, and nothing at or
            below it is applied; else they stand below everything.
        absent_pass: an update of a row that is not there is passed over where the row was read
            later; else it is refused.
        compares: keys that a change gave away while it left values alone are compared in the end,
            if such a change lies below the place where all that was read was delivered; else
            they are taken for right.
    """

    at_position: bool = True
    absent_pass: bool = True
    compares: bool = True


RIGHT = Rules()


def fault(seen: Reading, rules: Rules = RIGHT) -> str | None:
    """The first batch after which the table is not what it must be; None if all are right."""
    old = changes_of(cuts.between(seen.records, {}, seen.begin))
    low_watermarks = LowWatermarks().raised(old)
    placed = [by_position(each, low_watermarks) for each in old]
    position: Position = max(placed, default=BEFORE_ALL) if rules.at_position else BEFORE_ALL
    rows = {key: Held(row, position) for key, row in seen.read.items()}
    merger = Merger(seen.shape, low_watermarks=low_watermarks, rows=rows)
    doubted: set[Key | None] = set()
    before = seen.begin
    for end in seen.batches:
        sent = changes_of(cuts.between(seen.records, before, end))
        merger = replace(
            merger, low_watermarks=merger.low_watermarks.raised(sent)
        )  # by what is passed over, too
        changes = above(merger, sent, position)
        doubts = set(doubted)
        if rules.compares and (doubted or not has_reached(before, seen.until)):
            doubts |= {each.key for each in changes if is_in_doubt(each)}
        merged = merger.apply(changes)
        refused = [at for at in merged.incomplete if not is_passed(seen, changes, at, doubts)]
        if merged.incomplete and not rules.absent_pass:
            return "a change is refused"
        if refused and end != seen.batches[-1]:
            continue  # the table has stopped: the next try has a longer batch
        if refused:
            return "a change is refused"
        merger, doubted = merged, doubts
        if has_reached(end, seen.until):
            known = changes_of(cuts.between(seen.records, {}, end))
            if differing(merger, known, seen) - doubted:
                return "not the fold of what was read"
            if not doubted and merger.apply(above(merger, known, position)) != merger:
                return "a replay changed something"
        before = end
    alive = {key: image.values for key, image in merger.table().items()}
    wrong = {key for key in {*alive, *seen.rows} if alive.get(key) != seen.rows.get(key)}
    return "all is read, but it is not the source" if wrong - doubted else None


def above(merger: Merger, changes: list[Change], position: Position) -> list[Change]:
    """What is not in the rows that were read for certain."""
    low_watermarks = merger.low_watermarks.raised(changes)
    return [each for each in changes if by_position(each, low_watermarks) > position]


def is_passed(
    seen: Reading, changes: list[Change], at: tuple[int, int], doubted: set[Key | None]
) -> bool:
    """Whether a change without its row is passed over, or of a key that will be compared."""
    partition, offset = at
    (key,) = {each.key for each in changes if each.coordinate == at and each.op != "d"}
    return offset < seen.until.get(partition, 0) or key in doubted


def has_reached(end: Vector, until: Vector) -> bool:
    return all(end.get(partition, 0) >= at for partition, at in until.items())


def differing(merger: Merger, known: list[Change], seen: Reading) -> set[Key | None]:
    here, there = merger.table(), fold(known, seen.shape)
    return {key for key in {*here, *there} if here.get(key) != there.get(key)}


@given(SEEDS)
@examples(400)
def test_from_where_all_was_delivered_each_publish_is_the_fold_of_the_log(seed: int) -> None:
    assert fault(reading(seed)) is None, seed


@given(SEEDS)
@examples(400)
def test_of_keys_that_changed_and_left_values_alone_only_those_in_doubt_differ(seed: int) -> None:
    assert fault(reading(seed, moves=True)) is None, seed


@pytest.mark.parametrize(
    "rules",
    [Rules(at_position=False), Rules(absent_pass=False), Rules(compares=False)],
    ids=["rows_below_all", "every_row_is_needed", "nothing_compared"],
)
def test_each_rule_is_needed(rules: Rules) -> None:
    moves = not rules.compares
    assert any(fault(reading(seed, moves=moves), rules) for seed in range(1_000))
