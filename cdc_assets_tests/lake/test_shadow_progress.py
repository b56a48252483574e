"""How far a table has come that is read from its live source beside the old one."""

from __future__ import annotations

import pytest

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.lake.shadow_progress import ShadowProgress

pytestmark = pytest.mark.unit

UNTIL = OffsetVector.of({0: 10, 1: 4})


@pytest.mark.parametrize(
    ("until", "start", "expected"),
    [
        (None, {0: 99, 1: 99}, 3),
        (UNTIL, {0: 9, 1: 4}, 3),
        (UNTIL, {0: 12}, 3),
        (UNTIL, {0: 10, 1: 4}, 1),
        (UNTIL, {0: 12, 1: 4, 2: 7}, 1),
    ],
    ids=["not_looked_at", "below_in_one", "partition_unread", "just_there", "beyond"],
)
def test_only_what_begins_below_the_end_of_what_was_read_is_in_doubt(
    until: OffsetVector | None, start: dict[int, int], expected: int
) -> None:
    beside = ShadowProgress(until=until, doubts=1)
    assert beside.in_doubt(2, OffsetVector.of(start)).doubts == expected


def test_progress_is_the_same_after_it_was_stored() -> None:
    beside = ShadowProgress(("7", "x"), waves=2, rows=300, is_read=True, until=UNTIL, doubts=3)
    assert ShadowProgress.from_dict(beside.to_dict()) == beside
    assert ShadowProgress.from_dict(ShadowProgress().to_dict()) == ShadowProgress()
