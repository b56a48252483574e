"""A table gets the rows that match a condition, and loses those that no longer do."""

from __future__ import annotations

from typing import Any

import pytest

from cdc_assets.errors import RejectedRecordError, TerminalError
from cdc_assets.lake.properties import MIXED, WHERE
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.merge.events import PLACEHOLDER, event, truncate
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.operated import run_rebuild
from cdc_assets_tests.pipeline import Message, Pipeline

pytestmark = pytest.mark.stack

COLUMNS = {"status": "string", "note": "string"}
PUBLISHED = "status <> 'draft'"


def where(condition: str = PUBLISHED, **table: Any) -> dict[str, Any]:
    return {"tables": {TABLE: {"columns": COLUMNS, "where": condition, **table}}}


def change(op: str, id_: int, lsn: int, status: str | None = "ok", note: str = "x") -> Message:
    return event(op, {"id": id_, "status": status, "note": note}, lsn, commit=lsn - 1)


def statuses(made: Pipeline) -> dict[object, object]:
    return {key: row["status"] for key, row in made.by_key(TABLE).items()}


def reconfigured(made: Pipeline, **said: Any) -> Pipeline:
    """The same topics and the same lake, by another configuration."""
    return Pipeline(made.base, made.spark, made.folder, said, made.prefix, made.made)


def said_of(made: Pipeline) -> str:
    state = made.lake.state(made.entry(TABLE).target)
    assert state is not None
    return state.properties.get(WHERE, "")


def test_rows_leave_and_return_and_nothing_that_comes_again_brings_them_back(
    pipeline: Make,
) -> None:
    first = [
        change("r", 1, 5), change("r", 2, 5, "draft"), change("c", 3, 10), change("c", 4, 20, None),
        change("c", 5, 30, "draft"),
    ]  # fmt: skip
    made = start(pipeline, *first, **where())
    assert statuses(made) == {1: "ok", 3: "ok"}
    second = [
        change("u", 1, 40, "draft"), change("u", 2, 50, "new"), change("u", 3, 60, None),
        change("u", 5, 70, "ok"), change("u", 5, 80, "draft"), change("u", 4, 90, "ok"),
    ]  # fmt: skip
    made.produce(TABLE, second)
    made.merge(TABLE)
    assert statuses(made) == {2: "new", 4: "ok"}
    made.produce(TABLE, [*first, *second[:4]])  # a connector that starts again
    made.merge(TABLE)
    assert statuses(made) == {2: "new", 4: "ok"}
    made.replay(TABLE)
    assert statuses(made) == {2: "new", 4: "ok"}
    made.produce(TABLE, [change("u", 1, 100, "back"), change("u", 3, 110, "back"),
                         change("d", 2, 120)])  # fmt: skip
    made.merge(TABLE)
    assert statuses(made) == {1: "back", 3: "back", 4: "ok"}


def test_a_truncate_and_a_changed_key_concern_rows_that_the_table_never_had(pipeline: Make) -> None:
    made = start(pipeline, change("c", 1, 10, "draft"), change("c", 2, 20), **where())
    moved = [event("d", {"id": 1, "status": None, "note": None}, 30, commit=29),
             event("c", {"id": 7, "status": "ok", "note": "x"}, 30, commit=29)]  # fmt: skip
    made.produce(TABLE, moved)
    made.merge(TABLE)
    assert statuses(made) == {2: "ok", 7: "ok"}
    made.produce(TABLE, [change("u", 2, 40, "draft"), truncate(50, commit=49),
                         change("c", 2, 60, "draft"), change("c", 3, 70)])  # fmt: skip
    made.merge(TABLE)
    assert statuses(made) == {3: "ok"}


def test_a_value_that_an_update_left_alone_is_the_rows_or_stops_the_table(pipeline: Make) -> None:
    """Which it does not where what the update has decides already."""
    long = "long " * 10
    made = start(pipeline, change("c", 1, 10, note=long), change("c", 2, 20, "draft", long),
                 **where())  # fmt: skip
    made.produce(TABLE, [change("u", 1, 30, "seen", PLACEHOLDER),
                         change("u", 2, 40, "draft", PLACEHOLDER)])  # fmt: skip
    made.merge(TABLE)
    assert statuses(made) == {1: "seen"}
    assert made.by_key(TABLE)[1]["note"] == long
    made.produce(TABLE, [change("u", 1, 50, "draft", PLACEHOLDER),
                         change("u", 1, 60, "again", PLACEHOLDER)])  # fmt: skip
    made.merge(TABLE)  # the row is there until the batch has both
    assert statuses(made) == {1: "again"}
    made.produce(TABLE, [change("u", 2, 70, "ok", PLACEHOLDER)])
    with pytest.raises(RejectedRecordError, match="REPLICA IDENTITY FULL") as error:
        made.merge(TABLE)
    assert f"topic={made.topic(TABLE)} partition=0 offset=6" in str(error.value)
    assert statuses(made) == {1: "again"}


def test_a_condition_on_a_value_that_was_left_alone_takes_the_rows(pipeline: Make) -> None:
    long = "long " * 10
    made = start(pipeline, change("c", 1, 10, note=long), change("c", 2, 20, note="short"),
                 **where("note LIKE 'long%' AND status = 'ok'"))  # fmt: skip
    made.produce(TABLE, [change("u", 1, 30, "ok", PLACEHOLDER)])
    made.merge(TABLE)
    assert made.by_key(TABLE) == {1: {"id": 1, "status": "ok", "note": long}}
    made.produce(TABLE, [change("u", 1, 40, "no", PLACEHOLDER)])
    made.merge(TABLE)  # only the lake's row tells the note: the delete is known after the look-up
    assert made.by_key(TABLE) == {}
    made.produce(TABLE, [change("c", 1, 10, note=long), change("u", 1, 30, "ok", long)])
    made.merge(TABLE)
    assert made.by_key(TABLE) == {}, "an older change has brought the row back"


def test_another_condition_concerns_new_rows_until_a_rebuild(pipeline: Make) -> None:
    rows = [change("c", 1, 10), change("c", 2, 20, "draft"), change("c", 3, 30, "old")]
    made = start(pipeline, *rows, **where())
    assert said_of(made) == """"status" <> 'draft'"""
    other = reconfigured(made, **where("status = 'draft'"))
    other.produce(TABLE, [change("c", 4, 40, "draft"), change("u", 3, 50, "ok")])
    other.merge(TABLE)
    assert statuses(other) == {1: "ok", 4: "draft"}
    assert said_of(other) == MIXED
    back = reconfigured(made, **where())
    back.produce(TABLE, [change("c", 5, 60)])
    back.merge(TABLE)
    assert said_of(back) == MIXED, "a row of the other condition is there"
    RegistryFile(back.config.registry).add([back.entry(TABLE)])
    run_rebuild(back.config, str(back.entry(TABLE).table))
    assert statuses(back) == {1: "ok", 3: "ok", 5: "ok"}
    assert said_of(back) == """"status" <> 'draft'"""
    every = reconfigured(made, tables={TABLE: {"columns": COLUMNS}})
    run_rebuild(every.config, str(every.entry(TABLE).table))
    assert len(statuses(every)) == 5
    assert said_of(every) == ""


def test_rows_without_a_key_are_counted_if_they_match(pipeline: Make) -> None:
    def change(op: str, lsn: int, old: str | None, new: str | None) -> Message:
        before = None if old is None else {"status": old, "n": 1}
        row = before if op == "d" else {"status": new, "n": 1}
        given = None if op == "d" else before
        return event(op, row, lsn, commit=lsn - 1, before=given, order=1, key=())

    columns = {"columns": {"status": "string", "n": "int"}}
    said: dict[str, Any] = {"tables": {TABLE: {**columns, "where": PUBLISHED}}}
    changes = [
        change("c", 10, None, "ok"), change("c", 20, None, "ok"), change("c", 30, None, "draft"),
        change("u", 40, "ok", "draft"), change("u", 50, "draft", "new"),
        change("d", 60, "draft", None),
    ]  # fmt: skip
    made = start(pipeline, *changes[:3], **said)
    made.produce(TABLE, changes[3:])
    made.merge(TABLE)
    assert sorted(row["status"] for row in made.rows(TABLE)) == ["new", "ok"]  # pyright: ignore[reportArgumentType]
    made.produce(TABLE, changes)
    made.merge(TABLE)
    assert len(made.rows(TABLE)) == 2
    other = reconfigured(made, tables={TABLE: {**columns, "where": "status = 'ok'"}})
    other.produce(TABLE, [change("c", 70, None, "ok")])
    with pytest.raises(TerminalError, match="made with another condition on rows"):
        other.merge(TABLE)


def test_a_column_that_the_source_drops_is_not_one_that_decides(pipeline: Make) -> None:
    made = start(pipeline, change("c", 1, 10), **where(absent_columns=["note"]))
    made.produce(TABLE, [event("u", {"id": 1, "status": "ok"}, 20, commit=19)])
    made.merge(TABLE)
    other = reconfigured(made, **where("note = 'x'", absent_columns=["note"]))
    other.produce(TABLE, [event("u", {"id": 1, "status": "so"}, 30, commit=29)])
    with pytest.raises(TerminalError, match="the source has dropped note"):
        other.merge(TABLE)
    assert statuses(other) == {1: "ok"}
