"""Keeps where each complete snapshot began, for changes that follow no commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

LowWatermarks = Mapping[int, Sequence[tuple[int, int]]]
"""By partition, the offset of the first row of each complete snapshot and its LSN, ascending.

The LSN is as in positions: with its epoch.

Every partition that the topic had when the table was made is present, also those without rows.
"""


def low_watermark_at(low_watermarks: LowWatermarks, partition: int, offset: int) -> int:
    """Returns the low watermark of a change; 0 if no snapshot began before it.

    A missing partition was added later: its rows' snapshot may be in another partition, so the
    log's first one counts.
    """
    if partition not in low_watermarks:
        return min((lsn for begins in low_watermarks.values() for _, lsn in begins), default=0)
    return max((lsn for begin, lsn in low_watermarks[partition] if begin < offset), default=0)


def with_snapshot(
    low_watermarks: LowWatermarks, begins: Mapping[tuple[int, int], int]
) -> LowWatermarks:
    """Adds snapshots, given by ``(partition, LSN)`` and the offset of the first row."""
    found = {partition: dict[int, int]() for partition, _ in begins}
    for partition, known in low_watermarks.items():
        found.setdefault(partition, {}).update({lsn: offset for offset, lsn in known})
    for (partition, lsn), offset in begins.items():
        found[partition][lsn] = min(offset, found[partition].get(lsn, offset))
    return {
        partition: tuple(sorted((offset, lsn) for lsn, offset in each.items()))
        for partition, each in sorted(found.items())
    }


def with_snapshots(
    low_watermarks: LowWatermarks,
    starts: Mapping[int, int],
    newest_read: int | None,
    begins: Callable[[], Mapping[tuple[int, int], int]],
) -> LowWatermarks:
    """Adds the complete snapshots that a batch has rows of, in the partitions that have the rows.

    A snapshot reaches one partition earlier than another. So where it begins is asked for until
    it, or a later one, has begun before the batch in every partition that the batch reads.

    Args:
        low_watermarks: known ones.
        starts: first offset of the batch by partition, of those that it reads.
        newest_read: highest LSN of its rows of complete snapshots; None without any.
        begins: returns the offset of their first row in the batch, by ``(partition, LSN)``; costs
            a reading of the batch.
    """
    if newest_read is None:
        return low_watermarks
    if all(_begun_before(low_watermarks, *start) >= newest_read for start in starts.items()):
        return low_watermarks
    return with_snapshot(low_watermarks, begins())


def _begun_before(low_watermarks: LowWatermarks, partition: int, offset: int) -> int:
    begun = low_watermarks.get(partition, ())
    return max((lsn for begin, lsn in begun if begin < offset), default=-1)
