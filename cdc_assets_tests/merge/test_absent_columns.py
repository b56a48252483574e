"""A column that records lack is never emptied unnoticed; here without a database to ask."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from cdc_assets.errors import TerminalError
from cdc_assets.merge.guards.restarts.watch import RestartError
from cdc_assets_tests.merge.events import AT_MS, event
from cdc_assets_tests.merge.inline import change, in_schema
from cdc_assets_tests.merge.one_table import TABLE, Make, accept, start
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.spark

TYPED: dict[str, Any] = {"columns": {"id": "bigint", "name": "text", "n": "bigint"}}


def ids(pipeline: Pipeline) -> dict[object, object]:
    return {id_: row.get("n") for id_, row in pipeline.by_key(TABLE).items()}


both = pytest.mark.parametrize(
    "inline",
    [False, pytest.param(True, marks=profiles.in_soak)],
    ids=["bare", "inline schema"],
)


@both
def test_a_row_that_would_lose_a_value_stops_the_table(pipeline: Make, inline: bool) -> None:
    """The value may be of an earlier batch, or of the same."""
    made = start(pipeline, change("c", {"id": 1, "name": "a", "n": 7}, 10, inline=inline))
    before = made.lake.state(made.entry(TABLE).target)
    lacks = change("u", {"id": 1, "name": "b"}, 20, inline=inline)
    made.produce(TABLE, [change("c", {"id": 2, "name": "c", "n": 8}, 15, inline=inline), lacks])
    for _ in range(2):
        with pytest.raises(TerminalError, match="lacks column 'n'") as stopped:
            made.merge(TABLE)
        assert "partition=0 offset=2" in str(stopped.value)
        assert "absent_columns" in str(stopped.value)
    assert made.lake.state(made.entry(TABLE).target) == before

    same = start(
        pipeline,
        change("c", {"id": 1, "name": "a", "n": 7}, 10, inline=inline),
        tables={TABLE: TYPED} if not inline else {},
    )
    same.produce(
        TABLE,
        [
            change("c", {"id": 2, "name": "a", "n": 8}, 20, inline=inline),
            change("u", {"id": 2, "name": "b"}, 30, inline=inline),
        ],
    )
    with pytest.raises(TerminalError, match="lacks column 'n'"):
        same.merge(TABLE)
    assert ids(same) == {1: 7}


@both
def test_records_from_before_a_column_was_added_are_merged(pipeline: Make, inline: bool) -> None:
    """Their partition may lag behind, and they may be sent again after newer ones."""
    made = start(
        pipeline,
        change("c", {"id": 1, "name": "a"}, 10, inline=inline),
        change("c", {"id": 2, "name": "b"}, 11, inline=inline, partition=1),
        change("u", {"id": 1, "name": "a", "n": 7}, 50, inline=inline),
        partitions=2, tables={} if inline else {TABLE: TYPED},
    )  # fmt: skip
    assert ids(made) == {1: 7, 2: None}
    old = [change("u", {"id": 2, "name": "c"}, 20, inline=inline, partition=1),
           change("c", {"id": 1, "name": "a"}, 10, inline=inline)]  # fmt: skip
    made.produce(TABLE, old)
    made.merge(TABLE)
    made.produce(TABLE, [change("c", {"id": 3, "name": "c", "n": 9}, 60, inline=inline)])
    made.merge(TABLE)
    assert made.by_key(TABLE) == {
        1: {"id": 1, "name": "a", "n": 7},
        2: {"id": 2, "name": "c", "n": None},
        3: {"id": 3, "name": "c", "n": 9},
    }


@both
def test_a_column_that_is_given_up_is_emptied_and_shown(
    pipeline: Make, inline: bool, caplog: pytest.LogCaptureFixture
) -> None:
    given_up = {TABLE: {**TYPED, "absent_columns": ["n"]}}
    made = start(
        pipeline,
        change("c", {"id": 1, "name": "a", "n": 7}, 10, inline=inline),
        change("c", {"id": 2, "name": "b", "n": 8}, 11, inline=inline),
        tables=given_up,
    )
    made.produce(TABLE, [change("u", {"id": 1, "name": "c"}, 20, inline=inline)])
    (batch,) = made.merge(TABLE)
    assert ids(made) == {1: None, 2: 8}
    assert [column.name for column in batch.schema.columns if column.absent] == ["n"]
    assert made.merge(TABLE) == []


@profiles.in_soak
@both
def test_a_column_may_be_given_up_after_the_table_was_made(pipeline: Make, inline: bool) -> None:
    made = start(pipeline, change("c", {"id": 1, "name": "a", "n": 7}, 10, inline=inline))
    made.produce(TABLE, [change("u", {"id": 1, "name": "c"}, 20, inline=inline)])
    with pytest.raises(TerminalError, match="lacks column 'n'"):
        made.merge(TABLE)
    made.source["tables"] = {TABLE: {"absent_columns": ["n"]}}
    made.__post_init__()
    made.merge(TABLE)
    assert ids(made) == {1: None}


@profiles.in_soak
@both
def test_an_odd_record_without_columns_is_rejected_first(pipeline: Make, inline: bool) -> None:
    made = start(
        pipeline, change("c", {"id": 1, "name": "a", "n": 7}, 10, inline=inline),
        bad_records="quarantine",
    )  # fmt: skip
    odd = json.loads(event("u", {"id": None}, 20, commit=15).value or b"")
    bare = Message(b"{}", json.dumps({**odd, "after": {"zzz": 1}}).encode())
    made.produce(TABLE, [in_schema(bare, {"type": "struct"}) if inline else bare])
    made.merge(TABLE)
    assert ids(made) == {1: 7}


@profiles.in_soak
@pytest.mark.parametrize("mode", ["mirror", "history"])
def test_a_value_is_lost_by_the_positions_of_an_accepted_restart(pipeline: Make, mode: str) -> None:
    """The old numbering is higher, but what follows the restart is newer."""
    settings = {TABLE: {**TYPED, "mode": mode}}
    old, new = event_of(1, 900_000, 899_500, 0, n=7), event_of(1, 1_000, 900, 10)
    other = event_of(2, 1_100, 1_050, 11, n=8)
    for first, second in (([old], [new, other]), ([event_of(3, 100, 90, -9, n=9)], [old, new])):
        made = start(pipeline, *first, tables=settings)
        made.produce(TABLE, second)
        with pytest.raises(RestartError):
            made.merge(TABLE)
        accept(made)
        with pytest.raises(TerminalError, match="lacks column 'n'"):
            made.merge(TABLE)

    later = start(pipeline, event_of(3, 100, 90, -9, n=9), tables=settings)
    later.produce(TABLE, [event_of(1, 900_000, 899_500, 0), event_of(1, 1_000, 900, 10, n=7)])
    with pytest.raises(RestartError):
        later.merge(TABLE)
    accept(later)
    later.merge(TABLE)
    assert 7 in {row["n"] for row in later.rows(TABLE) if row["id"] == 1}


def event_of(id_: int, lsn: int, commit: int | None, minute: int, **values: object) -> Message:
    op = "r" if commit is None and values else "u"
    at_ms = AT_MS + minute * 60_000
    return event(op, {"id": id_, "name": "a", **values}, lsn, commit=commit, at_ms=at_ms)


@profiles.in_soak
@pytest.mark.parametrize("mode", ["mirror", "history"])
def test_a_value_is_lost_by_the_positions_that_a_snapshot_of_the_batch_gives(
    pipeline: Make, mode: str
) -> None:
    """A connector's first transaction may have begun before the snapshot: it is newer."""
    read, in_flight = event_of(1, 1_000, None, 0, n=7), event_of(1, 990, None, 0)
    made = pipeline(tables={TABLE: {**TYPED, "mode": mode}})
    made.create_topic(TABLE)
    made.produce(TABLE, [read, in_flight, event_of(2, 1_100, 1_050, 1, n=8)])
    with pytest.raises(TerminalError, match="lacks column 'n'"):
        made.merge(TABLE)


@profiles.in_soak
def test_many_columns_that_come_and_go_in_one_batch(pipeline: Make) -> None:
    """Each record with a schema of its own: read as one group, and looked through at once."""
    names = [f"c{n}" for n in range(12)]
    made = start(pipeline, wide("c", 1, 10, names))
    made.produce(TABLE, [wide("u", 1, 20 + n, names[: 12 - n]) for n in range(12)])
    with pytest.raises(TerminalError, match=r"lacks column 'c\d+'.*partition=0 offset=12"):
        made.merge(TABLE)

    later = start(pipeline, wide("c", 0, 10, names[:1]))
    later.produce(TABLE, [wide("c", n, 20 + n, names[:n]) for n in range(1, 12)])
    later.produce(TABLE, [wide("c", 20 + n, 80 + n, names[n:]) for n in range(11)])
    later.merge(TABLE)
    assert {id_: [name for name in names if row.get(name)] for id_, row in
            later.by_key(TABLE).items()} == (
        {0: names[:1]} | {n: names[:n] for n in range(1, 12)}
        | {20 + n: names[n:] for n in range(11)}
    )  # fmt: skip


def wide(op: str, id_: int, lsn: int, names: Sequence[str]) -> Message:
    row = {"id": id_, **{name: f"{name} of {id_}" for name in names}}
    return change(op, row, lsn, inline=True)
