"""Tables that hold each change as a row: once, whatever is delivered, failed or replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.effects import hooked
from cdc_assets.errors import CdcError, TerminalError
from cdc_assets_tests.faults import Anywhere, Death, How
from cdc_assets_tests.merge.events import PLACEHOLDER, event, tombstone, truncate
from cdc_assets_tests.merge.one_table import TABLE, Make, names, start
from cdc_assets_tests.merge.test_rebuild import rebuilt
from cdc_assets_tests.model.change import Change
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import cuts, profiles
from cdc_assets_tests.toy.actions import Log
from cdc_assets_tests.toy.busy import busy_log
from cdc_assets_tests.toy.connector import changes_of
from cdc_assets_tests.toy.cuts import Merge
from cdc_assets_tests.toy.debezium import messages

pytestmark = pytest.mark.stack

KEYED = (1, 2, 3, 4, 7, 10, 13, 16, 18, 21) if profiles.is_soak() else (10,)
"""Seeds of logs that repeat changes, and `KEYLESS`."""
KEYLESS = (1, 2, 3, 4, 5, 6, 9, 11) if profiles.is_soak() else (1,)
PLACES = 40 if profiles.is_soak() else 3
WHOLE: dict[str, object] = {"name": "text", "big": "text"}
Row = dict[str, Any]
Told = tuple[object, ...]


def changelog(columns: Mapping[str, object] = WHOLE, **table: object) -> dict[str, object]:
    return {"tables": {TABLE: {"mode": "changelog", "columns": columns, **table}}}


def rows(pipeline: Pipeline) -> list[Row]:
    """In order of position."""
    found = pipeline.spark().table(f"lake.{pipeline.entry(TABLE).target}").collect()
    return sorted((row.asDict() for row in found), key=lambda row: bytes(row["_cdc_position"]))


def head_of(pipeline: Pipeline) -> int | None:
    state = pipeline.lake.state(pipeline.entry(TABLE).target)
    return state.snapshot_id if state else None


def told(row: Row) -> Told:
    """What a row says of its change."""
    unset = tuple(sorted(row["_cdc_unset"] or ()))
    return (row["_cdc_op"], row["id"], row["name"], row["big"], unset)


def row_of(id_: int, name: str | None, big: str | None = "large") -> Row:
    return {"id": id_, "name": name, "big": big}


def at(op: str, row: Row | None, lsn: int, partition: int = 0) -> Message:
    return event(op, row, lsn, commit=lsn - 1, partition=partition)


STORY: Sequence[Message] = (
    event("r", row_of(1, "read"), 100),
    at("c", row_of(2, "made"), 200),
    at("u", row_of(2, "changed", PLACEHOLDER), 300),
    at("d", row_of(1, None, None), 400),
    tombstone(1),
    at("d", row_of(2, None, None), 500),
    tombstone(2),
    at("c", row_of(3, "changed", PLACEHOLDER), 500),
    at("c", row_of(4, "data", PLACEHOLDER), 600),
    truncate(700, commit=699),
    at("c", row_of(2, "again"), 800),
)
"""Row 2 gets the key 3 at LSN 500, and leaves its large value alone; that of 4 is a text."""
SAID: Sequence[Told] = (
    ("r", 1, "read", "large", ()),
    ("c", 2, "made", "large", ()),
    ("u", 2, "changed", None, ("big",)),
    ("d", 1, None, None, ()),
    ("d", 2, None, None, ()),
    ("c", 3, "changed", None, ("big",)),
    ("c", 4, "data", PLACEHOLDER, ()),
    ("t", None, None, None, ()),
    ("c", 2, "again", "large", ()),
)


def test_each_change_is_a_row_and_stays_one(pipeline: Make) -> None:
    made = start(pipeline, *STORY, **changelog())
    first = rows(made)
    assert [told(row) for row in first] == list(SAID)
    offsets = (0, 1, 2, 3, 5, 7, 8, 9, 10)
    topic = made.topic(TABLE)
    assert [(r["_cdc_topic"], r["_cdc_partition"], r["_cdc_offset"]) for r in first] == [
        (topic, 0, offset) for offset in offsets
    ]
    assert [row["_cdc_ts"] is None for row in first] == [True, *[False] * 8]

    head = head_of(made)
    made.replay(TABLE)
    assert head_of(made) == head, "a replay that adds nothing publishes nothing"
    made.produce(TABLE, STORY[1:])  # the connector has died, and sends all of it again
    [batch] = made.merge(TABLE)
    assert batch.stale == len(SAID) - 1
    made.produce(TABLE, [at("u", row_of(2, "last"), 900), at("u", row_of(2, "last"), 900)])
    made.merge(TABLE)
    assert rows(made)[:-1] == first
    assert told(rows(made)[-1]) == ("u", 2, "last", "large", ())
    made.replay(TABLE)
    assert len(rows(made)) == len(first) + 1


def test_a_change_of_a_transaction_that_is_sent_first_by_a_new_connector_is_no_other_one(
    pipeline: Make,
) -> None:
    """It tells no last commit any more, so its position is another one."""
    made = start(pipeline, event("r", row_of(1, "read"), 100), **changelog())
    made.produce(TABLE, [at("u", row_of(1, "once"), 300)])
    made.merge(TABLE)
    made.produce(TABLE, [event("u", row_of(1, "once"), 300), at("u", row_of(1, "then"), 400)])
    made.merge(TABLE)
    assert [row["name"] for row in rows(made)] == ["read", "once", "then"]


@profiles.in_soak
def test_a_record_without_a_value_that_follows_no_delete_is_one(pipeline: Make) -> None:
    made = start(pipeline, at("c", row_of(1, "a"), 100), tombstone(1), **changelog())
    made.produce(TABLE, [tombstone(1), tombstone(2)])
    made.merge(TABLE)
    made.replay(TABLE)
    assert [(row["_cdc_op"], row["id"], row["_cdc_offset"]) for row in rows(made)] == [
        ("c", 1, 0),
        ("d", 1, 1),
    ]


def test_a_column_that_comes_later_is_empty_in_what_came_before(pipeline: Make) -> None:
    made = start(pipeline, at("c", row_of(1, "a"), 100), **changelog({**WHOLE, "more": "text"}))
    made.produce(TABLE, [at("u", row_of(1, "b") | {"more": "new"}, 200)])
    made.merge(TABLE)
    assert [row.get("more") for row in rows(made)] == [None, "new"]


def test_without_a_position_each_record_is_a_change(pipeline: Make) -> None:
    """It may be one that was sent twice: nothing tells."""
    plain = [Message(b'{"id": 1}', PLAIN), Message(b'{"id": 1}', PLAIN)]
    made = start(pipeline, *plain, **changelog())
    assert [row["_cdc_offset"] for row in rows(made)] == [0, 1]
    made.replay(TABLE)
    assert len(rows(made)) == 2


PLAIN = b'{"before":null,"after":{"id":1,"name":"a","big":"b"},"source":{"ts_ms":1},"op":"c"}'


@profiles.in_soak
def test_another_mode_stops_until_the_table_is_built_anew(pipeline: Make) -> None:
    made = start(pipeline, *STORY, **changelog())
    other = replace(made, source={"tables": {TABLE: {"columns": WHOLE}}})
    other.produce(TABLE, [at("c", row_of(9, "new"), 900)])
    with pytest.raises(TerminalError, match="made with mode: changelog") as stopped:
        other.merge(TABLE)
    assert "rebuild" in stopped.value.remedy
    assert rebuilt(other)
    assert names(other) == {2: "again", 9: "new"}
    other.produce(TABLE, [at("d", row_of(9, None, None), 950)])
    other.merge(TABLE)
    assert names(other) == {2: "again"}
    assert rebuilt(made), "and back"
    assert [told(row) for row in rows(made)][: len(SAID)] == list(SAID)
    assert [row["_cdc_op"] for row in rows(made)[len(SAID) :]] == ["c", "d"]


@profiles.in_soak
@pytest.mark.parametrize("how", How if profiles.is_soak() else [How.DEATH])
def test_whatever_fails_each_change_is_there_once(pipeline: Make, how: How) -> None:
    made = start(pipeline, **changelog())
    made.produce(TABLE, STORY)
    made.merge(TABLE)
    expected, lsn, happened = list(SAID), 1000, 0
    for place in places():
        changes = [at("c", row_of(lsn, "x"), lsn), at("u", row_of(lsn, "y"), lsn + 1)]
        made.produce(TABLE, [*changes, at("u", row_of(2, "again"), 850)])
        hook = Anywhere(place=place, how=how)
        with hooked(hook):
            try:
                made.merge(TABLE)
            except (CdcError, Death):
                assert hook.happened, "nothing was injected, and the merge failed"
        happened += len(hook.happened)
        made.merge(TABLE)
        if lsn == 1000:
            expected.append(("u", 2, "again", "large", ()))
        expected += [("c", lsn, "x", "large", ()), ("u", lsn, "y", "large", ())]
        lsn += 10
        assert [told(row) for row in rows(made)] == expected, f"{place} {how}"
    assert happened >= min(3, PLACES)


def places() -> list[int]:
    """Of the effects of a batch that takes some twenty."""
    return list(range(1, PLACES + 1)) if profiles.is_soak() else [6, 12, 15][:PLACES]


# ── generated logs ────────────────────────────────────────────────────────────────────────


@profiles.in_soak
@pytest.mark.parametrize("seed", KEYED)
def test_a_generated_log_of_a_table_with_a_key(pipeline: Make, seed: int) -> None:
    run(pipeline, busy_log(seed, batches=3))


@pytest.mark.parametrize("seed", KEYLESS)
def test_a_generated_log_of_a_table_without_a_key(pipeline: Make, seed: int) -> None:
    run(pipeline, busy_log(seed, batches=3, keyless=True))


def run(pipeline: Callable[..., Pipeline], log: Log) -> None:
    """All steps of a log; after each the table holds what the log has said by then."""
    types = {name: "bigint" if name == "n" else "string" for name in log.shape.columns}
    columns = {name: types[name] for name in types if name not in log.shape.key}
    made = pipeline(**changelog(columns))
    partitions = log.settings.partitions
    made.create_topic(TABLE, partitions)
    sent = list(zip(log.records, messages(log.records), strict=True))
    there: Mapping[int, int] = {}
    repeated = 0
    for number, step in enumerate(log.steps):
        if isinstance(step, Merge):
            new = [
                message
                for record, message in sent
                if there.get(record.partition, 0)
                <= record.offset
                < step.to.get(record.partition, 0)
            ]
            needed = max((message.partition for message in new), default=0) + 1
            if needed > partitions:
                made.add_partitions(TABLE, needed)
                partitions = needed
            made.produce(TABLE, new)
            there = dict(step.to)
            try:
                made.merge(TABLE)
            except TerminalError as error:
                if "no columns" not in error.what:  # before its first row nothing tells them
                    raise
                continue
        elif made.lake.state(made.entry(TABLE).target) is not None:
            ranges = tuple(OffsetRange(p, low, high) for p, (low, high) in step.ranges.items())
            made.replay_offsets(TABLE, *ranges)
        if made.lake.state(made.entry(TABLE).target) is None:
            continue
        known = changes_of(cuts.between(log.records, {}, there))
        expected = said(known, log)
        found = [found_in(row, log) for row in rows(made)]
        assert Counter(found) == Counter(expected), f"after step {number}:\n{log.describe()}"
        places = {(row["_cdc_partition"], row["_cdc_offset"], row["_cdc_op"]) for row in rows(made)}
        assert len(places) == len(found), "a coordinate is there twice"
        repeated += len(known) - len(expected)
    assert repeated, "the log repeats nothing"


def said(known: Sequence[Change], log: Log) -> list[Told]:
    """Each change of a log once."""
    given_up = {change.identity for change in known if change.op == "d"}
    found: dict[object, Told] = {}
    for change in known:
        told = (change.identity, change.op, change.key) if change.identity else change.coordinate
        image = change.row if log.shape.key or change.op != "d" else change.before
        unset = change.unset if change.op == "u" or change.identity in given_up else frozenset()
        values = {name: (image or {}).get(name) for name in log.shape.columns}
        values |= dict.fromkeys(unset)
        if change.op == "d" and change.key is not None and log.shape.key:
            values |= dict(zip(log.shape.key, change.key, strict=True))
        found.setdefault(told, (change.op, tuple(values.items()), tuple(sorted(unset))))
    return list(found.values())


def found_in(row: Row, log: Log) -> Told:
    values = tuple((name, row.get(name)) for name in log.shape.columns)
    return (row["_cdc_op"], values, tuple(sorted(row["_cdc_unset"] or ())))
