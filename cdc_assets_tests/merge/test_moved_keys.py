"""Keys that have moved between partitions: what a batch may complete, compare and order by."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.position import Scheme, encode
from cdc_assets.changes.restarts import NumberingPlace, Restarts, witness
from cdc_assets.config import SourceConfig
from cdc_assets.errors import CutShortError
from cdc_assets.formats.key_form import KeyBytes, KeyForm
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.registered import format_of
from cdc_assets.lake.carried import Carried
from cdc_assets.merge.apply.keyed import choose
from cdc_assets.merge.guards.key_schemas import require_same_keys, with_keys_of
from cdc_assets.merge.guards.moved_keys import MovedKeys
from cdc_assets.merge.guards.restarts.watch import seen_before
from cdc_assets.merge.plan.plan import Apply, BatchPlan
from cdc_assets.merge.plan.stable_partitions import MovedKeysError
from cdc_assets.schema.types import Column
from cdc_assets_tests.merge.test_plan import ID, RENAMED, SENT_AS_ANOTHER, WIDER, plan_of, position

pytestmark = pytest.mark.unit

MOVED = [plan_of(WIDER), plan_of(RENAMED), plan_of(ID, partitions=3), plan_of(ID, keyed=False)]


def passed(plan: BatchPlan, partial: int = 1) -> Any:
    return SimpleNamespace(plan=plan, folded=SimpleNamespace(partial=partial))


def require_partial_whole(last: Any) -> None:
    setting: Any = SimpleNamespace(means=None)
    assert MovedKeys(setting).settle(last) is last


@pytest.mark.parametrize("plan", MOVED, ids=["wider", "renamed", "added", "not by key"])
def test_a_partial_image_of_moved_keys_waits_for_a_batch_that_takes_all(plan: BatchPlan) -> None:
    limited = replace(plan, is_limited=True)
    with pytest.raises(CutShortError, match=r"keys have moved.*a longer batch is tried"):
        require_partial_whole(passed(limited))
    require_partial_whole(passed(plan))
    require_partial_whole(passed(limited, partial=0))
    require_partial_whole(passed(replace(limited, replay=True)))
    require_partial_whole(passed(replace(limited, mode=Mode.CHANGELOG)))


def test_a_partial_image_waits_too_once_keys_have_another_schema() -> None:
    plan = replace(plan_of(ID), is_limited=True)
    assert plan.published is not None
    carried = replace(plan.published.carried, key_schemas=(5,))
    plan = replace(plan, published=replace(plan.published, carried=carried))
    require_partial_whole(passed(with_keys_of(plan, frozenset({5}))))
    other = with_keys_of(plan, frozenset({5, 6}))
    with pytest.raises(CutShortError):
        require_partial_whole(passed(other))
    assert choose(other, {0: position(20)}) is Apply.GUARDED
    with pytest.raises(MovedKeysError, match="has another schema in records"):
        require_same_keys(by_offset(other), KeyBytes.SCHEMA)
    assert not with_keys_of(replace(plan, replay=True), frozenset({6})).has_other_keys
    assert not with_keys_of(plan_of(ID), frozenset({6})).has_other_keys, "of an older version"


def test_a_partial_image_of_keys_that_stay_does_not_wait() -> None:
    require_partial_whole(passed(replace(plan_of(ID), is_limited=True)))


@pytest.mark.parametrize("plan", MOVED, ids=["wider", "renamed", "added", "not by key"])
def test_a_numbering_that_began_again_is_seen_in_the_partition_that_a_key_has_moved_to(
    plan: BatchPlan,
) -> None:
    """Partition 0 stands at 10 and partition 1 at 50; the source begins again at 21."""
    seen = seen_before(plan, Restarts(newest_ms={0: 1_000, 1: 2_000}))
    record = NumberingPlace(offset=2, commit=(21,), source_ms=10_000_000, may_witness=True)
    assert witness(0, [record], seen) is not None


def test_it_is_compared_with_its_own_partition_where_keys_stay() -> None:
    seen = seen_before(plan_of(ID), Restarts(newest_ms={0: 1_000, 1: 2_000}))
    record = NumberingPlace(offset=2, commit=(21,), source_ms=10_000_000, may_witness=True)
    assert witness(0, [record], seen) is None
    assert witness(1, [record], seen) is not None


# ── ordered by offsets alone ──────────────────────────────────────────────────────────────


def by_offset(plan: BatchPlan) -> BatchPlan:
    return replace(plan, layout=replace(plan.layout, scheme=Scheme.OFFSET))


@pytest.mark.parametrize(
    ("plan", "content"),
    [(plan_of(RENAMED), KeyBytes.NAMES), (plan_of(RENAMED), KeyBytes.SCHEMA),
     (plan_of(SENT_AS_ANOTHER), KeyBytes.NAMES), (plan_of(WIDER), KeyBytes.SCHEMA)],
    ids=["renamed", "renamed, with schemas", "another name in records", "wider, with schemas"],
)  # fmt: skip
def test_moved_keys_stop_a_table_that_offsets_order(plan: BatchPlan, content: KeyBytes) -> None:
    with pytest.raises(MovedKeysError, match=r"was renamed or retyped.*offsets alone") as stopped:
        require_same_keys(by_offset(plan), content)
    assert "topic=t" in stopped.value.where
    assert "--from-snapshot" in stopped.value.remedy
    require_same_keys(plan, content)
    require_same_keys(by_offset(replace(plan, partitions=1)), content)
    require_same_keys(by_offset(replace(plan, end=OffsetVector.of({0: 0, 1: 9}))), content)


@pytest.mark.parametrize(
    ("key", "content"),
    [(ID, KeyBytes.SCHEMA), (WIDER, KeyBytes.NAMES), (WIDER, KeyBytes.VALUES),
     (RENAMED, KeyBytes.VALUES)],
    ids=["the same", "wider, without schemas", "wider, by values", "renamed, by values"],
)  # fmt: skip
def test_keys_whose_bytes_are_the_same_go_on_by_the_offsets_of_their_partition(
    key: Column, content: KeyBytes
) -> None:
    plan = by_offset(plan_of(key))
    require_same_keys(plan, content)
    assert plan.published is not None
    applied = {0: encode((1_000,)).hex().upper(), 1: encode((9,)).hex().upper()}
    carried = Carried(applied=applied, partitions=2)
    plan = replace(plan, published=replace(plan.published, carried=carried))
    assert choose(plan, {1: encode((10,)).hex().upper()}) is Apply.REPLACE


def test_what_decides_on_a_key_s_partition() -> None:
    def content(format_: str, dialect: str, form: KeyForm = KeyForm.JSON) -> KeyBytes:
        layout = Layout(dialect, key_form=form)
        said = {"format": format_, "topics": {"include": [".*"]}}
        return format_of(SourceConfig.model_validate(said)).key_bytes(layout)

    assert content("debezium-json", "inline") is KeyBytes.SCHEMA
    assert content("debezium-json", "flat-inline") is KeyBytes.SCHEMA
    assert content("debezium-json", "bare") is KeyBytes.NAMES
    assert content("debezium-json", "inline", KeyForm.LONG) is KeyBytes.VALUES
    assert content("debezium-json", "bare", KeyForm.TEXT) is KeyBytes.VALUES
    assert content("canal-json", "canal") is KeyBytes.VALUES
    assert content("maxwell-json", "maxwell") is KeyBytes.VALUES
