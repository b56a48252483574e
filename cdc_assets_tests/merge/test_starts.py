"""Where a table's first batch starts: at the log's beginning, or behind another table's changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.errors import LostRangeError, TerminalError, TransientError
from cdc_assets.lake import TableState
from cdc_assets.lake.properties import ADOPTED
from cdc_assets.log.values import TopicIdentity, Watermarks
from cdc_assets.merge.intake.planning.starts import Starts, require_first_rows
from cdc_assets.merge.intake.planning.topics import TopicNow
from cdc_assets.registry import Beginning, Dropped, TableEntry

pytestmark = pytest.mark.unit

AT = datetime(2026, 3, 4, tzinfo=UTC)
ENTRY = TableEntry(TableName("s", "public", "t"), "t", LakeName("n", "t"), AT)


def at(*offsets: int) -> OffsetVector:
    return OffsetVector.of(dict(enumerate(offsets)))


END, NOWHERE, NINE = at(5, 3), at(0, 0), at(9, 9)
NOTED = Dropped(AT, END, "topic")
BEFORE, SOON, LATER = (AT + timedelta(minutes=each) for each in (-9, 9, 99))


def start(
    dropped: Dropped | None,
    begin: OffsetVector = NOWHERE,
    end: OffsetVector = NINE,
    *,
    entry: TableEntry = ENTRY,
    lost_start: str = "fail",
    state: TableState | None = None,
    records: tuple[tuple[datetime, ...], ...] = ((), ()),
) -> OffsetVector:
    """Where the table starts; ``records``: times of each partition's, from its begin on."""

    def first(time: datetime) -> OffsetVector:
        found = {
            p: begin.get(p) + sum(each < time for each in times) if times else end.get(p)
            for p, times in enumerate(records)
        }
        return OffsetVector.of(found)

    log = SimpleNamespace(offsets_at=lambda _, times: {("t", each): first(each) for each in times})
    source = SimpleNamespace(lost_start=lost_start)
    configured = SimpleNamespace(source=lambda _: source, rebuild_command=lambda _: "")
    starts = Starts(cast("Any", configured), cast("Any", log))
    now = TopicNow(TopicIdentity("cluster", "topic"), Watermarks(begin, end))
    return starts.of(replace(entry, dropped=dropped), state, now)


def test_a_table_begins_with_its_log_or_behind_a_dropped_one_of_its_name() -> None:
    assert start(None) == at(0, 0)
    assert start(Dropped(AT)) == at(0, 0), "the lake has kept that one"
    assert start(NOTED) == END
    assert start(replace(NOTED, topic_id="former")) == at(0, 0)


@pytest.mark.parametrize("dropped", [None, NOTED], ids=["of the log", "behind another one"])
def test_a_lost_beginning_is_accepted_only_if_that_is_configured(dropped: Dropped | None) -> None:
    with pytest.raises(LostRangeError, match=r"0:\[\d,7\) was never merged.*lost_start: accept"):
        start(dropped, at(7, 0))
    first = start(dropped, at(7, 0), lost_start="accept")
    assert first == (at(7, 3) if dropped else at(7, 0))


def test_a_table_that_was_removed_begins_where_it_began() -> None:
    removed = replace(ENTRY, begins=Beginning(at(2, 4), "topic"))
    assert start(None, entry=removed) == at(2, 4)
    assert start(NOTED, entry=removed) == at(5, 4)
    assert start(None, at(2, 0), entry=removed) == at(2, 4), "nothing of its own is lost"
    with pytest.raises(LostRangeError, match=r"0:\[2,3\) was never merged"):
        start(None, at(3, 0), entry=removed)
    elsewhere = replace(ENTRY, begins=Beginning(at(2, 4), "former"))
    assert start(None, entry=elsewhere) == at(0, 0)


def test_what_is_lost_of_the_dropped_table_is_not_missed() -> None:
    assert start(NOTED, at(5, 1)) == END


REPLACED = TableState.absent(ENTRY.target)
"""By an empty table, without any snapshot."""


def test_a_table_whose_rows_were_read_does_not_begin_again_with_its_log() -> None:
    """`CREATE OR REPLACE TABLE` leaves the table's properties, and no head."""
    with pytest.raises(TerminalError, match=r"another program.*reset --table s.public.t"):
        require_first_rows(ENTRY, REPLACED)
    with pytest.raises(TransientError, match="have them read"):
        require_first_rows(ENTRY, None)
    require_first_rows(ENTRY, replace(REPLACED, snapshot_id=7))


def test_an_adopted_table_does_not_begin_again_with_its_log() -> None:
    assert start(None, state=REPLACED) == at(0, 0)
    with pytest.raises(TerminalError, match=r"adopt s.public.t --existing n.old"):
        start(None, state=replace(REPLACED, properties={ADOPTED: "n.old"}))


# ── an end without its topic ──────────────────────────────────────────────────────────────

UNKNOWN_VALUE = replace(NOTED, topic_id="")


@pytest.mark.parametrize(
    "records",
    [((BEFORE,) * 5, (BEFORE,) * 3), ((BEFORE,) * 5 + (SOON, LATER), (BEFORE,) * 3 + (LATER,))],
    ids=["nothing since", "another table since"],
)
def test_what_is_older_than_the_note_is_the_dropped_tables(records: Any) -> None:
    end = at(*map(len, records))
    assert start(UNKNOWN_VALUE, end=end, records=records) == END


@pytest.mark.parametrize(
    "records", [((), ()), ((LATER,) * 2, ()), ((LATER,) * 9, (LATER,) * 9)], ids=str
)
def test_all_of_a_topic_that_was_made_anew_is_newer_than_the_note(records: Any) -> None:
    assert start(UNKNOWN_VALUE, end=at(*map(len, records)), records=records) == at(0, 0)


@pytest.mark.parametrize(
    "records",
    [((SOON,) * 9, (SOON,) * 9), ((BEFORE,) * 4 + (LATER,) * 5, (BEFORE,) * 9)],
    ids=["soon after", "in between"],
)
def test_a_table_stops_where_neither_is_certain(records: Any) -> None:
    with pytest.raises(TerminalError, match=r"unknown.*registry's file.*`topic_id`"):
        start(UNKNOWN_VALUE, records=records)
