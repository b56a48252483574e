"""Finds a cut that several tables of one source share: a commit, and where it ends in each topic.

The order is that of the ``END`` records in the source's topic of transactions: the connector sends
transactions one after another, so the order needs no comparison of positions, and is the same for
every database. A cut at transaction B divides each partition of each table's topic: all changes of
B and of the transactions before it are below the cut, and nothing else is.

Nothing is assumed about the arrival of records. Each ``END`` counts its transaction's changes by
table. All records since the last cut are read, and counted: a transaction of which a change is
missing in any table's topic is not included, nor is any later one. Transactions up to the last cut
were counted then. If too many have come since, they are counted piece by piece, the oldest first.
A transaction counts as complete once it has lacked its changes for as long as a batch would wait
for them (`transactions.wait_minutes`). Before the first cut only transactions of some seconds ago
are known, which count as complete.

Rows outside of transactions (of snapshots) have no place in that order. They are where they were
sent: a row between two changes that are included is included. A row after the last included change
is judged by its position and by its time, and if the two disagree there is no cut yet.

Records are found by the time they were sent. If a clock was set back, that of a connector or of a
broker, later ones would not be found, or count as older: there is no cut until they are dated later
than all before them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.log.marks import EndMark, LogRecord, Marks
from cdc_assets.log.reader import Cursor, Reader

MOST_RECORDS: Final = 50_000
"""The most records that are read for one cut, and the most bytes of them."""
MOST_BYTES: Final = 128 << 20

_MOST_ENDS: Final = 20_000
_FIRST_ENDS: Final = 1_000

_EARLY: Final = timedelta(seconds=5)
"""How much earlier a record may be dated than one that was sent before it: by another broker."""

_SETTLED: Final = timedelta(seconds=5)
"""The age at which the very first transaction, before which nothing is known, may be a cut."""

LogEnds = Callable[[Sequence[str]], Mapping[str, OffsetVector]]
_TOO_MANY: Final = f"more than {MOST_RECORDS:,} records have come since the last transaction"


@dataclass(frozen=True, slots=True)
class CutTable:
    """A table that a cut has to divide.

    Attributes:
        table: its name.
        topic: its topic.
        collection: its name in ``END`` records, ``schema.table``.
        committed: next-to-read offsets of what is merged; a cut before that is none.
    """

    table: TableName
    topic: str
    collection: str
    committed: OffsetVector


@dataclass(frozen=True, slots=True)
class EndAt:
    """The place of an ``END`` record in the transaction topic, and the time it was sent, aware."""

    offset: int
    sent_at: datetime

    def is_until(self, other: EndAt) -> bool:
        """Whether it is not after another one of the same topic, which may have been made again."""
        return self.offset <= other.offset and self.sent_at <= other.sent_at


@dataclass(frozen=True, slots=True)
class CommonCut:
    """A commit that is complete in every table's topic.

    Attributes:
        transaction: its id, as the source gives it.
        end: its ``END`` in the transaction topic.
        committed_at: when the source committed it, aware.
        ends: per table, next-to-read offsets: everything up to the commit is below them.
    """

    transaction: str
    end: EndAt
    committed_at: datetime
    ends: Mapping[TableName, OffsetVector]


@dataclass(frozen=True, slots=True)
class NoCut:
    """There is no cut now.

    Attributes:
        reason: why, in words.
        counted: a transaction up to which all are complete, from which the next search continues;
            None for no further one.
    """

    reason: str
    counted: EndAt | None = None


@dataclass(frozen=True, slots=True)
class KnownEnd:
    """A transaction that has ended, and where."""

    at: EndAt
    ended: EndMark


@dataclass(slots=True)
class SentRecords:
    """The records of a table's topic since a time, by partition in order of offsets.

    Attributes:
        of: the table.
        log_end: the topic's ends.
        records: by partition.
        places: the changes of each transaction, by its id.
    """

    of: CutTable
    log_end: OffsetVector
    records: dict[int, list[LogRecord]] = field(default_factory=dict[int, list[LogRecord]])
    places: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def add(self, partition: int, record: LogRecord) -> None:
        """Adds the next record of a partition."""
        self.records.setdefault(partition, []).append(record)
        if record.place is not None:
            self.places[record.transaction.id].add(record.place)

    def lacks(self, ended: EndMark) -> int:
        """Returns how many changes of a transaction are not in the topic."""
        count = ended.count(self.of.collection) or 0
        return count - max(len(self.places.get(id_, ())) for id_ in ended.ids) if count else 0


class CutFinder:
    """Finds cuts of one source.

    Args:
        reader: of the cluster.
        topic: the source's topic of transactions.
        marks: reads marks from records.
        log_ends: returns the present ends of topics.
        patience: how long a transaction may lack changes.
    """

    def __init__(
        self, reader: Reader, topic: str, marks: Marks, log_ends: LogEnds, patience: timedelta
    ) -> None:
        self._reader, self._topic, self._marks = reader, topic, marks
        self._log_ends, self._patience = log_ends, patience

    def find(
        self,
        tables: Sequence[CutTable],
        after: EndAt | None,
        now: datetime,
        complete: EndAt | None = None,
    ) -> CommonCut | NoCut:
        """Finds the newest cut.

        Args:
            tables: all tables of the cut; at least one.
            after: the last cut's ``END``; None for the first cut.
            now: wall clock, aware.
            complete: the transaction up to which an earlier search has counted; None for none.

        Raises:
            UnreachableError: if Kafka does not answer.
        """
        ends = self._log_ends([self._topic]).get(self._topic, OffsetVector())
        if len(ends.offsets) != 1:
            what = f"topic {self._topic} has {len(ends.offsets)} partitions, and so no order"
            return NoCut(f"{what} → make it with one: docs/consistent.md")
        starts = [each for each in (after, complete) if each]
        start = max(starts, key=lambda each: each.sent_at, default=None)
        with self._reader.cursor() as cursor:
            known, is_newest = self._ended(cursor, ends.get(0), start, now)
            if not known:
                return NoCut(f"no transaction has ended in topic {self._topic}")
            if any(b.at.sent_at < a.at.sent_at - _EARLY for a, b in pairwise(known)):
                return NoCut(f"the clock that dates records of topic {self._topic} was set back")
            begun = base_of(known, start, now - self._patience)
            # Asked for after the ENDs were read: what was sent before them has had more time.
            log_ends = self._log_ends([each.topic for each in tables])

            def read(base: int, upto: int | None) -> list[SentRecords] | None:
                until = None if upto is None else known[upto]
                return self._sent(cursor, tables, log_ends, known[base], until)

            found = counted(known, begun, self._patience, read, is_newest=is_newest)
            if isinstance(found, NoCut) and start is None and found.reason == _TOO_MANY:
                found = _halved(known, begun, read)
        if isinstance(found, NoCut):
            return found
        base, sent = found
        newest, lacking = complete_until(sent, known, base, self._patience)
        at = known[newest].at
        is_settled = start or newest > base or now - at.sent_at >= _SETTLED
        if not is_settled or (after and at.is_until(after)):
            return NoCut(lacking or "no further transaction has ended", start and at)
        cut = divided(sent, known, newest)
        return replace(cut, counted=at) if isinstance(cut, NoCut) else cut

    def _ended(
        self, cursor: Cursor, log_end: int, after: EndAt | None, now: datetime
    ) -> tuple[list[KnownEnd], bool]:
        """Returns the transactions that have ended, each at its first ``END``, and whether all.

        They begin some time before the last cut, so that the records of its neighbours are known;
        but not before those that count as complete in any case.
        """
        begin, end = max(0, log_end - _FIRST_ENDS), log_end
        if after is not None:
            since = max(after.sent_at, now - self._patience) - 2 * _EARLY
            begin = cursor.offsets_at(self._topic, since).get(0, log_end)
            end = min(log_end, begin + _MOST_ENDS)
        found, seen = list[KnownEnd](), set[str]()
        for raw in cursor.records({(self._topic, 0): (begin, end)}):
            ended = self._marks.ended(raw)
            if ended is not None and not ended.ids <= seen:
                seen |= ended.ids
                found.append(KnownEnd(EndAt(raw.coordinate.offset, raw.timestamp), ended))
        return found, end == log_end

    def _sent(
        self,
        cursor: Cursor,
        tables: Sequence[CutTable],
        log_ends: Mapping[str, OffsetVector],
        base: KnownEnd,
        until: KnownEnd | None,
    ) -> list[SentRecords] | None:
        """Returns the records sent since a transaction ended; None if there are too many.

        Args:
            cursor: reads.
            tables: of the cut.
            log_ends: the ends of their topics.
            base: the transaction.
            until: another one, up to whose end records are read; None for all records.
        """
        since = base.at.sent_at - _EARLY
        # The topic of a table that was read from its source may be yet to come.
        nothing = OffsetVector()
        found = {e.topic: SentRecords(e, log_ends.get(e.topic, nothing)) for e in tables}
        spans = dict[tuple[str, int], tuple[int, int]]()
        for topic in log_ends:
            later = cursor.offsets_at(topic, until.at.sent_at + _EARLY) if until else {}
            for partition, start in cursor.offsets_at(topic, since).items():
                log_end = log_ends[topic].get(partition)
                spans[topic, partition] = start, min(log_end, later.get(partition, log_end))
        if sum(max(0, end - start) for start, end in spans.values()) > MOST_RECORDS:
            return None
        size = 0
        for raw in cursor.records(spans):
            size += raw.size
            if size > MOST_BYTES:
                return None
            of = found[raw.coordinate.topic]
            record = self._marks.mark(raw, only_partition=len(of.log_end.offsets) == 1)
            if record is not None:
                of.add(raw.coordinate.partition, record)
        return list(found.values())


Read = Callable[[int, int | None], Sequence[SentRecords] | None]
"""Returns what was sent since the transaction of a place ended, until that of another place did, or
until now if None; None if that is too much to be read at once."""


def base_of(known: Sequence[KnownEnd], after: EndAt | None, given_up: datetime) -> int:
    """Returns the place of the transaction after which all are counted.

    Without the last cut's, as of a topic that was made again, that is one that is complete by now.

    Args:
        known: transactions in order of commit; at least one.
        after: the last cut's ``END``; None before the first cut.
        given_up: the time up to which transactions count as complete in any case.
    """
    for place, end in reversed([*enumerate(known)]):
        if after and (end.at.is_until(after) or end.at.sent_at <= given_up):
            return place
    settled = known[0].at.sent_at + 2 * _EARLY if known[0].at.offset > 1 else known[0].at.sent_at
    later = (place for place, end in enumerate(known) if end.at.sent_at >= settled)
    return next(later, len(known) - 1)


def counted(
    known: Sequence[KnownEnd], base: int, patience: timedelta, read: Read, *, is_newest: bool
) -> tuple[int, Sequence[SentRecords]] | NoCut:
    """Counts the oldest transactions, until all that was sent since can be read at once.

    Args:
        known: transactions in order of commit.
        base: the place of one that is complete.
        patience: how long before the newest ``END`` a transaction may lack changes.
        read: reads what was sent.
        is_newest: whether no other transaction has ended after these.

    Returns:
        The place of a later one up to which all are complete, and what was sent since.
    """
    while not is_newest or (sent := read(base, None)) is None:
        upto = len(known) - 1
        while (piece := read(base, upto)) is None and upto > base:
            upto = (base + upto) // 2
        if piece is None or upto == base:
            return NoCut(_TOO_MANY, known[base].at)
        newest, lacking = complete_until(piece, known[: upto + 1], base, patience)
        if newest == base:
            return NoCut(lacking, known[base].at)
        base = newest
        if base == len(known) - 1 and not is_newest:
            return NoCut("the transactions since the last cut are being counted", known[base].at)
    return base, sent


def _halved(
    known: Sequence[KnownEnd], base: int, read: Read
) -> tuple[int, Sequence[SentRecords]] | NoCut:
    """Returns the first transaction, of the later half and so on, since which all can be read."""
    while (sent := read(base, None)) is None:
        if base == len(known) - 1:
            return NoCut(_TOO_MANY)
        base = (base + len(known)) // 2
    return base, sent


def complete_until(
    sent: Sequence[SentRecords], known: Sequence[KnownEnd], base: int, patience: timedelta
) -> tuple[int, str]:
    """Returns the last transaction up to which all are complete, and what the next one lacks.

    Args:
        sent: of each table, all that was sent since ``base``.
        known: transactions in order of commit.
        base: the place of one that is complete.
        patience: how long before the newest ``END`` a transaction may lack changes.
    """
    given_up = known[-1].at.sent_at - patience
    for place in range(base + 1, len(known)):
        end = known[place]
        for each in sent if end.at.sent_at >= given_up else ():
            lacks = each.lacks(end.ended)
            if lacks > 0:
                id_ = max(end.ended.ids, key=len)
                what = f"transaction {id_} lacks {lacks} changes in topic {each.of.topic}"
                return place - 1, what
    return len(known) - 1, ""


def divided(
    sent: Sequence[SentRecords], known: Sequence[KnownEnd], newest: int
) -> CommonCut | NoCut:
    """Divides every topic at a transaction.

    Args:
        sent: of each table, all that was sent since a complete transaction.
        known: transactions in order of commit.
        newest: the place of the cut's, up to which all are complete.
    """
    ranks = {id_: place for place, end in enumerate(known) for id_ in end.ended.ids}
    cut = known[newest]
    order = _order_of(sent, ranks, newest)
    begin = min(each.at.sent_at for each in known)
    side = _Side(ranks, newest, begin, cut.at.sent_at, order)
    ends = dict[TableName, OffsetVector]()
    for each in sent:
        found = dict[int, int]()
        for partition, log_end in each.log_end:
            at = side.end(each.records.get(partition, []), log_end)
            if isinstance(at, NoCut):
                return NoCut(f"{each.of.table}, partition {partition}: {at.reason}")
            if each.of.committed.get(partition) > at:
                return NoCut(f"{each.of.table} is merged beyond the newest complete transaction")
            found[partition] = at
        ends[each.of.table] = OffsetVector.of(found)
    committed_at = cut.ended.committed_at or cut.at.sent_at
    return CommonCut(max(cut.ended.ids, key=len), cut.at, committed_at, ends)


def _order_of(
    sent: Sequence[SentRecords], ranks: Mapping[str, int], newest: int
) -> tuple[int, ...]:
    """Returns the position of the newest included change; () if there is none."""
    changes = (
        (ranks.get(record.transaction.id, -1), record.transaction.order)
        for each in sent
        for records in each.records.values()
        for record in records
        if record.place is not None
    )
    included = [each for each in changes if 0 <= each[0] <= newest]
    return max(included, default=(0, ()))[1]


@dataclass(frozen=True, slots=True)
class _Side:
    """Determines on which side of a cut records are.

    Attributes:
        ranks: the place of each transaction, by id.
        newest: the place of the cut's.
        begin: the earliest time of a known ``END``: unknown transactions from before it are older.
        at: the time of the cut's ``END``.
        order: the position of the newest included change.
    """

    ranks: Mapping[str, int]
    newest: int
    begin: datetime
    at: datetime
    order: tuple[int, ...]

    def end(self, records: Sequence[LogRecord], log_end: int) -> int | NoCut:
        """Returns the offset at which a cut divides a partition."""
        changes = (at for at, each in enumerate(records) if each.place is not None)
        first = next((at for at in changes if not self._includes(records[at])), len(records))
        below = {(each.transaction.id, each.place) for each in records[:first]}
        late = (each for each in records[first:] if each.place and self._includes(each))
        if any((each.transaction.id, each.place) not in below for each in late):
            return NoCut("changes follow those of later transactions, as after a restart")
        begin = first
        while begin and records[begin - 1].place is None:
            begin -= 1
        rows = [self._includes_row(each) for each in records[begin:first]]
        cut = begin + rows.count(True)
        if any(each is not (begin + at < cut) for at, each in enumerate(rows)):
            return NoCut("rows were read at about the time of the newest transaction")
        return records[cut].offset if cut < len(records) else log_end

    def _includes(self, record: LogRecord) -> bool:
        rank = self.ranks.get(record.transaction.id)
        return record.timestamp < self.begin if rank is None else rank <= self.newest

    def _includes_row(self, row: LogRecord) -> bool | None:
        """Returns None if a row's position and its time disagree."""
        if row.timestamp < self.begin:
            return True
        if not self.order or not row.transaction.order:
            return None
        by_time, by_order = row.timestamp <= self.at, row.transaction.order <= self.order
        return by_time if by_time is by_order else None
