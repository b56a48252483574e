"""What is known of the source's table, once a rebuild brings what it knows itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cdc_assets.changes.names import LakeName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.renamed import RenamedTable
from cdc_assets.lake import Published, TableState
from cdc_assets.lake.at_source import AtSource
from cdc_assets.lake.carried import Carried
from cdc_assets.schema.history import StatementHistory
from cdc_assets.schema.silent import CatalogLook, SilentChange, SilentKind, remembered

pytestmark = pytest.mark.unit

RENAMED = RenamedTable("public", "u", "t", "before", OffsetVector.of({0: 7}))
OLD = AtSource("7", StatementHistory(topic="t"), "0A", RENAMED)
BESIDE = AtSource("8", StatementHistory(topic="t", next={0: 9}), "0B")
SHARDS = pytest.mark.parametrize("shard", ["", "eu"])


def state(stored: AtSource, shard: str, carried: Carried | None = None) -> TableState:
    """A table whose properties and newest publish say so."""
    offsets = OffsetVector.of({0: 1})
    published = Published(
        offsets, offsets, "t", "topic", "cluster", "a", "r", "tail",
        datetime(2026, 3, 4, tzinfo=UTC), carried or Carried(),
    )  # fmt: skip
    return TableState(
        LakeName("n", "t"), 1, published, {}, (), (), stored.to_properties(shard), "",
        is_empty=False, total_records=1, head_columns={},
    )  # fmt: skip


def swapped(before: AtSource = OLD, beside: AtSource = BESIDE, swap: str = "one") -> Carried:
    return Carried(generation=1, at_source=beside.in_place_of(before, swap))


@SHARDS
def test_from_the_swap_on_it_is_what_the_rebuild_knew(shard: str) -> None:
    """Before a batch has stored it, and whatever one from before the swap stores late."""
    known = replace(BESIDE, renamed=RENAMED, since="one")
    for stored in (OLD, replace(OLD, identity="late")):
        found = AtSource.of(state(stored, shard, swapped()), shard)
        assert found == replace(known, is_carried=True)
        assert found.is_to_follow(found)


@SHARDS
def test_what_is_stored_since_is_newer(shard: str) -> None:
    found = AtSource.of(state(OLD, shard, swapped()), shard)
    learned = replace(found, identity="learned")
    after = AtSource.of(state(learned, shard, swapped()), shard)
    assert after == replace(learned, is_carried=False)
    assert not after.is_to_follow(after)
    again = AtSource.of(state(learned, shard), shard)
    assert again == after, "once it is carried no longer"


def test_a_rebuild_that_knows_nothing_leaves_what_was_known() -> None:
    found = AtSource.of(state(OLD, "", swapped(beside=AtSource())), "")
    assert found == replace(OLD, barrier="", since="one", is_carried=True)


def test_the_next_swap_counts_again() -> None:
    learned = AtSource.of(state(OLD, "", swapped()), "")
    second = swapped(learned, AtSource("9"), "two")
    assert AtSource.of(state(learned, "", second), "").identity == "9"


def test_it_is_read_from_what_was_published() -> None:
    carried = swapped()
    assert Carried.from_json(carried.to_json()) == carried
    published = state(OLD, "", carried).published
    assert published is not None
    assert Published.from_properties(published.to_properties()) == published


def test_a_version_that_does_not_know_it_refuses_it() -> None:
    assert '"needs":["at_source"]' in swapped().to_json()
    assert '"needs":[]' in Carried().to_json()


def in_doubt(*whys: str) -> tuple[SilentChange, ...]:
    found = [SilentChange(SilentKind.PARTITIONS, why) for why in whys]
    return remembered((), found, datetime(2026, 3, 4, tzinfo=UTC))


LOOK, NEWER = CatalogLook(files="1"), CatalogLook(files="2")


def with_more(stored: AtSource, shard: str, more: dict[str, str]) -> TableState:
    found = state(stored, shard)
    return replace(found, properties={**found.properties, **more})


@SHARDS
def test_a_comparison_ends_the_doubts_that_it_began_with_and_no_others(shard: str) -> None:
    before = replace(OLD, look=LOOK, silent=in_doubt("one"))
    late = replace(before, silent=(*before.silent, *in_doubt("two")))
    said = late.proven_since(before, NEWER, shard)
    found = AtSource.of(with_more(late, shard, said), shard)
    assert [each.why for each in found.silent] == ["two"]
    assert found.look == NEWER
    stale = {**said, **late.to_properties(shard)}  # a batch that was planned before stores it again
    assert [c.why for c in AtSource.of(with_more(late, shard, stale), shard).silent] == ["two"]


def test_a_comparison_does_not_take_back_a_newer_look() -> None:
    before = replace(OLD, look=LOOK)
    assert replace(before, look=NEWER).proven_since(before, CatalogLook(files="3"), "") == {}
    assert before.proven_since(before, LOOK, "") == {}


def test_rows_that_were_read_anew_leave_only_doubts_that_came_since() -> None:
    known = replace(OLD, look=LOOK, silent=in_doubt("before"))
    beside = AtSource.of(with_more(AtSource(), "", known.for_reading(NEWER, "")), "")
    assert (beside.silent, beside.look) == ((), NEWER)
    now = replace(known, silent=(*known.silent, *in_doubt("meanwhile")))
    filled = replace(beside, silent=in_doubt("beside"))
    for is_read, left in (
        (True, ["meanwhile", "beside"]),
        (False, ["before", "meanwhile", "beside"]),
    ):
        carried = Carried(generation=1, at_source=filled.in_place_of(now, "one", is_read=is_read))
        found = AtSource.of(state(now, "", carried), "")
        assert [each.why for each in found.silent] == left
        assert found.look == (NEWER if is_read else LOOK)


def test_more_than_a_hundred_proven_doubts_are_no_longer_listed() -> None:
    found = OLD
    for n in range(150):
        found = replace(found, silent=in_doubt(str(n)))
        said = found.proven_since(found, None, "")
        found = AtSource.of(with_more(found, "", said), "")
        assert found.silent == ()
    assert len(found.proven) == 100
