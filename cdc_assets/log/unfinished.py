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

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from functools import cached_property
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


@dataclass(frozen=True)
class PartitionTail:
    """The last records of a partition; ``whole`` if there are none before them."""

    records: tuple[LogRecord, ...]
    whole: bool

    @cached_property
    def changes(self) -> list[LogRecord]:
        """The changes of transactions."""
        return [record for record in self.records if record.place is not None]

    @property
    def last(self) -> Transaction | None:
        """The transaction of the last change."""
        return self.changes[-1].transaction if self.changes else None


@dataclass(frozen=True)
class Tails:
    """The tails of all partitions.

    There may be thousands of transactions in doubt. None of them is looked for in all records.

    Attributes:
        by_partition: the tails.
    """

    by_partition: Mapping[int, PartitionTail]

    @cached_property
    def changes(self) -> list[LogRecord]:
        """The changes of transactions, partition by partition."""
        return [record for tail in self.by_partition.values() for record in tail.changes]

    @cached_property
    def late(self) -> datetime:
        """The time from which on transactions may be in doubt."""
        return max(record.timestamp for record in self.changes) - SETTLED

    @cached_property
    def places(self) -> Mapping[str, Mapping[int, list[int]]]:
        """By the transaction's id, the places of its changes in each partition that has any."""
        found = defaultdict[str, dict[int, list[int]]](dict)
        for partition, tail in self.by_partition.items():
            for record in tail.changes:
                if record.place is not None:
                    found[record.transaction.id].setdefault(partition, []).append(record.place)
        return found

    def have_passed(self, transaction: Transaction) -> bool:
        """Returns whether every partition has a change of a later transaction."""
        ids, first = self._lasts
        return first is not None and transaction.id not in ids and transaction.order < first

    def reach(self, transaction: Transaction) -> int | None:
        """Returns the place below which tails may lack changes; 0 for none, None if unknown.

        Everything before an older record is older too. That holds for rows as well, as they were
        read after all commits before them.
        """
        others = (each for each in self._firsts if each.id != transaction.id)
        newest, own = next(others, None), self._begun.get(transaction.id, [])
        if self._has_empty or None in own or not (newest is None or newest.precedes(transaction)):
            return None
        return max((place for place in own if place is not None), default=0)

    @cached_property
    def _has_empty(self) -> bool:
        """Whether nothing is known of what a partition holds."""
        return any(not (tail.whole or tail.records) for tail in self.by_partition.values())

    @cached_property
    def _firsts(self) -> list[Transaction]:
        """The transactions with which tails begin that are not whole, newest first."""
        tails = (each for each in self.by_partition.values() if each.records and not each.whole)
        firsts = (each.records[0].transaction for each in tails)
        return sorted(firsts, key=lambda transaction: transaction.order, reverse=True)

    @cached_property
    def _begun(self) -> Mapping[str, list[int | None]]:
        """The places with which these tails begin, by the transaction's id."""
        found = defaultdict[str, list[int | None]](list)
        for tail in self.by_partition.values():
            if tail.records and not tail.whole:
                found[tail.records[0].transaction.id].append(tail.records[0].place)
        return found

    @cached_property
    def _lasts(self) -> tuple[frozenset[str], tuple[int, ...] | None]:
        """The ids of the partitions' last transactions, and the first of their orders."""
        lasts = [tail.last for tail in self.by_partition.values()]
        known = [last for last in lasts if last is not None]
        orders = [last.order for last in known] if len(known) == len(lasts) else []
        return frozenset(last.id for last in known), min(orders, default=None)


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
        tails = Tails(read_tails(records, unread, depth))
        doubtful = doubtful_transactions(tails)
        new = {t: at for t, at in doubtful.items() if t.id not in asked}
        ended |= counts(new) if new else {}
        asked |= {t.id for t in new}
        verdicts = {t: _verdict(t, tails, ended) for t in doubtful}
        is_known = TransactionVerdict.UNKNOWN not in verdicts.values() and not _reaches_further(
            tails, {t.id for t in doubtful}
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


def doubtful_transactions(tails: Tails) -> dict[Transaction, datetime]:
    """Returns transactions that a partition may hold incompletely, with a late change's time."""
    if not tails.changes:
        return {}
    newest = max(tails.changes, key=lambda record: record.transaction.order).transaction
    times: dict[str, datetime] = {}
    named: dict[str, Transaction] = {}
    for record in tails.changes:
        id_ = named.setdefault(record.transaction.id, record.transaction).id
        times[id_] = max(record.timestamp, times.get(id_, record.timestamp))
    return {
        t: times[id_]
        for id_, t in named.items()
        if id_ == newest.id or (times[id_] >= tails.late and not tails.have_passed(t))
    }


def verdict(transaction: Transaction, tails: Tails, count: int | None) -> TransactionVerdict:
    """Determines whether all changes of a transaction that has ended are in the log.

    Args:
        transaction: the transaction.
        tails: of all partitions.
        count: its changes of the table. If unknown, or less than there are (its counters restarted
            with the connector), nothing can be counted, and the end is trusted.
    """
    places = tails.places.get(transaction.id, {})
    seen = {place for found in places.values() for place in found}
    if count is None or count < max(seen, default=0):
        return TransactionVerdict.WHOLE
    reach = tails.reach(transaction)
    if reach is None:
        return TransactionVerdict.UNKNOWN
    if not seen.issuperset(range(reach + 1, count + 1)):
        return TransactionVerdict.OPEN
    reached = reach == 0 or all(
        _is_before(transaction, tail) or (p in places and places[p][-1] >= reach)
        for p, tail in tails.by_partition.items()
    )
    return TransactionVerdict.WHOLE if reached else TransactionVerdict.UNKNOWN


def oldest(transactions: Iterable[Transaction]) -> Transaction | None:
    """Returns the first in order of commit."""
    return min(transactions, key=lambda transaction: transaction.order, default=None)


def _verdict(
    transaction: Transaction, tails: Tails, ended: Mapping[str, int | None]
) -> TransactionVerdict:
    if transaction.id not in ended:
        return TransactionVerdict.OPEN
    return verdict(transaction, tails, ended[transaction.id])


def _is_before(transaction: Transaction, tail: PartitionTail) -> bool:
    """Returns whether a partition's last change is of a later transaction."""
    return tail.last is not None and transaction.precedes(tail.last)


def _reaches_further(tails: Tails, doubtful: Collection[str]) -> bool:
    """Returns whether transactions in doubt may begin before the tails.

    They do if one of them is the first of a tail, and another partition may still lack older ones.
    """
    lasts = [tail.last for tail in tails.by_partition.values()]
    firsts = (t.changes[0] for t in tails.by_partition.values() if t.changes and not t.whole)
    return any(
        first.transaction.id in doubtful
        and first.timestamp >= tails.late
        and any(last is None or last.precedes(first.transaction) for last in lasts)
        for first in firsts
    )
