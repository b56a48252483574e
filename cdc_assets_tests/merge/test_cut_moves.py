"""Keys that change, with every cut between the records that say so: nothing is made up."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.errors import RejectedRecordError
from cdc_assets_tests.merge.events import PLACEHOLDER, event, tombstone, transaction_end
from cdc_assets_tests.merge.one_table import TABLE, Make, names, start
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

LARGE = "x" * 9000
NOT_TO_BE_HAD = "without its unchanged columns"


def row(id_: int, name: str | None, n: int = 0) -> dict[str, Any]:
    return {"id": id_, "name": name, "n": n}


def moved(old: int, new: int, lsn: int, partitions: tuple[int, int] = (0, 0)) -> list[Message]:
    """A changed key that left its large value alone."""
    gone, made = partitions
    return [
        event("d", row(old, None), lsn, commit=lsn - 1, partition=gone),
        tombstone(old, gone),
        event("c", row(new, PLACEHOLDER, lsn), lsn, commit=lsn - 1, partition=made),
    ]


LIFE = [
    event("c", row(1, LARGE), 10, commit=9),
    event("c", row(5, "five"), 11, commit=9),
    *moved(1, 2, 20),
    event("u", row(2, PLACEHOLDER, 30), 30, commit=29),
    *moved(2, 3, 40),
]
CREATES = (4, 8)
"""Offsets in `LIFE` of creates that need what the record two before them has deleted."""


@profiles.in_soak
@pytest.mark.parametrize("cut", range(1, len(LIFE)))
def test_a_batch_that_ends_anywhere_refuses_what_it_cannot_know(pipeline: Make, cut: int) -> None:
    made = start(pipeline, *LIFE[:cut])
    assert PLACEHOLDER not in names(made).values()
    made.produce(TABLE, LIFE[cut:])
    if any(create - 2 < cut <= create for create in CREATES):
        before = names(made)
        with pytest.raises(RejectedRecordError, match=rf"{NOT_TO_BE_HAD}.*offset={CREATES[-1]}\b"):
            made.merge(TABLE)
        assert names(made) == before
    else:
        made.merge(TABLE)
        assert made.by_key(TABLE) == {3: row(3, LARGE, 40), 5: row(5, "five")}


def test_a_create_that_comes_before_its_delete_waits_for_a_person(pipeline: Make) -> None:
    """In two partitions; the text could be data, and then refusing it is what it costs."""
    made = start(pipeline, event("c", row(1, LARGE), 10, commit=9), partitions=2)
    gone, stone, create = moved(1, 2, 20, (0, 1))
    made.produce(TABLE, [create])
    with pytest.raises(RejectedRecordError, match=rf"{NOT_TO_BE_HAD}.*partition=1 offset=0"):
        made.merge(TABLE)
    made.produce(TABLE, [gone, stone])
    made.merge(TABLE)
    assert names(made) == {2: LARGE}, "once both are there"


@profiles.in_soak
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_topic_of_transactions_that_records_do_not_name_proves_nothing(
    pipeline: Make, partitions: int
) -> None:
    made = pipeline()
    made.create_topic(TABLE, partitions)
    made.create_topic("transaction")
    gone, stone, create = moved(1, 2, 20, (0, partitions - 1))
    made.produce(TABLE, [event("c", row(1, LARGE), 10, commit=9), gone, stone])
    made.merge(TABLE)
    made.produce(TABLE, [create])
    with pytest.raises(RejectedRecordError, match=NOT_TO_BE_HAD):
        made.merge(TABLE)


@profiles.in_soak
def test_text_like_the_placeholder_is_data_in_a_transaction_that_is_whole(pipeline: Make) -> None:
    made = pipeline()
    made.create_topic(TABLE, 2)
    made.create_topic("transaction")
    sent = [
        event("c", row(1, "one"), 110, commit=100, order=1),
        event("c", row(2, PLACEHOLDER), 210, commit=200, order=1, partition=1),
    ]
    made.produce(TABLE, sent)
    made.produce("transaction", [transaction_end(100, 110, 1), transaction_end(200, 210, 1)])
    made.merge(TABLE)
    assert names(made) == {1: "one", 2: PLACEHOLDER}
    made.produce(TABLE, [event("c", row(3, PLACEHOLDER), 310, commit=300, partition=1)])
    with pytest.raises(RejectedRecordError, match=NOT_TO_BE_HAD):
        made.merge(TABLE)


@profiles.in_soak
def test_a_create_that_is_sent_or_merged_again_without_its_delete_keeps_the_value(
    pipeline: Make,
) -> None:
    made = start(pipeline, *LIFE[:5])
    made.produce(TABLE, [LIFE[4]])
    made.merge(TABLE)
    assert names(made) == {2: LARGE, 5: "five"}
    assert len(made.replay_offsets(TABLE, OffsetRange(0, 4, 5))) == 1
    assert names(made) == {2: LARGE, 5: "five"}
    made.produce(TABLE, [event("u", row(2, "later", 50), 50, commit=49), LIFE[4]])
    made.merge(TABLE)
    made.produce(TABLE, [LIFE[4]])
    made.merge(TABLE)
    assert names(made) == {2: "later", 5: "five"}


# ── one event that changes the key ────────────────────────────────────────────────────────


def changed(old: dict[str, Any], new: dict[str, Any], lsn: int, *, keyed_by: int) -> Message:
    """An update whose record carries the key of one of its two images."""
    message = event("u", new, lsn, commit=lsn - 1, before=old)
    return replace(message, key=json.dumps({"id": keyed_by}).encode())


@pytest.mark.parametrize("side", [pytest.param("old", marks=profiles.in_soak), "new"])
@pytest.mark.parametrize(
    "singly",
    [False, pytest.param(True, marks=profiles.in_soak)],
    ids=["in one batch", "in many"],
)
def test_one_event_that_changes_the_key_moves_the_row(
    pipeline: Make, side: str, singly: bool
) -> None:
    def move(old: int, new: int, lsn: int) -> Message:
        keyed_by = old if side == "old" else new
        return changed(row(old, "a", lsn - 10), row(new, "a", lsn), lsn, keyed_by=keyed_by)

    chain = [
        move(1, 2, 20),
        event("c", row(1, "new", 30), 30, commit=29),
        move(2, 3, 40),
        changed(row(3, "a", 40), row(3, "b", 50), 50, keyed_by=3),
        event("u", row(1, "newer", 60), 60, commit=59),
    ]
    made = start(pipeline, event("c", row(1, "a", 10), 10, commit=9))
    for messages in [[each] for each in chain] if singly else [chain]:
        made.produce(TABLE, messages)
        made.merge(TABLE)
    expected = {1: row(1, "newer", 60), 3: row(3, "b", 50)}
    assert made.by_key(TABLE) == expected
    late = event("u", row(2, "late", 35), 35, commit=34)
    made.produce(TABLE, [*chain, late, event("u", row(5, "five", 70), 70, commit=69)])
    made.merge(TABLE)
    assert made.by_key(TABLE) == {**expected, 5: row(5, "five", 70)}, "sent again, and late"


@profiles.in_soak
def test_one_event_takes_a_large_value_from_its_own_image(pipeline: Make) -> None:
    made = start(pipeline, event("c", row(1, LARGE), 10, commit=9))
    made.produce(TABLE, [changed(row(1, LARGE), row(2, PLACEHOLDER, 20), 20, keyed_by=2)])
    made.merge(TABLE)
    assert made.by_key(TABLE) == {2: row(2, LARGE, 20)}


@profiles.in_soak
def test_one_event_without_the_value_takes_it_from_the_old_row(pipeline: Make) -> None:
    """``before`` has the key alone, as without ``REPLICA IDENTITY FULL``."""

    def move(made: Pipeline, old: int, new: int, lsn: int) -> None:
        event_ = changed(row(old, None), row(new, PLACEHOLDER, lsn), lsn, keyed_by=new)
        value = json.loads(event_.value or b"")
        value["before"] = {"id": old, "name": PLACEHOLDER, "n": None}
        made.produce(TABLE, [replace(event_, value=json.dumps(value).encode())])

    made = start(pipeline, event("c", row(1, LARGE), 10, commit=9))
    move(made, 1, 2, 20)
    made.merge(TABLE)
    assert names(made) == {2: LARGE}
    made.produce(TABLE, [event("c", row(1, "other"), 25, commit=24)])
    for old, new, lsn in ((2, 3, 30), (1, 2, 40), (2, 4, 50)):  # two rows leave one key
        move(made, old, new, lsn)
    made.merge(TABLE)
    assert names(made) == {3: LARGE, 4: "other"}
    move(made, 6, 7, 60)
    with pytest.raises(RejectedRecordError, match=NOT_TO_BE_HAD):
        made.merge(TABLE)
    assert names(made) == {3: LARGE, 4: "other"}
