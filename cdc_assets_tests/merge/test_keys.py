"""Keys that change, keys of the configuration, and rows without a key."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from cdc_assets.errors import RejectedRecordError, TerminalError
from cdc_assets_tests.merge.events import PLACEHOLDER, event, tombstone, truncate
from cdc_assets_tests.merge.one_table import TABLE, Make, names, start
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

BY_CODE = {TABLE: {"primary_key": ["code"]}}
BY_BOTH = {TABLE: {"primary_key": ["code", "id"]}}


def moved(old: int, new: int, name: str, lsn: int) -> list[Message]:
    """A changed key, as Debezium sends it."""
    gone = event("d", {"id": old, "name": None}, lsn, commit=lsn - 1)
    return [gone, tombstone(old), event("c", {"id": new, "name": name}, lsn, commit=lsn - 1)]


@pytest.mark.parametrize(
    "singly",
    [False, pytest.param(True, marks=profiles.in_soak)],
    ids=["in one batch", "in many"],
)
def test_chains_and_swaps_of_keys(pipeline: Make, singly: bool) -> None:
    events = [
        event("c", {"id": 0, "name": "chain"}, 10, commit=9),
        event("c", {"id": 7, "name": "seven"}, 11, commit=9),
        event("c", {"id": 8, "name": "eight"}, 12, commit=9),
        *moved(0, 1, "chain", 20),
        *moved(1, 2, "chain", 30),
        *moved(7, -1, "seven", 40),
        *moved(8, 7, "eight", 41),
        *moved(-1, 8, "seven", 42),
    ]
    expected = {2: "chain", 7: "eight", 8: "seven"}
    made = start(pipeline, *(events[:4] if singly else events))
    for cut in range(4, len(events) if singly else 0, 3):
        made.produce(TABLE, events[cut : cut + 3])
        made.merge(TABLE)
    assert names(made) == expected


@profiles.in_soak
def test_a_changed_key_takes_large_values_along_that_the_update_left_alone(pipeline: Make) -> None:
    def row(id_: int, name: str, n: int) -> dict[str, Any]:
        return {"id": id_, "name": name, "n": n}

    made = start(
        pipeline,
        event("c", row(1, "large", 1), 10, commit=9),
        event("c", row(5, "five", 1), 11, commit=9),
        event("c", row(9, PLACEHOLDER, 1), 12, commit=9),
    )
    chain = [*moved(1, 2, PLACEHOLDER, 20), *moved(2, 3, PLACEHOLDER, 21)]
    renamed = event("u", row(5, "new", 1), 22, commit=19)
    made.produce(TABLE, [*chain, renamed, *moved(5, 6, PLACEHOLDER, 23)])
    made.merge(TABLE)
    assert names(made) == {3: "large", 6: "new", 9: PLACEHOLDER}
    made.produce(TABLE, [*chain, event("c", {"id": 7, "name": PLACEHOLDER}, 30, commit=29)])
    made.merge(TABLE)
    assert names(made) == {3: "large", 6: "new", 7: PLACEHOLDER, 9: PLACEHOLDER}

    made.produce(TABLE, moved(4, 8, PLACEHOLDER, 40))
    with pytest.raises(RejectedRecordError, match="without its unchanged columns"):
        made.merge(TABLE)


@pytest.mark.timeout(240)
def test_a_key_that_changes_again_and_again_keeps_its_large_value(pipeline: Make) -> None:
    """Each change is a round over all moves: once the fourth took minutes, and the sixth hours."""
    made = start(pipeline, event("c", {"id": 1, "name": "large"}, 10, commit=9))
    chain = (moved(key, key + 1, PLACEHOLDER, 20 + key) for key in range(1, 7))
    made.produce(TABLE, [message for move in chain for message in move])
    made.merge(TABLE)
    assert names(made) == {7: "large"}


@profiles.in_soak
def test_a_key_that_is_given_away_twice_in_one_batch(pipeline: Make) -> None:
    """Each time another row leaves it, with a large value that the update left alone."""
    made = start(
        pipeline,
        event("c", {"id": 1, "name": "first"}, 10, commit=9),
        event("c", {"id": 5, "name": "second"}, 11, commit=9),
    )
    made.produce(TABLE, [*moved(1, 2, PLACEHOLDER, 20), *moved(5, 1, PLACEHOLDER, 30),
                         *moved(1, 3, PLACEHOLDER, 40)])  # fmt: skip
    made.merge(TABLE)
    assert names(made) == {2: "first", 3: "second"}


def test_a_configured_key_that_an_update_changes_moves_the_row(pipeline: Make) -> None:
    def row(id_: int, code: str | None, n: int) -> dict[str, Any]:
        return {"id": id_, "code": code, "n": n}

    def update(before: dict[str, Any], after: dict[str, Any], lsn: int) -> Message:
        return event("u", after, lsn, commit=lsn - 1, before=before)

    made = start(
        pipeline,
        event("c", row(1, "x", 1), 10, commit=9),
        event("c", row(2, "y", 1), 11, commit=9),
        tables=BY_CODE,
    )
    chain = [
        update(row(1, "x", 1), row(1, "z", 2), 20),
        update(row(1, "z", 2), row(1, "w", 3), 30),
        update(row(2, "y", 1), row(2, "x", 2), 40),
        update(row(2, "x", 2), row(2, "x", 3), 50),
    ]
    made.produce(TABLE, chain)
    made.merge(TABLE)
    assert made.by_key(TABLE, ["code"]) == {"w": row(1, "w", 3), "x": row(2, "x", 3)}

    made.produce(TABLE, [event("u", row(2, "v", 4), 60, commit=59)])
    with pytest.raises(RejectedRecordError, match=r"without the key before it.*offset=6"):
        made.merge(TABLE)


def test_an_unchanged_large_value_in_a_configured_key_is_taken_from_before(pipeline: Make) -> None:
    made = start(
        pipeline, event("c", {"id": 1, "code": "x" * 9000, "n": 1}, 10, commit=9), tables=BY_CODE
    )
    before = {"id": 1, "code": "x" * 9000, "n": 1}
    after = {"id": 1, "code": PLACEHOLDER, "n": 2}
    made.produce(TABLE, [event("u", after, 20, commit=19, before=before)])
    made.merge(TABLE)
    assert made.rows(TABLE) == [{"id": 1, "code": "x" * 9000, "n": 2}]


@pytest.mark.parametrize(
    "key",
    [BY_CODE, pytest.param(BY_BOTH, marks=profiles.in_soak)],
    ids=["single", "composite"],
)
def test_null_in_a_configured_key_is_rejected(pipeline: Make, key: dict[str, Any]) -> None:
    made = start(pipeline, event("c", {"id": 1, "code": "a"}, 10, commit=9), tables=key)
    made.produce(TABLE, [event("c", {"id": 2, "code": None}, 20, commit=19)])
    with pytest.raises(RejectedRecordError, match=r"a key column has no value.*offset=1"):
        made.merge(TABLE)


def test_a_renamed_key_column_stops_the_table_before_anything_is_written(pipeline: Make) -> None:
    def with_schema(column: str, lsn: int) -> Message:
        fields = [{"field": name, "type": "int64", "optional": False} for name in (column, "n")]
        row = {"type": "struct", "fields": fields, "optional": True, "field": "after"}
        plain = event("c", {column: 1, "n": lsn}, lsn, commit=lsn - 1, key=(column,))
        envelope = {"type": "struct", "fields": [row], "name": "t.Envelope"}
        text = b'{"schema":%s,"payload":%s}' % (json.dumps(envelope).encode(), plain.value or b"")
        key = {"type": "struct", "fields": fields[:1], "optional": False}
        named = b'{"schema":%s,"payload":%s}' % (json.dumps(key).encode(), plain.key or b"")
        return Message(named, text)

    made = start(pipeline, with_schema("id", 10))
    made.produce(TABLE, [with_schema("ident", 20)])
    with pytest.raises(TerminalError, match="no key column id any more"):
        made.merge(TABLE)
    assert made.rows(TABLE) == [{"id": 1, "n": 10}]


# ── without a key ─────────────────────────────────────────────────────────────────────────


class Rows:
    """Events of a table without a key, numbered as one transaction each."""

    def __init__(self) -> None:
        self.lsn = 100

    def __call__(
        self, op: str, row: tuple[object, object], before: tuple[object, object] | None = None,
        partition: int = 0,
    ) -> Message:  # fmt: skip
        self.lsn += 10
        old = before and {"a": before[0], "b": before[1]}
        image = {"a": row[0], "b": row[1]}
        lsn, last = self.lsn, self.lsn - 5
        return event(op, image, lsn, commit=last, before=old, order=1, key=(), partition=partition)


def bag(pipeline: Pipeline) -> Counter[tuple[object, object]]:
    return Counter((row["a"], row["b"]) for row in pipeline.rows(TABLE))


@profiles.in_soak
def test_of_two_equal_rows_one_is_updated_and_one_is_deleted(pipeline: Make) -> None:
    rows = Rows()
    made = start(pipeline, *[rows("c", (1, "x"))] * 1, rows("c", (1, "x")), rows("c", (1, None)))
    assert bag(made) == {(1, "x"): 2, (1, None): 1}
    made.produce(TABLE, [rows("u", (2, "x"), before=(1, "x"))])
    made.merge(TABLE)
    assert bag(made) == {(1, "x"): 1, (2, "x"): 1, (1, None): 1}
    made.produce(TABLE, [rows("d", (1, "x")), rows("c", (1, None))])
    made.merge(TABLE)
    assert bag(made) == {(2, "x"): 1, (1, None): 2}


def test_an_event_counts_once_however_often_and_wherever_it_is_sent(pipeline: Make) -> None:
    rows = Rows()
    first = [rows("c", (1, "x")), rows("c", (1, "x")), rows("u", (2, "y"), before=(1, "x"))]
    made = start(pipeline, *first, *first[1:], partitions=3)
    assert bag(made) == {(1, "x"): 1, (2, "y"): 1}
    elsewhere = [Message(None, each.value, 2) for each in first[1:]]
    made.produce(TABLE, [*elsewhere, rows("d", (2, "y"))])
    made.merge(TABLE)
    assert bag(made) == {(1, "x"): 1}


def test_a_snapshot_taken_again_replaces_rows_and_a_truncate_removes_them(pipeline: Make) -> None:
    def read(row: tuple[object, object], lsn: int) -> Message:
        return event("r", {"a": row[0], "b": row[1]}, lsn, key=())

    rows = Rows()
    made = start(pipeline, read((1, "x"), 100), read((1, "x"), 100), rows("c", (3, "z")))
    assert bag(made) == {(1, "x"): 2, (3, "z"): 1}
    made.produce(TABLE, [read((1, "x"), 200), read((4, "w"), 200)])
    made.merge(TABLE)
    assert bag(made) == {(1, "x"): 1, (4, "w"): 1}
    made.produce(TABLE, [truncate(300, commit=299), event("c", {"a": 5, "b": "v"}, 310,
                 commit=305, order=1, key=())])  # fmt: skip
    made.merge(TABLE)
    assert bag(made) == {(5, "v"): 1}


@profiles.in_soak
def test_a_longer_batch_is_read_if_a_row_that_goes_was_made_beyond_its_end(pipeline: Make) -> None:
    rows = Rows()
    made = pipeline(batch={"max_records": 2})
    made.create_topic(TABLE, 2)
    created = [rows("c", (n, "x")) for n in range(6)]
    gone = [rows("d", (n, "x"), partition=1) for n in range(6)]
    made.produce(TABLE, [*created, *gone])
    made.merge(TABLE)
    assert bag(made) == Counter()
    made.produce(TABLE, [rows("d", (9, "never made"))])
    with pytest.raises(RejectedRecordError, match=r"not in the lake.*partition=0 offset=6"):
        made.merge(TABLE)


def test_rows_without_a_key_are_not_replayed_and_the_error_says_what_to_do(pipeline: Make) -> None:
    made = start(pipeline, Rows()("c", (1, "x")))
    with pytest.raises(TerminalError, match=r"without a key is not replayed.*cdc-assets rebuild"):
        made.replay(TABLE)


def test_rows_without_a_key_and_without_positions_are_refused(pipeline: Make) -> None:
    made = pipeline()
    made.create_topic(TABLE)
    plain = (Rows()("c", (1, "x")).value or b"").replace(b'"postgresql"', b'"unknown"')
    made.produce(TABLE, [Message(None, plain)])
    with pytest.raises(TerminalError, match="no position that shows repeats"):
        made.merge(TABLE)


def test_an_update_without_the_row_before_it_is_rejected(pipeline: Make) -> None:
    rows = Rows()
    made = start(pipeline, rows("c", (1, "x")))
    made.produce(TABLE, [rows("u", (2, "x"))])
    with pytest.raises(RejectedRecordError, match="REPLICA IDENTITY FULL"):
        made.merge(TABLE)
