"""Changed keys that leave large values alone: the value is that of the old key's row."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdc_assets_tests.model.change import Change
from cdc_assets_tests.model.reference import Merger, Rules, fold
from cdc_assets_tests.toy.actions import (
    Action,
    ChangeKey,
    Commit,
    Insert,
    Restart,
    Snapshot,
    Toy,
    Update,
)
from cdc_assets_tests.toy.busy import busy_log
from cdc_assets_tests.toy.connector import PLACEHOLDER, Settings, changes_of
from cdc_assets_tests.toy.profiles import examples
from cdc_assets_tests.toy.reading import RIGHT, fault
from cdc_assets_tests.toy.source import LARGE, SINGLE

A, B = f"{LARGE}A", f"{LARGE}B"
START: tuple[Action, ...] = (
    Snapshot(),
    Insert(0, 0, {"n": 0, "note": A, "memo": "s"}),
    Insert(0, 1, {"n": 1, "note": B, "memo": None}),
    Commit(0, 0),
)
MOVED = (ChangeKey(0, 0, 2, {"n": 5}), Commit(0, 0))
CHAIN = (ChangeKey(0, 0, 2, {"n": 5}), ChangeKey(0, 2, 3, {"n": 6}), Commit(0, 0))
SWAP = (
    ChangeKey(0, 0, 3, {}),
    ChangeKey(0, 1, 0, {}),
    ChangeKey(0, 3, 1, {}),
    Update(0, 1, {"n": 7}),
    Commit(0, 0),
)


def log_of(*actions: Action, partitions: int = 1, **settings: object) -> tuple[Toy, list[Change]]:
    chosen = {"tombstones": False, "partial_moves": True, "partitions": partitions, **settings}
    toy = Toy(SINGLE, Settings(**chosen))
    for action in actions:
        toy.do(action)
    return toy, changes_of(toy.log.records)


def merged(*batches: Sequence[Change], rules: Rules = RIGHT, soft: bool = False) -> Merger:
    merger = Merger(SINGLE.shape, soft, rules)
    for batch in batches:
        merger = merger.apply(batch)
    return merger


def notes(merger: Merger) -> dict[object, object]:
    return {key[0]: held.values["note"] for key, held in merger.rows.items() if not held.deleted}


@pytest.mark.unit
@pytest.mark.parametrize("actions", [MOVED, CHAIN, SWAP], ids=["moved", "chain", "swap"])
@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
@pytest.mark.parametrize("split", [True, False], ids=["two events", "one event"])
@pytest.mark.parametrize("at_once", [True, False], ids=["one batch", "two batches"])
def test_a_changed_key_takes_its_large_values_along(
    actions: tuple[Action, ...], soft: bool, split: bool, at_once: bool
) -> None:
    toy, log = log_of(*START, *actions, split_keys=split)
    assert any(change.op == "c" and change.unset for change in log)
    after = merged(log, soft=soft) if at_once else merged(log[:2], log[2:], soft=soft)
    assert after.table() == fold(log, SINGLE.shape, soft=soft)
    assert notes(after) == {key[0]: row["note"] for key, row in toy.source.rows.items()}
    assert after.incomplete == ()


@pytest.mark.unit
@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
def test_a_create_that_is_cut_from_its_delete_is_refused(soft: bool) -> None:
    _, log = log_of(*START, *MOVED)
    after = merged(log[:-1], log[-1:], soft=soft)
    assert after.incomplete == (log[-1].coordinate,)
    assert notes(after) == {1: B}


@pytest.mark.unit
def test_without_a_look_back_the_placeholder_would_be_stored() -> None:
    _, log = log_of(*START, *MOVED)
    after = merged(log[:-1], log[-1:], rules=Rules(whole_moves=False))
    assert notes(after)[2] == PLACEHOLDER


@pytest.mark.unit
def test_half_a_changed_key_that_is_sent_again_is_what_the_lake_has() -> None:
    toy, log = log_of(*START, *MOVED, Restart(1))
    assert log[-1].op == "c"
    after = merged(log[:-1], log[-1:])
    assert notes(after) == {1: B, 2: A}
    assert after.incomplete == ()
    assert after.table() == fold(log, SINGLE.shape)
    assert toy.source.rows[(2,)]["note"] == A


@pytest.mark.unit
def test_the_placeholder_in_an_ordinary_insert_is_data() -> None:
    own = Insert(0, 3, {"n": 0, "note": PLACEHOLDER, "memo": "s"}), Commit(0, 0)
    _, log = log_of(*START, *own, *MOVED)
    after = merged(log)
    assert notes(after) == {1: B, 2: A, 3: PLACEHOLDER}
    assert after.table() == fold(log, SINGLE.shape)


@pytest.mark.unit
def test_a_cut_never_falls_between_the_two_halves() -> None:
    for seed in range(40):
        log = busy_log(seed, moves=True)
        for step in log.steps:
            ends = getattr(step, "to", {})
            for pair in log.rules.pairs:
                assert len({offset < ends.get(p, 0) for p, offset in pair} if ends else {0}) == 1


@pytest.mark.property
@given(st.integers(0, 2**48))
@example(545862)  # half of one is sent again into a partition without a low watermark
@example(5754)  # likewise
@examples(100)
def test_no_log_with_changed_keys_comes_out_wrong(seed: int) -> None:
    log = busy_log(seed, moves=True)
    for soft in (False, True):
        assert fault(log, soft=soft) is None, f"busy_log({seed}, moves=True), {soft=}"


@pytest.mark.property
@pytest.mark.parametrize("seed", range(3))
def test_a_table_of_hundreds_of_columns_comes_out_right(seed: int) -> None:
    log = busy_log(seed, moves=True, columns=400)
    assert max(len(change.unset) for change in changes_of(log.records)) > 100
    assert fault(log) is None, f"busy_log({seed}, moves=True, columns=400)"
