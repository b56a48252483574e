"""A table's state: the word, since when, and why."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.desired import DirectiveNote, TableDirectives
from cdc_assets.lake.properties import Published
from cdc_assets.lake.shadow_progress import ShadowProgress
from cdc_assets.lake.state import TableState
from cdc_assets.log.values import Watermarks
from cdc_assets.operate.failures import Failure, FailureKind, Hold
from cdc_assets.operate.seen_states import Condition, SeenState, StateBook
from cdc_assets.operate.states import standing_of, stopped_words
from cdc_assets.operate.survey import TableSurvey
from cdc_assets.orchestration.planning import is_due, one_run_reads
from cdc_assets.registry import Dropped, TableEntry
from cdc_assets_tests.world import NOW

pytestmark = pytest.mark.unit

ORDERS = TableName("shop", "public", "orders")
FOUND = NOW - timedelta(days=2)
WITHIN = 300.0
LONG_AGO, JUST_NOW = NOW - timedelta(hours=1), NOW - timedelta(seconds=5)


def published(offset: int, at: Any = LONG_AGO, **counts: int) -> TableState:
    vector = OffsetVector.of({0: offset})
    said = Published(vector, vector, "t", "", "", "a", "", "tail", at, counts=counts)
    return TableState(
        LakeName("shop", "orders"), 1, said, {}, (), (), {}, "", is_empty=False,
        total_records=1, head_columns={},
    )  # fmt: skip


def view(state: TableState | None = None, end: int = 10, **fields: Any) -> TableSurvey:
    entry = TableEntry(ORDERS, "t", LakeName("shop", "orders"), FOUND)
    marks = Watermarks(OffsetVector.of({0: 0}), OffsetVector.of({0: end}))
    given: dict[str, Any] = {"marks": marks, "oldest_unread": None, "failure": None, **fields}
    return TableSurvey(entry, state, **given)


def failure(kind: FailureKind = FailureKind.TRANSIENT, **fields: Any) -> Failure:
    return Failure(NOW - timedelta(minutes=1), kind, "Spark is away", since=LONG_AGO, **fields)


HOLD = Hold("742", LONG_AGO, NOW + timedelta(hours=1), {"t": OffsetVector.of({0: 10})})
PAUSED = DirectiveNote(LONG_AGO, "cdc-assets pause", "the index")
REBUILT = DirectiveNote(LONG_AGO, "cdc-assets rebuild")

CASES = {
    "new": (view(), Condition.NEW, FOUND, "nothing of it was merged yet"),
    "empty": (view(end=0), Condition.NEW, FOUND, "its topic holds no changes yet"),
    "to be read": (
        view(end=0, reading=ShadowProgress()), Condition.NEW, FOUND,
        "its rows are yet to be read from its source",
    ),
    "being read": (
        view(reading=ShadowProgress(("9",), 5, 250_000, about=1_000_000, seconds=8)),
        Condition.SNAPSHOTTING, None,
        "250,000 of about 1,000,000 rows are read from the source (25 %), 25,000 rows/s, about "
        "30 s left",
    ),
    "read, and not merged": (
        view(reading=ShadowProgress(None, 3, 250_000, is_read=True, about=1)),
        Condition.SNAPSHOTTING, None,
        "all 250,000 rows are read from the source, and its log is merged",
    ),
    "read to the end": (view(published(10)), Condition.REPLICATING, None, "all is merged"),
    "near": (
        view(published(7), oldest_unread=JUST_NOW),
        Condition.REPLICATING, None, "3 records are unread, none of them late",
    ),
    "late": (
        view(published(7), oldest_unread=LONG_AGO),
        Condition.LAGGING, LONG_AGO + timedelta(seconds=WITHIN),
        "the oldest of 3 unread records is older than 300 s",
    ),
    "snapshot": (
        view(published(7, r=5), oldest_unread=LONG_AGO),
        Condition.SNAPSHOTTING, None, "rows of a snapshot are merged, 3 records are unread",
    ),
    "snapshot that may go on": (
        view(published(10, JUST_NOW, r=5)),
        Condition.SNAPSHOTTING, None, "rows of a snapshot are merged, 0 records are unread",
    ),
    "snapshot that is over": (
        view(published(10, r=5)), Condition.REPLICATING, None, "all is merged",
    ),
    "failing": (view(failure=failure()), Condition.FAILING, LONG_AGO, "Spark is away"),
    "stopped": (
        view(failure=failure(attempts=7, stopped=True)), Condition.FAILING, LONG_AGO,
        "stopped: it failed 7 times since 2026-03-04 11:30:00Z → cdc-assets resume --table "
        "shop.public.orders, once the reason is gone: Spark is away",
    ),
    "waiting": (
        view(failure=failure(FailureKind.WAITING, hold=HOLD)),
        Condition.WAITING, LONG_AGO, "Spark is away",
    ),
    "paused, and failing before": (
        view(published(7), failure=failure(), desired=TableDirectives(paused=PAUSED)),
        Condition.PAUSED, LONG_AGO,
        "paused since 2026-03-04 11:30:00Z by cdc-assets pause: the index → "
        "cdc-assets resume --table shop.public.orders",
    ),
    "dropped": (
        view(published(7), desired=TableDirectives(paused=PAUSED, dropped=PAUSED)),
        Condition.DROPPED, LONG_AGO,
        "dropped since 2026-03-04 11:30:00Z by cdc-assets pause: the index → "
        "cdc-assets resume --table shop.public.orders",
    ),
    "built anew": (
        view(published(7), desired=TableDirectives(rebuild=REBUILT)),
        Condition.REBUILDING, LONG_AGO,
        "it is being rebuilt since 2026-03-04 11:30:00Z by cdc-assets rebuild → "
        "cdc-assets rebuild shop.public.orders",
    ),
    "begun again": (
        view(desired=TableDirectives(reset=DirectiveNote(LONG_AGO))),
        Condition.REBUILDING, LONG_AGO,
        "a reset has begun since 2026-03-04 11:30:00Z → "
        "cdc-assets reset --table shop.public.orders",
    ),
    "no answer": (
        view(published(7), marks=None), Condition.UNKNOWN, None,
        "Kafka did not answer, or the topic is gone",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_state_says_since_when_and_why(case: tuple[Any, ...]) -> None:
    seen, condition, since, why = case
    found = standing_of(seen, NOW, WITHIN)
    assert (found.condition, found.since, found.why) == (condition, since, why)


def test_a_table_that_its_source_has_dropped_says_since_when() -> None:
    gone = view(published(10))
    gone = replace(gone, entry=replace(gone.entry, dropped=Dropped(LONG_AGO)))
    found = standing_of(gone, NOW, WITHIN)
    expected = (Condition.DROPPED, LONG_AGO, "the source no longer has the table")
    assert (found.condition, found.since, found.why) == expected


@pytest.mark.parametrize(
    ("end", "topic_id", "unread"),
    [(10, "topic", 0), (10, "", 0), (11, "", 10), (4, "", 6)],
    ids=["all is its", "noted without topic", "of a topic before", "another table's since"],
)
def test_an_end_that_its_topic_does_not_reach_is_of_one_before(
    end: int, topic_id: str, unread: int
) -> None:
    gone = view(None)
    dropped = Dropped(LONG_AGO, OffsetVector.of({0: end}), topic_id)
    assert replace(gone, entry=replace(gone.entry, dropped=dropped)).lag_changes == unread


def test_every_state_is_reached() -> None:
    assert {case[1] for case in CASES.values()} == set(Condition)


DUE = {
    "unread": (view(published(7)), True, True),
    "read to the end": (view(published(10)), False, False),
    "paused": (view(published(7), desired=TableDirectives(paused=PAUSED)), False, False),
    "paused and failing": (
        view(failure=failure(), desired=TableDirectives(paused=PAUSED)), False, False,
    ),
    "dropped": (view(published(7), desired=TableDirectives(dropped=PAUSED)), False, False),
    "being reset": (view(published(7), desired=TableDirectives(reset=PAUSED)), False, False),
    "built anew": (view(published(7), desired=TableDirectives(rebuild=PAUSED)), True, True),
    "failing, its interval is over": (view(failure=failure()), True, True),
    "failing, to be tried later": (view(failure=failure(attempts=9)), False, True),
    "stopped": (view(failure=failure(stopped=True)), False, True),
}  # fmt: skip


@pytest.mark.parametrize("case", DUE.values(), ids=DUE)
def test_a_sensor_and_a_person_start_runs_for(case: tuple[TableSurvey, bool, bool]) -> None:
    seen, by_sensor, by_person = case
    assert is_due(seen, (), NOW) is by_sensor
    assert is_due(seen, (), NOW, ignore_backoff=True) is by_person


def test_a_table_that_goes_on_has_not_stopped() -> None:
    assert stopped_words(view(failure=failure())) == ""
    assert stopped_words(view()) == ""


def test_what_was_seen_tells_since_when_as_long_as_nothing_else_does(tmp_path: Path) -> None:
    book, other = StateBook(f"{tmp_path}/states.json"), TableName("shop", "public", "other")
    book.note({ORDERS: Condition.REPLICATING, other: Condition.LAGGING}, LONG_AGO)
    assert book.load()[ORDERS] == SeenState(Condition.REPLICATING, None), "it was found in it"
    book.note({ORDERS: Condition.SNAPSHOTTING}, LONG_AGO + timedelta(minutes=1))
    book.note({ORDERS: Condition.REPLICATING}, LONG_AGO + timedelta(minutes=2))
    book.note({ORDERS: Condition.REPLICATING}, NOW)
    assert book.load() == {
        ORDERS: SeenState(Condition.REPLICATING, LONG_AGO + timedelta(minutes=2))
    }

    seen, near = book.load()[ORDERS], view(published(7), oldest_unread=JUST_NOW)
    assert standing_of(near, NOW, WITHIN, seen).since == LONG_AGO + timedelta(minutes=2)
    late = view(published(7), oldest_unread=LONG_AGO)
    assert standing_of(late, NOW, WITHIN, seen).since == LONG_AGO + timedelta(seconds=WITHIN)
    snapshot = view(published(7, r=5), oldest_unread=LONG_AGO)
    assert standing_of(snapshot, NOW, WITHIN, seen).since is None, "it was seen in another state"


def test_a_document_that_cannot_be_read_is_written_anew(tmp_path: Path) -> None:
    file = tmp_path / "states.json"
    file.write_text("[[1]]")
    book = StateBook(str(file))
    assert book.load() == {}
    book.note({ORDERS: Condition.NEW}, NOW)
    assert book.load() == {ORDERS: SeenState(Condition.NEW, None)}


def test_a_source_is_read_by_one_run_at_a_time() -> None:
    reading = view(end=0, reading=ShadowProgress())
    other = replace(reading, entry=replace(reading.entry, table=TableName("shop", "public", "b")))
    elsewhere = replace(
        reading, entry=replace(reading.entry, table=TableName("crm", "public", "orders"))
    )
    merged = view(published(7))
    assert all(is_due(each, (), NOW) for each in (reading, other, elsewhere, merged))
    tables = [reading, other, elsewhere, merged]
    assert one_run_reads(tables, tables, ()) == tables
    assert one_run_reads([other, elsewhere, merged], tables, {ORDERS}) == [elsewhere, merged]
