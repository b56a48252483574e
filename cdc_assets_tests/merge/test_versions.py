"""Tables that hold each version of each row: whatever is delivered late, again, or replayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.effects import hooked
from cdc_assets.errors import CdcError, TerminalError
from cdc_assets_tests.faults import Anywhere, Death, How
from cdc_assets_tests.merge.events import AT_MS, PLACEHOLDER, event, tombstone, truncate
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.merge.test_rebuild import rebuilt
from cdc_assets_tests.model.change import Change
from cdc_assets_tests.model.history import Version, versions
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import cuts, profiles
from cdc_assets_tests.toy.actions import Log
from cdc_assets_tests.toy.busy import busy_log
from cdc_assets_tests.toy.connector import changes_of
from cdc_assets_tests.toy.cuts import Merge
from cdc_assets_tests.toy.debezium import messages
from cdc_assets_tests.toy.profiles import in_soak

pytestmark = pytest.mark.stack

SEEDS = tuple(range(40)) if profiles.is_soak() else (10,)
MOVES = (7, 8, 20, 23, 25, 28, 29, 30, 31, 36, 45, 46, 52, 55)
"""Logs of one partition: where both halves of a changed key may be lifted to other places, those
of the first transaction after a start cannot be told to be halves."""
WHOLE_NUMBERS = {"id", "a", "n"}
PLACES = 40 if profiles.is_soak() else 3
WHOLE: dict[str, object] = {"name": "text", "big": "text"}
Row = dict[str, Any]
Told = tuple[object, ...]


def history(columns: Mapping[str, object] = WHOLE, **table: object) -> dict[str, object]:
    return {"tables": {TABLE: {"mode": "history", "columns": columns, **table}}}


def rows(pipeline: Pipeline) -> list[Row]:
    """By key, in order of position."""
    found = pipeline.spark().table(f"lake.{pipeline.entry(TABLE).target}").collect()
    made = (row.asDict(recursive=True) for row in found)
    return sorted(made, key=lambda row: (str(row.get("id")), bytes(row["_cdc_position"])))


def head_of(pipeline: Pipeline) -> int | None:
    state = pipeline.lake.state(pipeline.entry(TABLE).target)
    return state.snapshot_id if state else None


def told(row: Row) -> Told:
    """Values, what made it, what ended it; LSNs of both."""
    unset = tuple(row["_cdc_unset"] or ())
    assert row["_cdc_current"] == (row["_cdc_ended_by"] is None)
    return (
        row["id"], row["name"], row["big"], unset, row["_cdc_op"], lsn(row["_cdc_position"]),
        row["_cdc_ended_by"], lsn(row["_cdc_end_position"]),
    )  # fmt: skip


def lsn(position: bytes | None) -> int | None:
    """The second number of a position, or of a row that was read the first."""
    if position is None:
        return None
    first, second = (int.from_bytes(position[n : n + 8]) for n in (0, 8))
    return second or first


def row_of(id_: int, name: str | None, big: str | None = "large") -> Row:
    return {"id": id_, "name": name, "big": big}


def at(op: str, row: Row | None, lsn: int, partition: int = 0) -> Message:
    return event(op, row, lsn, commit=lsn - 1, partition=partition, at_ms=AT_MS + lsn)


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
    (1, "read", "large", (), "r", 100, "d", 400),
    (2, "made", "large", (), "c", 200, "u", 300),
    (2, "changed", "large", ("big",), "u", 300, "d", 500),
    (2, "again", "large", (), "c", 800, None, None),
    (3, "changed", "large", (), "c", 500, "t", 700),
    (4, "data", PLACEHOLDER, (), "c", 600, "t", 700),
)


CUTS: dict[str, tuple[int, ...]] = {"in three": (3, 8, 11)}
if profiles.is_soak():
    CUTS |= {"as one": (11,), "one by one": (1, 2, 3, 5, 8, 9, 10, 11)}
"""A batch has both halves of a changed key."""


@in_soak
@pytest.mark.parametrize("ends", CUTS.values(), ids=CUTS)
def test_versions_are_the_same_however_the_log_is_cut(pipeline: Make, ends: Sequence[int]) -> None:
    made = start(pipeline, *STORY[: ends[0]], **history())
    for begin, end in pairwise(ends):
        made.produce(TABLE, STORY[begin:end])
        made.merge(TABLE)
    found = rows(made)
    assert [told(row) for row in found] == list(SAID)
    assert [(row["_cdc_offset"], row["_cdc_end_offset"]) for row in found] == [
        (0, 3), (1, 2), (2, 5), (10, None), (7, 9), (8, 9),
    ]  # fmt: skip
    head = head_of(made)
    made.replay(TABLE)
    assert head_of(made) == head, "a replay that adds nothing publishes nothing"


def test_what_a_connector_sends_again_makes_no_version_and_opens_none(pipeline: Make) -> None:
    """Whether it tells the last commit again or, as the first transaction of a start, does not."""
    made = start(pipeline, *STORY, **history())
    first = rows(made)
    made.produce(TABLE, STORY[1:])
    made.produce(TABLE, [event("u", row_of(2, "changed", PLACEHOLDER), 300)])
    made.produce(TABLE, [event("d", row_of(1, None, None), 400), tombstone(1)])
    [batch] = made.merge(TABLE)
    assert batch.stale == len(STORY) - 3 + 2, "without records that have no value"
    assert rows(made) == first
    made.produce(TABLE, [at("u", row_of(2, "last"), 900), at("u", row_of(2, "last"), 900)])
    made.merge(TABLE)
    assert [told(row) for row in rows(made) if row["id"] == 2][2:] == [
        (2, "again", "large", (), "c", 800, "u", 900),
        (2, "last", "large", (), "u", 900, None, None),
    ]


def test_a_change_that_comes_late_takes_its_place_in_the_past(pipeline: Make) -> None:
    """What an update after it has left alone is what the late one has set."""
    made = start(
        pipeline,
        at("c", row_of(1, "a", "old"), 100),
        at("u", row_of(1, "c", PLACEHOLDER), 300),
        at("u", row_of(2, "b"), 350),
        at("d", row_of(2, None, None), 500),
        partitions=2,
        **history(),
    )
    made.produce(TABLE, [at("d", row_of(3, None, None), 600), truncate(800, commit=799)])
    made.merge(TABLE)
    late = [
        at("u", row_of(1, "b", "new"), 200, 1),
        at("c", row_of(2, "a"), 250, 1),
        at("u", row_of(2, "c"), 450, 1),
        at("c", row_of(3, "a"), 550, 1),
        at("c", row_of(4, "a"), 700, 1),
    ]
    made.produce(TABLE, late)
    made.merge(TABLE)
    assert [told(row) for row in rows(made)] == [
        (1, "a", "old", (), "c", 100, "u", 200),
        (1, "b", "new", (), "u", 200, "u", 300),
        (1, "c", "new", ("big",), "u", 300, "t", 800),
        (2, "a", "large", (), "c", 250, "u", 350),
        (2, "b", "large", (), "u", 350, "u", 450),
        (2, "c", "large", (), "u", 450, "d", 500),
        (3, "a", "large", (), "c", 550, "d", 600),
        (4, "a", "large", (), "c", 700, "t", 800),
    ]


def test_any_number_of_truncates_may_come_in_one_batch(pipeline: Make) -> None:
    """With some fifty of them, an expression for each made the plan too deep for Spark's client."""
    made = start(pipeline, at("c", row_of(1, "a"), 100), at("c", row_of(2, "a"), 110), **history())
    emptied: list[Message] = []
    for lsn in range(200, 1_400, 20):
        emptied += [truncate(lsn, commit=lsn - 1), at("c", row_of(1, f"after {lsn}"), lsn + 10)]
    made.produce(TABLE, emptied)
    made.merge(TABLE)
    assert [told(row) for row in rows(made)] == [
        (1, "a", "large", (), "c", 100, "t", 200),
        *((1, f"after {lsn}", "large", (), "c", lsn + 10, "t", lsn + 20)
          for lsn in range(200, 1_380, 20)),
        (1, "after 1380", "large", (), "c", 1_390, None, None),
        (2, "a", "large", (), "c", 110, "t", 200),
    ]  # fmt: skip


@profiles.in_soak
def test_snapshots_read_again_what_is_there_and_tell_what_no_change_has(pipeline: Make) -> None:
    first = [event("r", row_of(n, "read"), 100, at_ms=AT_MS) for n in (1, 2, 3)]
    made = start(pipeline, *first, at("u", row_of(2, "changed"), 200), **history())
    again = [event("r", row_of(n, name), 400, at_ms=AT_MS + 400) for n, name in
             ((1, "read"), (2, "other"), (3, "read"))]  # fmt: skip
    made.produce(TABLE, again)
    made.merge(TABLE)
    expected = [
        (1, "read", "large", (), "r", 100, None, None),
        (2, "read", "large", (), "r", 100, "u", 200),
        (2, "changed", "large", (), "u", 200, "r", 400),
        (2, "other", "large", (), "r", 400, None, None),
        (3, "read", "large", (), "r", 100, None, None),
    ]
    found = rows(made)
    assert [told(row) for row in found] == expected
    assert [len(row["_cdc_read_again"] or ()) for row in found] == [1, 0, 0, 0, 1]
    times = [row["_cdc_valid_from"].timestamp() for row in found]
    assert times == [(AT_MS + n) / 1000 for n in (0, 0, 200, 400, 0)]
    assert found[2]["_cdc_valid_to"] == found[3]["_cdc_valid_from"]
    made.produce(TABLE, [at("u", row_of(1, "late"), 300)])
    made.merge(TABLE)
    assert [told(row) for row in rows(made)][:3] == [
        (1, "read", "large", (), "r", 100, "u", 300),
        (1, "late", "large", (), "u", 300, "r", 400),
        (1, "read", "large", (), "r", 400, None, None),
    ], "what the snapshot has read is newer"
    made.produce(TABLE, [at("u", row_of(1, "read"), 350)])
    made.merge(TABLE)
    assert [told(row) for row in rows(made)][1:3] == [
        (1, "late", "large", (), "u", 300, "u", 350),
        (1, "read", "large", (), "u", 350, None, None),
    ], "and now a change tells why"


@profiles.in_soak
def test_an_update_of_a_row_that_is_not_there_is_refused_by_its_place(pipeline: Make) -> None:
    made = start(pipeline, at("c", row_of(1, "a"), 100), **history())
    made.produce(TABLE, [at("u", row_of(2, "b", PLACEHOLDER), 200)])
    with pytest.raises(CdcError, match="without its unchanged columns") as refused:
        made.merge(TABLE)
    assert "partition=0 offset=1" in str(refused.value)


@profiles.in_soak
def test_columns_come_and_go_without_a_version_of_their_own(pipeline: Make) -> None:
    wide = history({**WHOLE, "more": "text"})
    made = start(pipeline, at("c", row_of(1, "a"), 100), at("c", row_of(2, "a"), 110), **wide)
    made.produce(TABLE, [at("u", row_of(1, "b") | {"more": "new"}, 200)])
    made.merge(TABLE)
    assert [(row["id"], row["name"], row["more"]) for row in rows(made)] == [
        (1, "a", None), (1, "b", "new"), (2, "a", None),
    ]  # fmt: skip
    gone = history({**WHOLE, "more": "text"}, absent_columns=["more"])
    later = replace(made, source=gone)
    later.produce(TABLE, [at("u", row_of(1, "c"), 300)])
    later.merge(TABLE)
    assert [(row["name"], row["more"], row["_cdc_current"]) for row in rows(later)][:3] == [
        ("a", None, False), ("b", "new", False), ("c", None, True),
    ]  # fmt: skip


def test_a_table_without_a_key_is_refused_before_it_is_made(pipeline: Make) -> None:
    made = pipeline(**history())
    made.create_topic(TABLE)
    made.produce(TABLE, [event("c", row_of(1, "a"), 100, commit=99, key=())])
    with pytest.raises(TerminalError, match="has no key") as refused:
        made.merge(TABLE)
    assert "primary_key" in refused.value.remedy
    assert made.lake.state(made.entry(TABLE).target) is None


@profiles.in_soak
def test_a_history_is_put_in_the_place_of_a_mirror_and_not_the_other_way_round(
    pipeline: Make,
) -> None:
    mirror = start(pipeline, *STORY, tables={TABLE: {"columns": WHOLE}})
    made = replace(mirror, source=history())
    made.produce(TABLE, [at("c", row_of(9, "new"), 900)])
    with pytest.raises(TerminalError, match="made with mode: mirror"):
        made.merge(TABLE)
    assert rebuilt(made)
    expected = [*SAID, (9, "new", "large", (), "c", 900, None, None)]
    assert [told(row) for row in rows(made)] == expected
    made.produce(TABLE, [at("d", row_of(9, None, None), 950), at("u", row_of(2, "last"), 1000)])
    made.merge(TABLE)
    expected[3:4] = [
        (2, "again", "large", (), "c", 800, "u", 1000),
        (2, "last", "large", (), "u", 1000, None, None),
    ]
    expected[-1] = (9, "new", "large", (), "c", 900, "d", 950)
    assert [told(row) for row in rows(made)] == expected
    assert rebuilt(made), "and the same again"
    assert [told(row) for row in rows(made)] == expected
    mirror.produce(TABLE, [at("c", row_of(9, "again"), 1100)])
    with pytest.raises(TerminalError, match="made with mode: history") as stopped:
        mirror.merge(TABLE)
    assert "cdc-assets reset --table TABLE" in stopped.value.remedy
    with pytest.raises(TerminalError, match="no mirror can be put"):
        rebuilt(mirror)
    made.merge(TABLE)
    assert [told(row) for row in rows(made)] == [
        *expected, (9, "again", "large", (), "c", 1100, None, None)
    ]  # fmt: skip


@profiles.in_soak
@pytest.mark.parametrize("how", How if profiles.is_soak() else [How.DEATH])
def test_whatever_fails_each_version_is_there_once(pipeline: Make, how: How) -> None:
    made = start(pipeline, *STORY, **history())
    expected, lsn, happened = list(SAID), 1000, 0
    for place in places():
        changes = [
            at("c", row_of(lsn, "x"), lsn),
            at("u", row_of(lsn, "y"), lsn + 1),
            at("d", row_of(lsn + 1, None, None), lsn + 2),
            at("u", row_of(2, "again"), 850),
        ]
        made.produce(TABLE, changes)
        hook = Anywhere(place=place, how=how)
        with hooked(hook):
            try:
                made.merge(TABLE)
            except (CdcError, Death):
                assert hook.happened, "nothing was injected, and the merge failed"
        happened += len(hook.happened)
        made.merge(TABLE)
        if lsn == 1000:
            expected[3:4] = [
                (2, "again", "large", (), "c", 800, "u", 850),
                (2, "again", "large", (), "u", 850, None, None),
            ]
        expected += [
            (lsn, "x", "large", (), "c", lsn, "u", lsn + 1),
            (lsn, "y", "large", (), "u", lsn + 1, None, None),
        ]
        lsn += 10
        found = [told(row) for row in rows(made)]
        assert sorted(found, key=str) == sorted(expected, key=str), f"{place} {how}"
    assert happened >= min(3, PLACES)


def places() -> list[int]:
    """Of the effects of a batch that takes some twenty."""
    return list(range(1, PLACES + 1)) if profiles.is_soak() else [6, 12, 15][:PLACES]


# ── generated logs ────────────────────────────────────────────────────────────────────────


@profiles.in_soak
@pytest.mark.parametrize("seed", SEEDS)
def test_a_generated_log(pipeline: Make, seed: int) -> None:
    run(pipeline, busy_log(seed, batches=3))


@profiles.in_soak
@pytest.mark.parametrize("seed", MOVES)
def test_a_generated_log_whose_changed_keys_leave_values_alone(pipeline: Make, seed: int) -> None:
    run(pipeline, busy_log(seed, batches=3, moves=True))


def run(pipeline: Callable[..., Pipeline], log: Log) -> None:
    """All steps of a log; after each the table has the versions that the log makes by then."""
    types = {name: "bigint" if name in WHOLE_NUMBERS else "string" for name in log.shape.columns}
    key = {} if log.settings.split_keys else {"primary_key": list(log.shape.key)}
    columns = {name: types[name] for name in types if name not in log.shape.key or key}
    made = pipeline(**history(columns, **key))
    partitions = log.settings.partitions
    made.create_topic(TABLE, partitions)
    sent = list(zip(log.records, messages(log.records), strict=True))
    there: Mapping[int, int] = {}
    past = 0
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
        expected = [said(each, log) for each in versions(changes_of(delivered(log, there)))]
        found = [found_in(row, log) for row in rows(made)]
        assert sorted(found, key=str) == sorted(expected, key=str), (
            f"after step {number}:\n{log.describe()}"
        )
        past += len(expected) - sum(row["_cdc_current"] for row in rows(made))
    assert past, "no version has ended"


def delivered(log: Log, to: Mapping[int, int]) -> list[Any]:
    return cuts.between(log.records, {}, to)


def said(version: Version, log: Log) -> Told:
    """Values, which change has made the version and which has ended it."""
    values = tuple(version.values.get(name) for name in log.shape.columns)
    made, ended = version.made, version.ended
    return (
        values, made.op, place(made), tuple(sorted(version.unset)),
        ended.op if ended else None, place(ended) if ended else None, len(version.read_again),
    )  # fmt: skip


def place(change: Change) -> object:
    """What its deliveries have in common; of a snapshot's row where it lies."""
    return change.coordinate if change.op == "r" else change.position[1]


def found_in(row: Row, log: Log) -> Told:
    def at(op: str, position: bytes, partition: int, offset: int) -> object:
        return (partition, offset) if op == "r" else int.from_bytes(position[8:16])

    end = row["_cdc_ended_by"]
    made = at(row["_cdc_op"], row["_cdc_position"], row["_cdc_partition"], row["_cdc_offset"])
    return (
        tuple(row.get(name) for name in log.shape.columns), row["_cdc_op"], made,
        tuple(sorted(row["_cdc_unset"] or ())), end,
        at(end, row["_cdc_end_position"], row["_cdc_end_partition"], row["_cdc_end_offset"])
        if end else None,
        len(row["_cdc_read_again"] or ()),
    )  # fmt: skip
