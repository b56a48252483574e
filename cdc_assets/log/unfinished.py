"""Finds the oldest transaction at the log's end that is still incomplete.

A partition's records are in the order in which they were sent, so a transaction is whole in every
partition that already holds a newer one. Another partition may still lack its last changes: brokers
do not answer in step, and the ends of partitions are not read at the same instant. Such a
transaction is in doubt, and is proven whole by its ``END`` record and by counting: all places 1 to
``event_count`` are below the log's end.

A partition can lack only the end of the transaction's changes there. It is therefore enough to read
back, in each partition, to a place that every other one has reached too: a transaction of millions
of changes is proven by its last few.

Not proven, but taken as whole: a transaction whose last change was sent two seconds before the
newest record, one that has 32 or more rows of a snapshot behind it in each partition that it is in,
and one that is not decided after reading back 20,000 records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final, Protocol

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.log.marks import LogRecord, Transaction

Counts = Callable[[Mapping[Transaction, datetime]], Mapping[str, int | None]]
"""A function of transactions, each with the time of a late change. Returns, for the ids of those
that have ended, the number of changes of the table, or None where it is unknown."""

SETTLED: Final = timedelta(seconds=2)
MAX_READ: Final = 20_000
FIRST_DEPTH: Final = 32
_DEEPER: Final = 8


class TopicRecords(Protocol):
    """The records of one topic with a value, below the log's ends."""

    @property
    def ends(self) -> Mapping[int, int]:
        """The log's end per partition."""
        ...

    def at(self, partition: int, offset: int) -> LogRecord | None:
        """Returns the first record at or after an offset."""
        ...

    def between(self, partition: int, start: int, end: int) -> tuple[LogRecord, ...]:
        """Returns the records in ``[start, end)``; ``start`` may be negative."""
        ...

    def load(self, spans: Mapping[int, tuple[int, int]]) -> None:
        """Announces spans that will be asked for, so that they are read at once."""
        ...


@dataclass(frozen=True, slots=True)
class PartitionTail:
    """The last records of a partition; ``whole`` if there are none before them."""

    records: tuple[LogRecord, ...]
    whole: bool

    @property
    def changes(self) -> list[LogRecord]:
        """The changes of transactions."""
        return [record for record in self.records if record.place is not None]


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A transaction that is incomplete below the log's ends.

    Attributes:
        transaction: the transaction.
        last_sent: the time at which the newest of its examined changes was sent.
        has_ended: whether its ``END`` record is there, so that only changes are missing.
    """

    transaction: Transaction
    last_sent: datetime
    has_ended: bool


class TransactionVerdict(Enum):
    """The verdict of the tails on a transaction that has ended."""

    WHOLE = auto()
    OPEN = auto()
    UNKNOWN = auto()


def oldest_unfinished(
    records: TopicRecords,
    unread: Mapping[int, OffsetRange],
    counts: Counts,
    accepted: Collection[str] = (),
) -> Unfinished | None:
    """Finds the first transaction in order of commit that is incomplete below the log's ends.

    Args:
        records: of the topic.
        unread: per partition, up to its last record: the log's end may be far behind it.
        counts: returns which transactions have ended.
        accepted: ids of transactions that count as whole although parts are missing.
    """
    ended: dict[str, int | None] = {}
    asked: set[str] = set()
    deepest = max(FIRST_DEPTH, MAX_READ // max(1, len(unread)))
    depth = FIRST_DEPTH
    while True:
        tails = read_tails(records, unread, depth)
        doubtful = doubtful_transactions(tails)
        new = {t: at for t, at in doubtful.items() if t.id not in asked}
        ended |= counts(new) if new else {}
        asked |= {t.id for t in new}
        verdicts = {t: _verdict(t, tails, ended) for t in doubtful}
        is_known = TransactionVerdict.UNKNOWN not in verdicts.values() and not _reaches_further(
            tails
        )
        if is_known or depth >= deepest:
            found = oldest(
                t for t, verdict in verdicts.items()
                if verdict is TransactionVerdict.OPEN and t.id not in accepted
            )  # fmt: skip
            return Unfinished(found, doubtful[found], found.id in ended) if found else None
        depth = min(depth * _DEEPER, deepest)


def read_tails(
    records: TopicRecords, unread: Mapping[int, OffsetRange], depth: int
) -> dict[int, PartitionTail]:
    """Returns the records at the last ``depth`` offsets of each partition's range.

    Offsets without a record do not count as long as there is neither a change nor ``depth``
    records, but what is before a range is not looked for.
    """
    records.load({p: (max(0, each.end - depth), each.end) for p, each in unread.items()})
    return {partition: _tail(records, each, depth) for partition, each in unread.items()}


def _tail(records: TopicRecords, each: OffsetRange, depth: int) -> PartitionTail:
    looked = depth
    while True:
        start = max(0, each.end - looked)
        tail = PartitionTail(records.between(each.partition, start, each.end), start == 0)
        if start <= each.start or tail.changes or len(tail.records) >= depth:
            return tail
        looked = min(looked * 2, each.length)


def doubtful_transactions(tails: Mapping[int, PartitionTail]) -> dict[Transaction, datetime]:
    """Returns transactions that a partition may hold incompletely, with a late change's time."""
    changes = _changes(tails)
    if not changes:
        return {}
    newest = max(changes, key=lambda record: record.transaction.order).transaction
    late = _late(changes)
    times: dict[str, datetime] = {}
    named: dict[str, Transaction] = {}
    for record in changes:
        id_ = named.setdefault(record.transaction.id, record.transaction).id
        times[id_] = max(record.timestamp, times.get(id_, record.timestamp))
    return {
        t: times[id_]
        for id_, t in named.items()
        if id_ == newest.id or (times[id_] >= late and not _passed_everywhere(t, tails))
    }


def verdict(
    transaction: Transaction, tails: Mapping[int, PartitionTail], count: int | None
) -> TransactionVerdict:
    """Determines whether all changes of a transaction that has ended are in the log.

    Args:
        transaction: the transaction.
        tails: of all partitions.
        count: its changes of the table. If unknown, or less than there are (its counters restarted
            with the connector), nothing can be counted, and the end is trusted.
    """
    places = {p: _places(tail, transaction) for p, tail in tails.items()}
    seen = {place for found in places.values() for place in found}
    if count is None or count < max(seen, default=0):
        return TransactionVerdict.WHOLE
    begins = [_begins(tail, transaction) for tail in tails.values()]
    if None in begins:
        return TransactionVerdict.UNKNOWN
    reach = max((begin for begin in begins if begin is not None), default=0)
    if not seen.issuperset(range(reach + 1, count + 1)):
        return TransactionVerdict.OPEN
    reached = all(
        _is_passed(transaction, tails[p]) or (found and found[-1] >= reach)
        for p, found in places.items()
    )
    return TransactionVerdict.WHOLE if reach == 0 or reached else TransactionVerdict.UNKNOWN


def oldest(transactions: Iterable[Transaction]) -> Transaction | None:
    """Returns the first in order of commit."""
    return min(transactions, key=lambda transaction: transaction.order, default=None)


def _verdict(
    transaction: Transaction, tails: Mapping[int, PartitionTail], ended: Mapping[str, int | None]
) -> TransactionVerdict:
    if transaction.id not in ended:
        return TransactionVerdict.OPEN
    return verdict(transaction, tails, ended[transaction.id])


def _places(tail: PartitionTail, transaction: Transaction) -> list[int]:
    found = (r.place for r in tail.changes if r.transaction.id == transaction.id)
    return [place for place in found if place is not None]


def _begins(tail: PartitionTail, transaction: Transaction) -> int | None:
    """Returns the place below which the tail may lack changes; 0 if it has all, None if unknown.

    Everything before an older record is older too. That holds for rows as well, as they were read
    after all commits before them.
    """
    if tail.whole:
        return 0
    first = tail.records[0] if tail.records else None
    if first is not None and first.transaction.precedes(transaction):
        return 0
    return first.place if first and first.transaction.id == transaction.id else None


def _is_passed(transaction: Transaction, tail: PartitionTail) -> bool:
    return bool(tail.changes) and transaction.precedes(tail.changes[-1].transaction)


def _passed_everywhere(transaction: Transaction, tails: Mapping[int, PartitionTail]) -> bool:
    return all(_is_passed(transaction, tail) for tail in tails.values())


def _reaches_further(tails: Mapping[int, PartitionTail]) -> bool:
    """Returns whether transactions in doubt may begin before the tails."""
    doubtful = {transaction.id for transaction in doubtful_transactions(tails)}
    firsts = [tail.changes[0] for tail in tails.values() if tail.changes and not tail.whole]
    return any(
        first.transaction.id in doubtful
        and first.timestamp >= _late(_changes(tails))
        and any(_is_before(first.transaction, tail) for tail in tails.values())
        for first in firsts
    )


def _changes(tails: Mapping[int, PartitionTail]) -> list[LogRecord]:
    return [record for tail in tails.values() for record in tail.changes]


def _late(changes: Iterable[LogRecord]) -> datetime:
    return max(record.timestamp for record in changes) - SETTLED


def _is_before(transaction: Transaction, tail: PartitionTail) -> bool:
    """Returns whether a partition may still lack older transactions than this one."""
    last = tail.changes[-1].transaction if tail.changes else None
    return last is None or last.precedes(transaction)
