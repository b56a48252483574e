"""The model's tables refuse what Iceberg refuses, and its effects fail as real ones do."""

from __future__ import annotations

import itertools

import pytest

from cdc_assets_tests.model.protocol.effects import (
    EffectError,
    InterruptedAttemptError,
    Life,
    RefusedError,
    effect,
)
from cdc_assets_tests.model.protocol.published import Published
from cdc_assets_tests.model.protocol.tables import Table
from cdc_assets_tests.model.protocol.topic import Record, Topic

pytestmark = pytest.mark.unit


def table(*rows: str) -> Table[tuple[str, ...]]:
    made: Table[tuple[str, ...]] = Table(itertools.count(1), ())
    for row in rows:
        made.append_to_main("append", lambda there, row=row: (*there, row))
    return made


def add(made: Table[tuple[str, ...]], branch: str, row: str, attempt: int = 0) -> None:
    published = Published(attempt=attempt) if attempt else None
    made.write(branch, "append", lambda there: (*there, row), published)


def test_main_moves_to_a_branch_that_descends_from_it() -> None:
    made = table("a")
    made.create_branch("mine", made.main)
    add(made, "mine", "b", attempt=7)
    assert made.content(made.main) == ("a",)
    made.fast_forward("mine")
    assert made.content(made.main) == ("a", "b")
    assert made.has_attempt(7)


def test_main_does_not_move_to_a_branch_of_an_older_head() -> None:
    made = table("a")
    made.create_branch("mine", made.main)
    add(made, "mine", "b")
    made.append_to_main("append", lambda there: (*there, "c"))
    with pytest.raises(RefusedError):
        made.fast_forward("mine")


def test_a_write_to_a_dropped_branch_makes_it_again_on_main() -> None:
    made = table("a")
    made.create_branch("mine", made.main)
    add(made, "mine", "b")
    made.append_to_main("append", lambda there: (*there, "c"))
    made.drop("another")
    add(made, "mine", "d")
    assert made.content(made.branches["mine"]) == ("a", "c", "d")


def test_a_compaction_has_the_rows_of_its_parent() -> None:
    made = table("a")
    before = made.main
    made.compact()
    made.compact()
    assert made.is_compaction_of(made.main, before)
    made.append_to_main("append", lambda there: (*there, "b"))
    assert not made.is_compaction_of(made.main, before)


def topic(**rules: object) -> Topic:
    records = tuple(Record(at % 2, at // 2, ()) for at in range(10))
    return Topic(records, partitions=2, **rules)


def test_each_partition_moves_on_by_its_share() -> None:
    some = topic()
    assert some.cut({}, some.marks(10), [0.5], whole=True) == {0: 2, 1: 2}
    assert some.cut({0: 4, 1: 2}, some.marks(10), [0.1], whole=True) == {0: 5, 1: 3}


def test_a_batch_takes_both_halves_of_a_changed_key_as_far_as_they_are_there() -> None:
    some = topic(pairs=(((0, 1), (1, 4)),))
    assert some.cut({}, some.marks(10), [0.5], whole=True) == {0: 2, 1: 5}
    assert some.cut({}, some.marks(10), [0.5], whole=False) == {0: 2, 1: 2}
    assert some.cut({}, some.marks(8), [0.5], whole=True) == {0: 2, 1: 4}
    assert some.splits(some.marks(8).ends)


def test_a_batch_reads_up_to_the_barriers_that_it_crosses() -> None:
    some = topic(barriers=({0: 1, 1: 4},))
    assert some.cut({}, some.marks(10), [0.5], whole=True) == {0: 2, 1: 4}
    assert some.cut({}, some.marks(10), [0.2], whole=True) == {0: 1, 1: 1}


def test_an_added_partition_shows_in_the_bounds() -> None:
    some = topic(raised=(6,))
    assert some.marks(5).ends == {0: 3, 1: 2}
    assert some.marks(6).ends == {0: 3, 1: 3, 2: 0}
    assert some.marks(6).was_raised


@pytest.mark.parametrize("error", [EffectError, InterruptedAttemptError])
@pytest.mark.parametrize("happens", [True, False])
def test_a_process_sees_the_error_whether_the_effect_happened_or_not(
    error: type[Exception], happens: bool
) -> None:
    done: list[str] = []

    def process() -> Life[None]:
        yield from effect("write", lambda: done.append("written"))

    life = process()
    due = next(life)
    if happens:
        due.happen()
    with pytest.raises(error):
        life.throw(error("write"))
    assert done == ["written"] * happens
