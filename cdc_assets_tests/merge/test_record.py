"""What a publish says that the next batch goes by."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.slo import SloTarget, SloWindow
from cdc_assets.lake.carried import Carried, LastRecords
from cdc_assets.merge.apply.snapshot_properties import BatchOutcome, record_of
from cdc_assets.merge.guards.moved_keys import MovedKeys

pytestmark = pytest.mark.unit


KNOWN = {0: (6, 60), 1: (7, 70)}


def recorded(
    *, replay: bool = False, behind: bool = False, last: LastRecords | None = None
) -> Carried:
    """The state after a batch that found one more partition."""
    before = Carried(partitions=3, partitions_seen=3, last_merged=KNOWN)
    identity = SimpleNamespace(topic_id="t", cluster_id="c")
    plan: Any = SimpleNamespace(
        published=SimpleNamespace(carried=before, slo=SloWindow(), counts={}, valid_through=None),
        partitions=4, replay=replay, is_behind=behind, soft=False, start=OffsetVector.of({0: 1}),
        end=OffsetVector.of({0: 1}), unread=(), entry=SimpleNamespace(topic="t", shard_value=""),
        schema=SimpleNamespace(columns=()),
        identity=identity, attempt="a", run_id="r", state=None, witnesses=(),
        last_records=last or {},
    )  # fmt: skip
    figures: Any = SimpleNamespace(records=1, by_op={}, rejected=0)
    said = record_of(plan, BatchOutcome(figures), "", datetime.now(UTC), SloTarget(95, 300, 24))
    setting: Any = SimpleNamespace(means=None)
    done: Any = SimpleNamespace(plan=plan)
    return MovedKeys(setting).carry(said.carried, done)


def test_only_a_batch_that_takes_all_has_seen_an_added_partition() -> None:
    assert recorded().partitions_seen == 4
    assert recorded(replay=True).partitions_seen == 3
    assert recorded(behind=True).partitions_seen == 3


def test_the_last_record_of_a_partition_stays_known_until_a_later_one_is_merged() -> None:
    assert recorded(replay=True).last_merged == KNOWN
    assert recorded(last={1: (9, 90)}).last_merged == {0: (6, 60), 1: (9, 90)}
