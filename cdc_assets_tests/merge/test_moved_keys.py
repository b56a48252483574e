"""Keys that have moved between partitions: what a batch may complete, compare and order by."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.restarts import Placed, Restarts, witness
from cdc_assets.errors import CutShortError
from cdc_assets.merge.batch.checks import require_partial_whole
from cdc_assets.merge.fold.restarts import seen_before
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets_tests.merge.test_plan import ID, RENAMED, WIDER, plan_of

pytestmark = pytest.mark.unit

MOVED = [plan_of(WIDER), plan_of(RENAMED), plan_of(ID, partitions=3), plan_of(ID, keyed=False)]


def passed(plan: BatchPlan, partial: int = 1) -> Any:
    return SimpleNamespace(plan=plan, folded=SimpleNamespace(partial=partial))


@pytest.mark.parametrize("plan", MOVED, ids=["wider", "renamed", "added", "not by key"])
def test_a_partial_image_of_moved_keys_waits_for_a_batch_that_takes_all(plan: BatchPlan) -> None:
    limited = replace(plan, is_limited=True)
    with pytest.raises(CutShortError, match=r"keys have moved.*a longer batch is tried"):
        require_partial_whole(passed(limited))
    require_partial_whole(passed(plan))
    require_partial_whole(passed(limited, partial=0))
    require_partial_whole(passed(replace(limited, replay=True)))
    require_partial_whole(passed(replace(limited, mode=Mode.CHANGELOG)))


def test_a_partial_image_of_keys_that_stay_does_not_wait() -> None:
    require_partial_whole(passed(replace(plan_of(ID), is_limited=True)))


@pytest.mark.parametrize("plan", MOVED, ids=["wider", "renamed", "added", "not by key"])
def test_a_numbering_that_began_again_is_seen_in_the_partition_that_a_key_has_moved_to(
    plan: BatchPlan,
) -> None:
    """Partition 0 stands at 10 and partition 1 at 50; the source begins again at 21."""
    seen = seen_before(plan, Restarts(newest_ms={0: 1_000, 1: 2_000}))
    record = Placed(offset=2, commit=(21,), told_ms=10_000_000, may_witness=True)
    assert witness(0, [record], seen) is not None


def test_it_is_compared_with_its_own_partition_where_keys_stay() -> None:
    seen = seen_before(plan_of(ID), Restarts(newest_ms={0: 1_000, 1: 2_000}))
    record = Placed(offset=2, commit=(21,), told_ms=10_000_000, may_witness=True)
    assert witness(0, [record], seen) is None
    assert witness(1, [record], seen) is not None
