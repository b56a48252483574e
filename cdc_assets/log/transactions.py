"""Ends a batch of one table between transactions of its source.

Needs Debezium's transaction metadata. `boundaries` decides which ends are permitted, and
`unfinished` which transaction is unfinished; this module reads the log for them: by one consumer,
in small pieces, assigned and never subscribed, nothing committed.

Finds the transactions that have ended, from the ``END`` records that are kept.

An ``END`` record may be gone: the transaction topic may keep its records for a shorter time than
the table's topic. A connector sends transactions one after another, so a transaction has also ended
if a transaction committed after it has. Its changes cannot be counted then, and count as complete
once the last of them is at least two seconds older than that later ``END``, by the rule of
`cdc_assets.log.unfinished`.

The order of commits is known for PostgreSQL, whose transaction ids hold the LSN.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Final

from cdc_assets.changes.offsets import OffsetRange, OffsetVector
from cdc_assets.log.boundaries import Aligned, align
from cdc_assets.log.marks import EndMark, LogRecord, Marks, Transaction
from cdc_assets.log.reader import Cursor, Reader
from cdc_assets.log.resent import TransactionState, newest_of
from cdc_assets.log.unfinished import MAX_READ, SETTLED, Unfinished
from cdc_assets.log.values import RawRecord

_BEFORE: Final = timedelta(seconds=1)
_PIECE: Final = 32


class TransactionLog:
    """One table's topic, together with the transaction metadata of its source.

    Guaranteed: a batch holds whole transactions of the table. Where the connector sent the same
    records again that needs both: `aligned` before the batch is read, and `newest_of` afterwards.
    Not guaranteed for transactions that `unfinished` takes as whole.

    Args:
        reader: of the cluster.
        topics: of the table, and with the source's ``END`` records.
        collection: ``schema.table``, as named there (without a database in front).
        marks: reads marks from records.
    """

    def __init__(
        self, reader: Reader, topics: tuple[str, str], collection: str, marks: Marks
    ) -> None:
        self._reader = reader
        self._marks = marks
        self._topic, self._transaction_topic = topics
        self._collection = collection

    @property
    def topics(self) -> tuple[str, str]:
        """The table's topic, and the one with the source's ``END`` records."""
        return self._topic, self._transaction_topic

    def aligned(
        self,
        ranges: tuple[OffsetRange, ...],
        log_end: OffsetVector,
        *,
        forward: bool,
        accepted: Collection[str] = (),
    ) -> Aligned:
        """Finds ranges with the same starts, inside the log, that hold whole transactions only.

        They are unchanged if the records name no transactions, or, in a topic of several
        partitions, none whose order is known.

        Args:
            ranges: candidates. Partitions with nothing unread may be absent.
            log_end: of every partition.
            forward: whether to extend them to the end of the newest transaction in them; else they
                are cut back, or extended to the end of the first if it is larger than they are.
            accepted: ids of transactions that count as finished although parts are missing.

        Raises:
            UnreachableError: if Kafka does not answer in time.
        """
        with self._reader.cursor() as cursor:
            records = CachedTopicRecords(cursor, self._topic, log_end.as_dict(), self._marks)
            return align(
                records,
                ranges,
                lambda wanted: self._counts(cursor, wanted),
                forward=forward,
                accepted=accepted,
            )

    def newest_of(
        self,
        ranges: tuple[OffsetRange, ...],
        log_end: OffsetVector,
        newest: Mapping[int, int],
    ) -> tuple[TransactionState, Unfinished | None]:
        """Determines whether ranges hold all of a transaction that is followed by older ones.

        See `resent.newest_of`.

        Raises:
            UnreachableError: if Kafka does not answer in time.
        """
        with self._reader.cursor() as cursor:
            records = CachedTopicRecords(cursor, self._topic, log_end.as_dict(), self._marks)
            return newest_of(records, ranges, newest, lambda wanted: self._counts(cursor, wanted))

    def _counts(
        self, cursor: Cursor, wanted: Mapping[Transaction, datetime]
    ) -> dict[str, int | None]:
        """Counts the changes of this table in those of the wanted transactions that have ended.

        An ``END`` is sent after the last change. The search starts at that time, and goes up to the
        topic's present end.
        """
        starts = cursor.offsets_at(self._transaction_topic, min(wanted.values()) - _BEFORE)
        spans = {(self._transaction_topic, p): (start, None) for p, start in starts.items()}
        ends = ((raw, self._marks.ended(raw)) for raw in cursor.records(spans))
        return counts_of(ends, wanted, self._collection)


class CachedTopicRecords:
    """The records of a topic below given ends, read in pieces and cached.

    Args:
        cursor: reads them.
        topic: the topic's name.
        ends: per partition.
        marks: reads marks from records.
    """

    def __init__(self, cursor: Cursor, topic: str, ends: Mapping[int, int], marks: Marks) -> None:
        self._cursor = cursor
        self._marks = marks
        self._topic = topic
        self._ends = ends
        self._pieces: dict[tuple[int, int], list[LogRecord]] = {}

    @property
    def ends(self) -> Mapping[int, int]:
        """Ends per partition, exclusive."""
        return self._ends

    def at(self, partition: int, offset: int) -> LogRecord | None:
        """Returns the first record with a value at or after an offset."""
        span = _PIECE
        while offset < self._ends[partition]:
            end = (offset // _PIECE) * _PIECE + span
            found = self.between(partition, offset, end)
            if found:
                return found[0]
            offset, span = end, span * 2
        return None

    def between(self, partition: int, start: int, end: int) -> tuple[LogRecord, ...]:
        """Returns the records with a value in ``[start, end)``."""
        end = min(end, self._ends[partition])
        self.load({partition: (start, end)})
        return tuple(
            record
            for number in _numbers(start, end)
            for record in self._pieces[partition, number]
            if start <= record.offset < end
        )

    def load(self, spans: Mapping[int, tuple[int, int]]) -> None:
        """Reads the missing pieces of these spans, of all partitions at once."""
        missing = {p: self._missing(p, *span) for p, span in spans.items()}
        wanted = {
            (self._topic, p): (numbers[0] * _PIECE, min(self._ends[p], (numbers[-1] + 1) * _PIECE))
            for p, numbers in missing.items()
            if numbers
        }
        for partition, numbers in missing.items():
            span = range(numbers[0], numbers[-1] + 1) if numbers else ()
            self._pieces |= {(partition, number): [] for number in span}
        for raw in self._cursor.records(wanted):
            record = self._marks.mark(raw, only_partition=len(self._ends) == 1)
            if record is not None:
                self._pieces[raw.coordinate.partition, record.offset // _PIECE].append(record)

    def _missing(self, partition: int, start: int, end: int) -> list[int]:
        numbers = _numbers(start, min(end, self._ends[partition]))
        return [number for number in numbers if (partition, number) not in self._pieces]


def _numbers(start: int, end: int) -> range:
    """Returns the pieces that hold an offset of ``[start, end)``."""
    return range(max(0, start) // _PIECE, -(-end // _PIECE)) if end > start else range(0)


def counts_of(
    metadata: Iterable[tuple[RawRecord, EndMark | None]],
    wanted: Mapping[Transaction, datetime],
    collection: str,
) -> dict[str, int | None]:
    """Counts the changes of a table in each wanted transaction that has ended.

    Args:
        metadata: records of the transaction topic, from before the wanted ones on, each with its
            end; no more than MAX_READ are read.
        wanted: transactions, with the time of a late change.
        collection: ``schema.table``.

    Returns:
        By id; None where an ``END`` record proves that it has ended, but not with how many changes.
    """
    missing = {transaction.id for transaction in wanted}
    found: dict[str, int | None] = {}
    later: list[tuple[int, datetime]] = []
    for number, (raw, end) in enumerate(metadata):
        if end is not None:
            mine = end.ids & missing
            found |= dict.fromkeys(mine, end.count(collection))
            missing -= mine
            later += [] if end.commit_lsn is None else [(end.commit_lsn, raw.timestamp)]
        if not missing or number >= MAX_READ:
            break
    return found | dict.fromkeys(missing.intersection(_passed(later, wanted)))


def _passed(
    later: list[tuple[int, datetime]], wanted: Mapping[Transaction, datetime]
) -> Iterator[str]:
    """Yields transactions of which all was sent, because one committed after them has ended.

    The order of a transaction is the last commit before it, so a later commit that is not its own
    comes after it.

    Args:
        later: commits and times of ``END`` records, none of them that of such a transaction.
        wanted: transactions, with the time of a late change.
    """
    later.sort(reverse=True)
    commits = [-commit for commit, _ in later]
    newest = [*accumulate((at for _, at in later), max)]
    for transaction, late in wanted.items():
        if transaction.id.isdecimal() and len(transaction.order) == 1:
            number = bisect_left(commits, -transaction.order[0])
            if number and newest[number - 1] - late >= SETTLED:
                yield transaction.id
