"""What upkeep a table needs, and which of its snapshots may go."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.upkeep import (
    MIB,
    SHARE_OF_TARGET,
    TINY,
    Figures,
    PastSnapshot,
    SnapshotHistory,
    Task,
    Thresholds,
    Tier,
    expirable,
    files_at_once,
    most_in_a_partition,
    tasks,
    tier_of,
)

NOW = 1_000_000_000
TARGET = 512 * MIB
MINUTE = 60_000
LIMITS = Thresholds(
    tiny_files=10,
    small_files=30,
    marked=0.2,
    keep=timedelta(minutes=30),
    keep_publishes=3,
    expired_at_once=5,
    manifests=100,
)
IDLE = Figures(1, 100, 0, 0, 100, 0, 1, 100, SnapshotHistory(None, {}))


def line(count: int, every_ms: int, *, steps: int = 0) -> SnapshotHistory:
    """Publishes, the newest just now, each with some steps before that were no heads."""
    snapshots, heads, parent = {}, {}, None
    for n in range(count):
        at = NOW - (count - 1 - n) * every_ms
        for step in range(steps):
            snapshots[1000 + n * 10 + step] = PastSnapshot(parent, at - steps + step)
            parent = 1000 + n * 10 + step
        snapshots[n] = PastSnapshot(parent, at, is_publish=True)
        heads[n] = (at, at + every_ms if n < count - 1 else None)
        parent = n
    return SnapshotHistory(count - 1, snapshots, heads)


@pytest.mark.unit
def test_a_table_has_delete_files_by_its_own_format_version() -> None:
    assert replace(IDLE, marked=1, format_version=2).has_delete_files
    assert not replace(IDLE, marked=0, format_version=2).has_delete_files
    assert not replace(IDLE, marked=1).has_delete_files


@pytest.mark.unit
@pytest.mark.parametrize(
    ("figures", "tier"),
    [
        (IDLE, None),
        (replace(IDLE, tiny=9, small=29, marked=19), None),
        (replace(IDLE, tiny=10), Tier.TINY),
        (replace(IDLE, tiny=10, small=30), Tier.SMALL),
        (replace(IDLE, marked=20), Tier.MARKED),
        (replace(IDLE, rows=0), None),
    ],
)
def test_which_files_are_written_anew(figures: Figures, tier: Tier | None) -> None:
    assert tier_of(figures, LIMITS) is tier
    assert (Task.COMPACT in tasks(figures, LIMITS, NOW)) == (tier is not None)


def of_size(count: int, mib: int, *, others: int = 0) -> Figures:
    """Files of a size, all of them below the target if that is, and others of 400 MiB."""
    small, large = (count, others) if mib * MIB < SHARE_OF_TARGET * TARGET else (0, count)
    size = small * mib * MIB
    all_ = size + (count - small) * mib * MIB + others * 400 * MIB
    return replace(
        IDLE, files=small + large, file_bytes=all_, small=small, undersized=small,
        undersized_bytes=size, rows=100, marked=25 if large else 0,
    )  # fmt: skip


@pytest.mark.unit
@pytest.mark.parametrize("mib", [10, 50, 400])
def test_a_commit_rewrites_few_bytes_whatever_the_size_of_files(mib: int) -> None:
    figures = of_size(2_000, mib)
    tier = tier_of(figures, LIMITS)
    assert tier is (Tier.MARKED if mib == 400 else Tier.SMALL)
    assert tier is not None
    at_once = files_at_once(figures, tier, with_marked=figures.is_marked(LIMITS))
    assert 1 <= at_once * mib <= 2 * 256


@pytest.mark.unit
def test_large_files_do_not_decide_how_many_small_ones_are_taken() -> None:
    figures = replace(of_size(60, 10, others=1_000), marked=0)
    assert files_at_once(figures, Tier.SMALL, with_marked=False) == 25
    assert files_at_once(figures, Tier.SMALL, with_marked=True) == 4


@pytest.mark.unit
@pytest.mark.parametrize("tier", [Tier.TINY, Tier.SMALL])
def test_all_files_of_a_small_table_are_put_together_at_once(tier: Tier) -> None:
    figures = replace(IDLE, files=500, undersized=500, file_bytes=500_000, undersized_bytes=500_000)
    assert files_at_once(figures, tier, with_marked=False) >= 500


@pytest.mark.unit
@pytest.mark.parametrize("mib", [1, 7, 300])
def test_of_tiny_files_a_commit_takes_no_more_than_it_may_of_the_largest(mib: int) -> None:
    at_once = files_at_once(of_size(40_000, mib), Tier.TINY, with_marked=False)
    assert at_once * min(mib, TINY // MIB) <= 256
    assert at_once >= 32


def files_made_of(mib: float) -> int:
    """Iceberg's `SizeBasedFileRewritePlanner.expectedOutputFiles`, in units of 1 MiB."""
    whole, rest = divmod(mib, 512)
    if mib < 512 or rest > SHARE_OF_TARGET * 512:
        return int(whole) + 1
    return int(whole) if mib / whole < 1.1 * 512 else int(whole) + 1


@pytest.mark.unit
@pytest.mark.parametrize("mib", [50, 85, 150, 257, 300, 380, 383])
def test_a_commit_leaves_fewer_files_than_it_takes(mib: int) -> None:
    at_once = files_at_once(of_size(40, mib), Tier.SMALL, with_marked=False)
    assert files_made_of(at_once * mib) < at_once


@pytest.mark.unit
def test_branches_and_manifests_are_told_by_their_number() -> None:
    figures = replace(IDLE, dead_branches=("cdc_1",), manifests=101)
    assert tasks(figures, LIMITS, NOW) == (Task.DROP_BRANCHES, Task.MERGE_MANIFESTS)
    assert tasks(replace(IDLE, manifests=100), LIMITS, NOW) == ()


@pytest.mark.unit
def test_what_readers_may_be_at_stays() -> None:
    history = line(100, MINUTE)
    gone = expirable(history, LIMITS, NOW)
    assert gone == tuple(range(69))  # number 69 was the head until 30 minutes ago
    assert history.heads[69][1] == NOW - 29 * MINUTE


@pytest.mark.unit
def test_the_newest_publishes_stay_however_old_they_are() -> None:
    history = line(10, 100 * MINUTE, steps=1)
    gone = expirable(history, LIMITS, NOW)
    assert {7, 8, 9}.isdisjoint(gone)
    assert 6 in gone
    assert 1090 not in gone  # a step of the newest one: without it the line would break


@pytest.mark.unit
def test_a_few_snapshots_go_after_a_day() -> None:
    of_minutes = replace(IDLE, history=line(7, 60 * MINUTE))
    assert expirable(of_minutes.history, LIMITS, NOW)
    assert tasks(of_minutes, LIMITS, NOW) == ()
    assert tasks(of_minutes, LIMITS, NOW + 24 * 60 * MINUTE) == (Task.EXPIRE,)
    assert tasks(replace(IDLE, history=line(12, 60 * MINUTE)), LIMITS, NOW) == (Task.EXPIRE,)


@pytest.mark.unit
def test_what_somebody_names_stays() -> None:
    history = line(100, MINUTE)
    tagged = replace(history, refs=(3,))
    assert set(expirable(history, LIMITS, NOW)) - set(expirable(tagged, LIMITS, NOW)) == {3}
    named = replace(history, named=(50,))
    assert expirable(named, LIMITS, NOW) == tuple(range(50))  # without a gap up to it


@pytest.mark.unit
def test_a_branch_stays_as_far_as_main_does_not_have_it() -> None:
    history = line(100, MINUTE)
    own = {500: PastSnapshot(2, 1, is_publish=False), 501: PastSnapshot(500, 2)}
    branched = replace(history, snapshots={**history.snapshots, **own}, refs=(501,))
    gone = expirable(branched, LIMITS, NOW)
    assert {2, 500, 501}.isdisjoint(gone)
    assert {1, 3} <= set(gone)
    without = replace(branched, refs=())
    assert {500, 501} <= set(expirable(without, LIMITS, NOW))


@pytest.mark.unit
def test_what_was_just_written_beside_main_stays() -> None:
    history = line(5, MINUTE)
    fresh = {900: PastSnapshot(4, NOW - MINUTE)}
    assert 900 not in expirable(
        replace(history, snapshots={**history.snapshots, **fresh}), LIMITS, NOW
    )


@pytest.mark.unit
def test_after_a_rollback_readers_of_what_was_the_head_may_go_on() -> None:
    history = line(100, MINUTE)
    back = replace(history, head=10, heads={**history.heads, 10: (NOW, None), 99: (NOW - 90, NOW)})
    gone = set(expirable(back, LIMITS, NOW))
    assert 99 not in gone
    assert 10 not in gone
    later = set(expirable(back, LIMITS, NOW + 31 * MINUTE))
    assert 99 in later
    assert set(range(8, 11)).isdisjoint(later)


@pytest.mark.property
@given(
    st.integers(1, 60), st.integers(1, 400), st.integers(0, 2), st.integers(1, 10),
    st.integers(1, 60), st.data(),
)  # fmt: skip
def test_what_is_left_is_one_line_with_the_offsets(
    count: int, seconds: int, steps: int, publishes: int, keep: int, data: st.DataObject
) -> None:
    history = line(count, seconds * 1000, steps=steps)
    ids = sorted(history.snapshots)
    named = data.draw(st.sets(st.sampled_from(ids), max_size=2))
    history = replace(history, named=tuple(named))
    limits = replace(LIMITS, keep=timedelta(minutes=keep), keep_publishes=publishes)
    gone = set(expirable(history, limits, NOW))
    left = set(ids) - gone
    since = NOW - keep * MINUTE
    assert named <= left
    assert {n for n in range(count) if (history.heads[n][1] or NOW) > since} <= left
    assert len([n for n in left if history.snapshots[n].is_publish]) >= min(count, publishes)
    at, walked = history.head, set()
    while at is not None and at in left:
        walked.add(at)
        at = history.snapshots[at].parent
    assert walked == left


@pytest.mark.unit
def test_files_are_counted_in_the_partition_that_has_most() -> None:
    files = [("a", 1), ("a", 5), ("b", 1), ("a", 10), ("b", 2), ("b", 3)]
    assert most_in_a_partition(files, 0, 10) == 3
    assert most_in_a_partition(files, 5, 10) == 1
    assert most_in_a_partition([], 0, 10) == 0
