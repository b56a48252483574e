"""Changes of which a place in the binlog does not tell the order, and those that only seem so."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.position import encode
from cdc_assets.merge.guards.ambiguous_positions import not_in_order
from cdc_assets_tests.merge.toy_events import (
    Binlog,
    Event,
    Sent,
    alone,
    batches,
    is_torn,
    is_wrong,
    merged_after,
    moved,
    sent,
    transaction,
)
from cdc_assets_tests.pipeline import Session

SEEDS = st.integers(0, 2**32)
TORN: dict[str, tuple[list[Event], list[Event]]] = {
    "the create of an updated row": ([], [alone("c", 1, 2, 3), alone("u", 3)]),
    "the create of a deleted row": ([], [alone("c", 1, 2), alone("d", 2)]),
    "the update of a deleted row": ([alone("c", 1, 2, 3)], [alone("u", 1, 2, 3), alone("d", 3)]),
    "the delete of a row made anew": ([alone("c", 1, 2)], [alone("d", 1, 2), alone("c", 2)]),
    "two updates": ([alone("c", 1, 2, 3)], [alone("u", 1, 2, 3), alone("u", 3)]),
    "a delete at the row of the update": ([alone("c", 1)], [alone("u", 1), alone("d", 1)]),
    "a delete at the row of the create": ([], [alone("c", 1), alone("d", 1)]),
    "the update of a row with another key": (
        [alone("c", 1, 2)], [moved((1, 0), (2, 1)), alone("u", 1)],
    ),
}  # fmt: skip
"""Each: what is in the table, and a compressed transaction."""
WHOLE: dict[str, tuple[list[Event], list[Event]]] = {
    "keys that move up": ([alone("c", 1, 2, 3)], [moved((1, 0), (2, 1), (3, 2))]),
    "rows of one statement": ([], [alone("c", 1, 2, 3)]),
}


def binlog(before: list[Event], events: list[Event], *, compressed: bool = True) -> Binlog:
    log = Binlog(compressed)
    for event in before:
        log.write(event)
    log.write(*events)
    return log


def in_order(log: Binlog) -> list[Sent]:
    return [Sent(0, offset, change) for offset, change in enumerate(log.changes)]


def generated(seed: int, *, compressed: bool) -> tuple[Binlog, list[list[Sent]]]:
    rng, there = random.Random(seed), set[int]()
    log, partitions = Binlog(compressed), rng.randint(1, 3)
    for _ in range(rng.randint(1, 5)):
        log.write(*transaction(rng, there))
    return log, batches(rng, sent(rng, log, partitions), partitions)


@pytest.mark.property
@given(SEEDS)
def test_what_is_sent_again_anywhere_never_seems_to_have_no_order(seed: int) -> None:
    _, made = generated(seed, compressed=False)
    merged: dict[int, Sent] = {}
    for batch in made:
        assert not is_torn(batch, merged)
        merged = merged_after(merged, batch)


@pytest.mark.property
@given(SEEDS)
def test_no_older_change_wins_in_a_compressed_transaction_that_came_whole(seed: int) -> None:
    log, made = generated(seed, compressed=True)
    merged: dict[int, Sent] = {}
    for number, batch in enumerate(made):
        if is_wrong(log, batch, [each for before in made[:number] for each in before]):
            assert is_torn(batch, merged)
        merged = merged_after(merged, batch)


# ── on Spark ──────────────────────────────────────────────────────────────────────────────

NUMBERS = ("n0", "n1", "n2", "n3")
WIDTH = 4
"""Each case has its own file of the binlog, and partitions of its own."""


def torn_on_spark(
    spark: Session, cases: list[tuple[list[Sent], dict[int, Sent]]]
) -> dict[int, set[int]]:
    """By case the offsets that are named."""
    rows, merged = [], {case * WIDTH + p: "" for case in range(len(cases)) for p in range(WIDTH)}
    for case, (batch, before) in enumerate(cases):
        for p, offset, change in batch:
            op, key, value, pos, row = change
            at = case * WIDTH + p, offset
            rows.append((*at, op, (key,), (key, value), case, pos, row, offset))
        for p, (_, offset, change) in before.items():
            place = encode((case, *change.place, offset))
            merged[case * WIDTH + p] = place.hex().upper()
    random.Random(0).shuffle(rows)
    schema = (
        "partition int, offset bigint, op string, key struct<id: int>, "
        "row struct<id: int, value: int>, n0 bigint, n1 bigint, n2 bigint, n3 bigint"
    )
    found = not_in_order(spark().createDataFrame(rows, schema), NUMBERS, merged).collect()
    named: dict[int, set[int]] = {}
    for row in found:
        named.setdefault(row["n0"], set()).add(row["last"]["last"])
    return named


@pytest.mark.spark
def test_changes_of_a_compressed_transaction_have_no_order(spark: Session) -> None:
    torn = [in_order(binlog(*each)) for each in TORN.values()]
    whole = [in_order(binlog(*each)) for each in WHOLE.values()]
    single = [in_order(binlog(*each, compressed=False)) for each in TORN.values()]
    cases = [(batch, dict[int, Sent]()) for batch in (*torn, *whole, *single)]
    named = torn_on_spark(spark, cases)
    assert [*map(named.get, range(len(torn)))] == [{len(batch) - 1} for batch in torn]
    assert {*named} == {*range(len(torn))}


@pytest.mark.spark
def test_what_was_merged_before_proves_nothing_by_its_order(spark: Session) -> None:
    """A connector starts again within an event that a batch has cut."""
    log = binlog([], [moved((1, 0), (2, 1), (3, 2))], compressed=False)
    records = [*log.changes[:3], log.changes[3], *log.changes]
    made = [Sent(0, offset, change) for offset, change in enumerate(records)]
    first, second = made[:3], made[3:]
    cases = [(second, merged_after({}, first)), (second, dict[int, Sent]())]
    assert {*torn_on_spark(spark, cases)} == {1}


@pytest.mark.spark
def test_spark_finds_what_the_rule_does(spark: Session) -> None:
    cases: list[tuple[list[Sent], dict[int, Sent]]] = []
    for seed in range(300):
        _, made = generated(seed, compressed=seed % 3 != 0)
        merged: dict[int, Sent] = {}
        for batch in made:
            cases.append((batch, merged))
            merged = merged_after(merged, batch)
    expected = {number for number, case in enumerate(cases) if is_torn(*case)}
    assert {*torn_on_spark(spark, cases)} == expected
    assert len(cases) / 10 < len(expected) < len(cases) / 2, "both are tried"
