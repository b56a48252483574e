"""Decides where a batch may end: between transactions, the same two in every partition.

It does no I/O itself; it reads the log through `TopicRecords`. A cut at a transaction leaves out
all its changes and all those of later ones. Rows outside of transactions may be cut anywhere, and a
tombstone stays with the delete before it.

Changes are in a partition in order of commit, so cuts are found by binary search. A connector's
redelivery after a restart disturbs that order, so the records shortly before a cut are checked
again. A longer disturbance may not be noticed here: see `cdc_assets.log.resent`.

Many offsets in a row may be without a record: those of Kafka transactions that were aborted. So
the last record before an end is looked for however far back it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.log.marks import LogRecord, Transaction
from cdc_assets.log.unfinished import (
    FIRST_DEPTH,
    Counts,
    TopicRecords,
    Unfinished,
    oldest,
    oldest_unfinished,
    read_tails,
)

Excludes = Callable[[Transaction], bool]
"""Whether a transaction stays outside of the batch; all later ones then stay outside, too."""

Holds = Callable[[LogRecord], bool]

VERIFIED: Final = 1000
_STEP: Final = 16
_RUNS: Final = 1000
"""So many runs of rows are looked at for a transaction between the ends of partitions."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """Ranges that hold whole transactions only.

    Attributes:
        ranges: () if the first unread transaction is unfinished.
        unfinished: the oldest transaction left out because it is unfinished; None if there is none.
        by_transactions: whether transactions that the ranges name have decided on the ends, and
            nobody else: not if parts of one were accepted.
    """

    ranges: tuple[OffsetRange, ...]
    unfinished: Unfinished | None = None
    by_transactions: bool = False


def align(
    records: TopicRecords,
    ranges: tuple[OffsetRange, ...],
    counts: Counts,
    *,
    forward: bool,
    accepted: Collection[str] = (),
) -> Aligned:
    """Finds ranges with the same starts, inside the log, that hold whole transactions only.

    They are unchanged if no record at the ends names a transaction, or one names a transaction
    whose order is unknown.

    Args:
        records: of the topic.
        ranges: candidates, for every partition with unread records.
        counts: returns which transactions have ended.
        forward: whether to move ends forward to the end of the newest transaction in them; else
            back to the newest that they hold completely. Either way an unfinished one is left out,
            and if nothing else remains, the first transaction is taken to its end. With
            ``forward`` that happens where older ones, which were sent again, follow it.
        accepted: ids of transactions that count as finished.
    """
    unread = unread_records(records, ranges)
    near = _near_ends(records, ranges, unread) or _between_ends(records, ranges)
    if not near or not all(record.transaction.order for record in near):
        return Aligned(_filled(ranges))
    found = oldest_unfinished(records, unread, counts, accepted)
    moved = _whole(records, ranges, found.transaction if found else None, forward)
    is_named = any(last_change(records, each) is not None for each in moved)
    return Aligned(moved, found, by_transactions=is_named and not accepted)


def _whole(
    records: TopicRecords,
    ranges: tuple[OffsetRange, ...],
    unfinished: Transaction | None,
    forward: bool,
) -> tuple[OffsetRange, ...]:
    chosen = _through_newest if forward else _before_next
    excludes = chosen(records, ranges, unfinished)
    if excludes is None:
        return _filled(tuple(_past_tombstones(records, each) for each in ranges))
    records.load({r.partition: (max(r.start, r.end - VERIFIED), r.end) for r in ranges})
    moved = _filled(tuple(_moved(records, each, excludes) for each in ranges))
    is_candidate = any(each.length for each in ranges)
    if not is_candidate or any(_is_filled(records, each) for each in moved):
        return moved
    return _first_transaction(records, ranges, unfinished) or moved


def unread_records(records: TopicRecords, ranges: Sequence[OffsetRange]) -> dict[int, OffsetRange]:
    """Returns the unread offsets of each partition of a topic, up to its last record.

    Args:
        records: of the topic.
        ranges: of every partition with unread records; only their starts count.
    """
    ends = records.ends
    records.load({p: (max(0, end - FIRST_DEPTH), end) for p, end in ends.items()})
    unread = [OffsetRange(r.partition, r.start, ends[r.partition]) for r in ranges]
    return {p: OffsetRange(p, end, end) for p, end in ends.items()} | {
        each.partition: OffsetRange(each.partition, each.start, _end_of_records(records, each))
        for each in unread
    }


def _end_of_records(records: TopicRecords, each: OffsetRange) -> int:
    """Returns the offset after the last record in a range; the start of an empty range."""
    end, depth = each.end, FIRST_DEPTH
    while end > each.start:
        start = max(each.start, end - depth)
        found = records.between(each.partition, start, end)
        if found:
            return found[-1].offset + 1
        end, depth = start, depth * 2
    return end


def next_change(records: TopicRecords, partition: int, offset: int) -> LogRecord | None:
    """Returns the first change of a transaction at or after an offset."""
    record = records.at(partition, offset)
    while record is not None and record.place is None:
        record = records.at(partition, _end_of_run(records, partition, record))
    return record


def last_change(records: TopicRecords, each: OffsetRange) -> LogRecord | None:
    """Returns the last change of a transaction in a range."""
    end, depth = each.end, FIRST_DEPTH
    while end > each.start:
        start = max(each.start, end - depth)
        found = records.between(each.partition, start, end)
        changes = [record for record in found if record.place is not None]
        if changes:
            return changes[-1]
        end, depth = start, depth * 2
        if found:
            end = _start_of_run(records, each.partition, each.start, found[0])
    return None


def _near_ends(
    records: TopicRecords, ranges: tuple[OffsetRange, ...], unread: Mapping[int, OffsetRange]
) -> list[LogRecord]:
    """Returns the changes of transactions at the log's ends and around those of the ranges."""
    records.load({r.partition: (max(0, r.end - FIRST_DEPTH), r.end + FIRST_DEPTH) for r in ranges})
    tails = [
        *read_tails(records, unread, FIRST_DEPTH).values(),
        *read_tails(records, {each.partition: each for each in ranges}, FIRST_DEPTH).values(),
    ]
    found = [record for tail in tails for record in tail.changes]
    for each in ranges:
        following = records.at(each.partition, each.end)
        start = each.end if following is None else following.offset
        found += _changes(records, each.partition, start, start + FIRST_DEPTH)
    return found


def _between_ends(records: TopicRecords, ranges: tuple[OffsetRange, ...]) -> list[LogRecord]:
    """Returns a change before the end of one range that was sent after the end of another.

    Rows alone near all ends do not show that there is none: partitions are not cut at one moment.
    Rows that were read together have no transaction among them.
    """
    behind = _present(records.at(each.partition, each.end) for each in ranges)
    before = _present(_last(records, each) for each in ranges)
    if not behind or len({record.transaction.id for record in (*before, *behind)}) == 1:
        return []
    first = min(record.timestamp for record in behind)
    return _present(_sent_since(records, each, first) for each in ranges)


def _last(records: TopicRecords, each: OffsetRange) -> LogRecord | None:
    end = _end_of_records(records, each)
    return records.at(each.partition, end - 1) if end > each.start else None


def _present(records: Iterable[LogRecord | None]) -> list[LogRecord]:
    return [record for record in records if record is not None]


def _sent_since(records: TopicRecords, each: OffsetRange, time: datetime) -> LogRecord | None:
    """Returns a change in a range from a time on; looks at the first runs of rows only."""
    start = _search_down(
        records, each.partition, each.start, each.end, lambda r: r.timestamp >= time
    )
    for _ in range(_RUNS):
        record = records.at(each.partition, start)
        if record is None or record.offset >= each.end:
            return None
        if record.place is not None:
            return record
        start = _end_of_run(records, each.partition, record)
    return None


def _changes(records: TopicRecords, partition: int, start: int, end: int) -> list[LogRecord]:
    return [r for r in records.between(partition, start, end) if r.place is not None]


def _before_next(
    records: TopicRecords, ranges: tuple[OffsetRange, ...], unfinished: Transaction | None
) -> Excludes | None:
    """Excludes transactions that are not wholly below the end of each range."""
    following = [next_change(records, each.partition, each.end) for each in ranges]
    limits = [record.transaction for record in following if record is not None]
    limit = oldest([*limits, *([unfinished] if unfinished else [])])
    return None if limit is None else _from(limit)


def _through_newest(
    records: TopicRecords, ranges: tuple[OffsetRange, ...], unfinished: Transaction | None
) -> Excludes | None:
    """Includes the whole newest transaction that has a change in a range."""
    found = [last_change(records, each) for each in ranges]
    last = [record.transaction for record in found if record is not None]
    newest = max(last, key=lambda transaction: transaction.order, default=None)
    if unfinished is not None and (newest is None or not newest.precedes(unfinished)):
        return _from(unfinished)
    return None if newest is None else newest.precedes


def _first_transaction(
    records: TopicRecords, ranges: tuple[OffsetRange, ...], unfinished: Transaction | None
) -> tuple[OffsetRange, ...]:
    """Returns the first unread transaction alone, however large; () if it is unfinished."""
    found = [next_change(records, each.partition, each.start) for each in ranges]
    first = oldest(record.transaction for record in found if record is not None)
    if first is None or (unfinished is not None and not first.precedes(unfinished)):
        return ()
    starts = (OffsetRange(each.partition, each.start, each.start) for each in ranges)
    return _filled(tuple(_moved(records, each, first.precedes) for each in starts))


def _from(limit: Transaction) -> Excludes:
    return lambda transaction: not transaction.precedes(limit)


def _moved(records: TopicRecords, each: OffsetRange, excludes: Excludes) -> OffsetRange:
    """Returns the range with the permitted end nearest to the range's own end."""
    end = _cut(records, each, excludes)
    following = next_change(records, each.partition, each.end)
    if end == each.end and following is not None and not excludes(following.transaction):
        end = _extended(records, each.partition, following.offset + 1, excludes)
    return _past_tombstones(records, OffsetRange(each.partition, each.start, end))


def _past_tombstones(records: TopicRecords, each: OffsetRange) -> OffsetRange:
    """Extends a range over following tombstones: the first may belong to a delete in the range."""
    after = records.at(each.partition, each.end)
    end = records.ends[each.partition] if after is None else after.offset
    return OffsetRange(each.partition, each.start, end)


def _cut(records: TopicRecords, each: OffsetRange, excludes: Excludes) -> int:
    """Returns the offset of the first change in a range that is left out; else the range's end."""
    start, end, partition = each.start, each.end, each.partition

    def holds(record: LogRecord) -> bool:
        return excludes(record.transaction)

    while start < end:
        found = records.at(partition, _search_down(records, partition, start, end, holds))
        if found is None or found.offset >= end:
            break
        if found.place is not None:
            end = found.offset
        else:
            start = _end_of_run(records, partition, found)
    return _verified(records, partition, each.start, end, excludes)


def _extended(records: TopicRecords, partition: int, start: int, excludes: Excludes) -> int:
    """Returns the offset after the last included change; the one before ``start`` is included."""
    low = start
    while True:
        end = _search_up(records, partition, low, lambda record: excludes(record.transaction))
        following = next_change(records, partition, end)
        if following is None or excludes(following.transaction):
            return _verified(records, partition, start, end, excludes)
        low = following.offset + 1


def _verified(
    records: TopicRecords, partition: int, start: int, end: int, excludes: Excludes
) -> int:
    """Returns the end, or an earlier change's offset if that change must be left out."""
    while True:
        near = records.between(partition, max(start, end - VERIFIED), end)
        early = (r for r in near if r.place is not None and excludes(r.transaction))
        found = next(early, None)
        if found is None:
            return end
        end = found.offset


def _end_of_run(records: TopicRecords, partition: int, row: LogRecord) -> int:
    """Returns the offset after the last row of a snapshot row's run."""
    start, run = row.offset + 1, row.transaction.id
    end = _search_up(records, partition, start, lambda r: r.transaction.id != run)
    return _verified(records, partition, start, end, lambda transaction: transaction.id != run)


def _start_of_run(records: TopicRecords, partition: int, start: int, row: LogRecord) -> int:
    """Returns the offset after the last record of another run before a snapshot row.

    Rows that were read before a transaction and during it belong to one run, with the transaction's
    changes between them.
    """
    run = row.transaction.id
    low = _search_down(records, partition, start, row.offset, lambda r: r.transaction.id == run)
    near = records.between(partition, max(low, row.offset - VERIFIED), row.offset)
    others = [record.offset for record in near if record.transaction.id != run]
    return others[-1] + 1 if others else low


def _search_up(records: TopicRecords, partition: int, low: int, holds: Holds) -> int:
    """Returns the offset after the last record that does not hold, near ``low``."""
    high = records.ends[partition]
    probe, step = low, _STEP
    while probe < high:
        found = records.at(partition, probe)
        if found is None or holds(found):
            break
        low = found.offset + 1
        probe, step = low + step, step * 2
    return _halve(records, partition, low, min(max(probe, low), high), holds)


def _search_down(records: TopicRecords, partition: int, low: int, high: int, holds: Holds) -> int:
    """Returns the offset after the last record of ``[low, high)`` that does not hold.

    The search starts near ``high``.
    """
    top, step = high, _STEP
    while top > low:
        probe = max(low, top - step)
        found = records.at(partition, probe)
        if found is not None and found.offset < top and not holds(found):
            return _halve(records, partition, found.offset + 1, top, holds)
        top, step = probe, step * 2
    return low


def _halve(records: TopicRecords, partition: int, low: int, high: int, holds: Holds) -> int:
    """Bisects: every record from ``high`` on holds, none before ``low`` does."""
    while low < high:
        middle = (low + high) // 2
        found = records.at(partition, middle)
        if found is None or found.offset >= high or holds(found):
            high = middle
        else:
            low = found.offset + 1
    return low


def _is_filled(records: TopicRecords, each: OffsetRange) -> bool:
    found = records.at(each.partition, each.start)
    return found is not None and found.offset < each.end


def _filled(ranges: tuple[OffsetRange, ...]) -> tuple[OffsetRange, ...]:
    return tuple(each for each in ranges if each.length)
