"""Detects a batch that ends inside a redelivery.

After a crash inside a transaction, a connector sends everything since some earlier commit again,
however much that is, and the rest of the transaction last. Until then the transaction's first part
is the newest change in the log, far from the log's end, so that looking at the ends does not find
it (`cdc_assets.log.boundaries`). Reading the whole batch does: it gives the offset of its newest
change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum, auto

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.log.boundaries import next_change, unread_records
from cdc_assets.log.marks import LogRecord
from cdc_assets.log.unfinished import FIRST_DEPTH, Counts, TopicRecords, Unfinished, read_tails


class TransactionState(Enum):
    """The state of a batch's newest transaction."""

    WHOLE = auto()
    CUT = auto()
    """It has ended, but part of it may be behind the batch: a longer batch contains all of it."""
    UNFINISHED = auto()
    """The connector has not sent its end."""


def newest_of(
    records: TopicRecords,
    ranges: Sequence[OffsetRange],
    newest: Mapping[int, int],
    counts: Counts,
) -> tuple[TransactionState, Unfinished | None]:
    """Determines whether ranges hold all of a transaction that is followed by older ones.

    Args:
        records: of the topic.
        ranges: of the batch.
        newest: per partition, the offset of the change with the highest position in its range;
            partitions without changes are absent.
        counts: returns which transactions have ended.

    Returns:
        Also the transaction, None if nothing is sent again. Its ``last_sent`` is the time of the
        newest record of the topic: since then the connector has stood still.
    """
    last = {p: record for p, offset in newest.items() if (record := records.at(p, offset))}
    ends = {each.partition: each.end for each in ranges}
    behind = [
        record
        for partition, record in last.items()
        if _is_followed_by_older(records, partition, record, ends[partition])
    ]
    if not behind:
        return TransactionState.WHOLE, None
    first = max(behind, key=lambda record: record.transaction.order)
    transaction = first.transaction
    ended = counts({transaction: first.timestamp})
    unfinished = Unfinished(
        transaction, _last_sent(records, ranges, first), transaction.id in ended
    )
    if not unfinished.has_ended:
        return TransactionState.UNFINISHED, unfinished
    mine = {p: record for p, record in last.items() if record.transaction.id == transaction.id}
    has_last = _has_last(mine.values(), ended[transaction.id])
    following = (
        next_change(records, each.partition, each.end)
        for each in ranges
        if each.partition not in mine
    )
    others = all(each is None or transaction.precedes(each.transaction) for each in following)
    return (TransactionState.WHOLE if has_last and others else TransactionState.CUT), unfinished


def _last_sent(records: TopicRecords, ranges: Sequence[OffsetRange], known: LogRecord) -> datetime:
    tails = read_tails(records, unread_records(records, ranges), FIRST_DEPTH).values()
    return max([known.timestamp, *(each.timestamp for tail in tails for each in tail.records)])


def _is_followed_by_older(
    records: TopicRecords, partition: int, record: LogRecord, end: int
) -> bool:
    if record.place is None:
        return False
    after = next_change(records, partition, record.offset + 1)
    return (
        after is not None and after.offset < end and after.transaction.precedes(record.transaction)
    )


def _has_last(mine: Iterable[LogRecord], count: int | None) -> bool:
    """Returns whether the last change is there.

    Places above the count show that the counters restarted: nothing can be counted then, and the
    result is true.
    """
    highest = max((record.place or 0 for record in mine), default=0)
    return count is None or highest >= count
