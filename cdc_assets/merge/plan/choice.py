"""Chooses how to apply a batch: by looking rows up only where it may hold anything old."""

from __future__ import annotations

from collections.abc import Mapping

from cdc_assets.changes.position import without_offset
from cdc_assets.merge.plan.plan import Apply, BatchPlan


def choose(plan: BatchPlan, lowest: Mapping[int, str], *, all_read: bool = False) -> Apply:
    """Chooses how to apply a batch, by the lowest position of its folded changes per partition.

    A batch needs no look-up if everything it holds is newer than whatever was applied. Where
    each key stays in its partition, that is known per partition. Otherwise only the highest
    position of all shows it.

    Rows of one snapshot differ by the offset alone, which orders nothing between partitions. So
    while a snapshot is merged, no row needs to be looked up, whichever partitions keys are in.

    Args:
        plan: of the batch.
        lowest: per partition the lowest position among the folded changes, hexadecimal.
        all_read: whether all of them are rows of snapshots.
    """
    published = plan.published
    if published is None or (plan.is_empty and not published.carried.max_tombstone):
        return Apply.APPEND
    applied = plan.applied_before(lowest)
    newer = all(position > applied[p] for p, position in lowest.items())
    if not newer and all_read and not plan.keys_stay and plan.keys_remain:
        own = published.carried.applied
        newer = all(
            position > own.get(p, "") and without_offset(position) >= without_offset(applied[p])
            for p, position in lowest.items()
        )
    return Apply.REPLACE if newer else Apply.GUARDED
