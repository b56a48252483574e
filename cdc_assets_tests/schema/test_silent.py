"""Rows that changed at the source without events: what is remembered, and what ends the doubt."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cdc_assets.schema.silent import (
    MOST,
    CatalogLook,
    OnSilent,
    SilentChange,
    SilentKind,
    SilentPolicy,
    list_from_json,
    list_to_json,
    remembered,
    without,
)

pytestmark = pytest.mark.unit

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
GONE = SilentChange(SilentKind.PARTITIONS, "partition p is gone")
CASCADE = SilentChange(SilentKind.CASCADES, "foreign key fk", is_standing=True)
ALTERED = SilentChange(SilentKind.REWRITTEN, "column at was changed", ("at",))


def of(reaction: OnSilent) -> SilentPolicy:
    return SilentPolicy(dict.fromkeys(SilentKind, reaction))


def test_what_is_found_gets_a_name_and_a_time_and_keeps_them() -> None:
    first = remembered((), [GONE, CASCADE], NOON)
    assert [each.since for each in first] == [NOON, NOON]
    assert len({each.id for each in first}) == 2
    assert remembered(first, [CASCADE], LATER) == first


def test_what_happens_once_more_is_in_doubt_anew() -> None:
    """A comparison that began between the two proves the first one only."""
    (first,) = remembered((), [GONE], NOON)
    (second,) = remembered([first], [GONE], LATER)
    assert second.id != first.id
    assert without([second], [first.id]) == (second,)


def test_a_standing_change_that_is_over_leaves_rows_in_doubt() -> None:
    known = remembered((), [CASCADE], NOON)
    assert without(known, [known[0].id]) == known, "it goes on after any comparison"
    (over,) = remembered(known, [], LATER)
    assert (over.is_standing, over.since) == (False, LATER)
    assert without([over], [known[0].id]) == (over,)
    assert without([over], [over.id]) == ()


def test_columns_that_were_not_compared_stay_in_doubt() -> None:
    (known,) = remembered((), [ALTERED], NOON)
    assert without([known], [known.id], ["other"]) == ()
    assert without([known], [known.id], ["at"]) == (known,)


def test_a_table_remembers_the_newest_of_each_kind_and_not_all() -> None:
    known: tuple[SilentChange, ...] = remembered((), [ALTERED], NOON)
    for day in range(365):
        known = remembered(known, [replace(GONE, why=f"partition p{day} is gone")], NOON)
    assert len(known) == MOST + 1
    assert (known[0].why, known[-1].why) == (ALTERED.why, "partition p364 is gone")


@pytest.mark.parametrize("kind", list(SilentKind))
def test_each_kind_is_stopped_at_marked_or_ignored_as_configured(kind: SilentKind) -> None:
    change = SilentChange(kind, "why", is_standing=kind in {"cascades", "unlogged"})
    assert of(OnSilent.STOP).stops(change)
    assert not of(OnSilent.MARK).stops(change)
    assert of(OnSilent.MARK).heeded([change]) == (change,)
    assert of(OnSilent.IGNORE).heeded([change]) == ()
    assert not of(OnSilent.IGNORE).stops(change)


def test_by_default_only_what_is_certain_stops() -> None:
    assert [k for k in SilentKind if SilentPolicy().reactions[k] is not OnSilent.STOP] == [
        SilentKind.REWRITTEN
    ]


def test_what_a_person_accepted_or_what_is_over_stops_no_more() -> None:
    stop = of(OnSilent.STOP)
    assert not stop.stops(replace(GONE, is_accepted=True))
    assert not stop.stops(replace(CASCADE, is_standing=False))
    assert stop.stops(replace(CASCADE, is_accepted=True)), "it goes on changing rows"


def test_it_is_read_as_it_was_written() -> None:
    known = remembered((), [GONE, CASCADE, ALTERED], NOON)
    assert list_from_json(list_to_json(known)) == known
    assert list_to_json([]) == ""
    assert list_from_json('[{"kind":"partitions","why":"x"}]') == (replace(GONE, why="x"),)
    look = CatalogLook({"1": ("a", "int", "7")}, "f", {"9": ("p", "8")}, {"3": "new"}, ("4",))
    assert CatalogLook.from_json(look.to_json()) == look
    assert CatalogLook.from_json("{}") == CatalogLook()
