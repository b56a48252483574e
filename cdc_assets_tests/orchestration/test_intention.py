from __future__ import annotations

import dagster as dg
import pytest

from cdc_assets.orchestration.keys import TAG_MODE, TAIL
from cdc_assets.orchestration.table_run import Intention, intention_of

pytestmark = pytest.mark.slow

BACKFILL = {"dagster/backfill": "b", "dagster/partition": "2026-03-04-10:00"}


@dg.job
def merges() -> None: ...


@pytest.mark.parametrize(
    ("first", "again", "intention"),
    [
        (BACKFILL, {}, Intention.REPLAY),
        (BACKFILL, {TAG_MODE: TAIL}, Intention.TAIL),
        ({}, {}, Intention.BY_HAND),
        ({TAG_MODE: TAIL}, {}, Intention.BY_HAND),
    ],
)
def test_a_backfills_run_that_is_started_again_replays_though_the_backfill_has_ended(
    instance_in_memory: dg.DagsterInstance,
    first: dict[str, str],
    again: dict[str, str],
    intention: Intention,
) -> None:
    """Dagster then leaves out the backfill's tag: also of a run that is started a third time."""
    instance = instance_in_memory
    root = instance.create_run_for_job(merges, tags=first)
    parent = root
    for _ in range(2):
        parent = instance.create_run_for_job(
            merges, tags=again, root_run_id=root.run_id, parent_run_id=parent.run_id
        )
        assert intention_of(parent, instance) is intention
    instance.delete_run(root.run_id)
    if not again:
        assert intention_of(parent, instance) is Intention.BY_HAND, "nothing is known of it"
