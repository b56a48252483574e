"""Which snapshot of a side table counts, whatever has happened to the table since."""

from __future__ import annotations

import pytest

from cdc_assets.changes.names import LakeName
from cdc_assets.errors import TerminalError
from cdc_assets.lake.carried import SideMark
from cdc_assets.lake.side import SideSnapshot, SideState

pytestmark = pytest.mark.unit

NAME = LakeName("cdc_assets_tombstones", "t")


def appended(parent: int | None, rows: int = 1) -> SideSnapshot:
    return SideSnapshot(parent, f"attempt {parent}", is_compaction=False, rows=rows)


def compacted(parent: int) -> SideSnapshot:
    return SideSnapshot(parent, None, is_compaction=True, rows=1)


def state(head: int | None, **snapshots: SideSnapshot) -> SideState:
    by_id = {int(id_[1:]): each for id_, each in snapshots.items()}
    return SideState(NAME, head, by_id, frozenset(by_id))


def test_the_named_snapshot_is_read_whatever_was_appended_since() -> None:
    side = state(3, s1=appended(None), s2=appended(1), s3=appended(2))
    assert side.readable(SideMark(2)) == 2
    assert not side.stands_at(SideMark(2))
    assert side.stands_at(SideMark(3))


def test_compactions_change_nothing() -> None:
    side = state(4, s1=appended(None), s2=appended(1), s3=compacted(2), s4=compacted(3))
    assert side.stands_at(SideMark(2))
    assert not side.stands_at(SideMark(1))


def test_after_a_compaction_the_named_snapshot_may_be_expired() -> None:
    side = state(4, s4=compacted(2))
    assert side.readable(SideMark(2)) == 4


def test_an_expired_snapshot_under_other_entries_stops_the_table() -> None:
    side = state(4, s3=appended(2), s4=compacted(3))
    with pytest.raises(TerminalError, match=r"snapshot 2 .* gone.*rebuild"):
        side.readable(SideMark(2))


def test_nothing_counts_before_the_first_publish() -> None:
    nothing = SideMark(None)
    assert state(None).stands_at(nothing)
    left = state(1, s1=appended(None))
    assert left.readable(nothing) is None
    assert not left.stands_at(nothing)
    cleared = state(2, s1=appended(None), s2=appended(1, rows=0))
    assert cleared.stands_at(nothing)
