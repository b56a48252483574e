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
    assert beside.with_doubts(2, OffsetVector.of(start)).doubts == expected


def test_progress_is_the_same_after_it_was_stored() -> None:
    beside = ShadowProgress(("7", "x"), waves=2, rows=300, is_read=True, until=UNTIL, doubts=3)
    assert ShadowProgress.from_dict(beside.to_dict()) == beside
    assert ShadowProgress.from_dict(ShadowProgress().to_dict()) == ShadowProgress()
    of_no_topic = ShadowProgress(until=OffsetVector(), about=12, seconds=1.5)
    assert ShadowProgress.from_dict(of_no_topic.to_dict()) == of_no_topic


def test_rate_and_rest_are_those_of_the_waves_so_far() -> None:
    begun = ShadowProgress(about=1_000)
    assert (begun.percent, begun.rows_per_second, begun.seconds_left) == (0.0, None, None)
    first = begun.after(250, ("250",))
    assert (first.percent, first.rows_per_second, first.seconds_left) == (25.0, None, None)
    half = first.after(250, ("500",), 1.0)  # of the first wave: that of the second is not known
    assert (half.percent, half.rows_per_second, half.seconds_left) == (50.0, 250.0, 2.0)
    more = half.after(700, ("1200",), 1.0)
    assert (more.percent, more.seconds_left) == (99.0, 0)
    done = more.after(10, None, 1.0)
    assert (done.percent, done.seconds_left, done.is_read) == (100.0, 0.0, True)
    unknown = ShadowProgress().after(10, ("10",), 1.0)
    assert (unknown.percent, unknown.seconds_left) == (None, None)
