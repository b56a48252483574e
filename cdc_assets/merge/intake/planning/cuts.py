"""Chooses where a batch ends: at the hour's end, at its limit, and between transactions.

Finds the topic of transaction metadata that tells where a table's transactions end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial, reduce

from cdc_assets.changes.offsets import OffsetRange, OffsetVector, limited, total_length
from cdc_assets.errors import TransientError
from cdc_assets.lake import Published
from cdc_assets.log.hours import HourWindow
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.transactions import TransactionLog
from cdc_assets.log.values import Watermarks
from cdc_assets.merge.intake.planning.configured import Configured
from cdc_assets.merge.intake.planning.pending import RequireWhole
from cdc_assets.merge.intake.shared_reading import SharedReadings
from cdc_assets.merge.plan.result import Waiting
from cdc_assets.merge.plan.waiting import Patience
from cdc_assets.registry import TableEntry

Ranges = tuple[OffsetRange, ...]


@dataclass(frozen=True, slots=True)
class Extent:
    """The largest extent of a batch.

    Attributes:
        window: the hour to stay within, except for the end of a transaction; None for no hour.
        limits: largest size, as a multiple of the source's limit. A multiple above 1 is requested
            if the rest of a transaction, a delivery or a key's changes may follow the batch,
            possibly in the next hour: then the hour does not count.
        shared: readings of the topic for other tables, to which the batch is cut.
        until: end of the batch at most, exclusive.
        most: smaller limit than the source's; None for the source's.
        cut: a boundary that several tables share, not to be passed.
    """

    window: HourWindow | None = None
    limits: int = 1
    shared: SharedReadings | None = None
    until: OffsetVector | None = None
    most: int | None = None
    cut: OffsetVector | None = None

    def before(self, cut: OffsetVector | None) -> Extent:
        """Returns the extent that does not pass a boundary.

        A batch that has to be longer for its own sake passes it: that cut is then given up.
        """
        return self if cut is None or self.limits > 1 else replace(self, cut=cut)


@dataclass(frozen=True, slots=True)
class Cut:
    """The part of the unread offsets that a batch reads.

    Attributes:
        ranges: of the batch; at least one, and none empty.
        unread: all that were not merged.
        is_aligned, is_behind, is_limited: of the batch; see `BatchPlan`.
        may_grow, require_whole: see `Pending`.
    """

    ranges: Ranges
    unread: Ranges
    is_aligned: bool
    is_behind: bool
    is_limited: bool
    may_grow: bool
    require_whole: RequireWhole = lambda _: None


class Cuts:
    """A cutter of unread offsets to batches.

    Args:
        configured: the tables.
        log: Kafka.
        clock: wall clock.
    """

    def __init__(
        self, configured: Configured, log: KafkaLog, clock: Callable[[], datetime]
    ) -> None:
        self._configured = configured
        self._log = log
        self._clock = clock
        self._transactions = TransactionTopics(configured, log)

    def of(
        self,
        entry: TableEntry,
        published: Published | None,
        unread: Ranges,
        marks: Watermarks,
        extent: Extent,
    ) -> Cut | Waiting | None:
        """Returns the part of unread offsets for one batch.

        Args:
            entry: the table.
            published: its newest publish; None for the first batch.
            unread: from where the batch starts to the log's end.
            marks: of the log.
            extent: the largest that the batch may have.

        Returns:
            None if the extent leaves nothing to read; the wait if the first transaction in it is
            not finished.

        Raises:
            CdcError: if Kafka does not answer.
            TransientError: if no batch was found although nothing has to be waited for.
        """
        in_hour = self._in_hour(entry, unread, extent)
        ends = (each for each in (extent.until, extent.cut) if each is not None)
        within = reduce(_up_to, ends, in_hour)
        if not total_length(within):
            return None
        transactions, patience = self._transactions.of(entry), self._patience(entry)
        limit = self._limit(entry, published, marks, extent)
        # A batch with whole transactions, a larger limit or none does not share readings.
        may_share = transactions is None and limit is not None and extent.limits == 1
        shared = extent.shared if may_share else None
        cut = shared.cut(entry, within) if shared else within
        short = cut if limit is None else limited(cut, limit)
        may_limit = limit is not None and (total_length(in_hour) > limit or cut != within)
        taken = Cut(
            ranges=_filled(short),
            unread=unread,
            is_aligned=False,
            is_behind=total_length(within) < total_length(unread),
            is_limited=may_limit and _leaves_some(in_hour, short),
            may_grow=_leaves_some(unread, short),
        )
        if transactions is None:
            return taken
        by_hour = total_length(short) == total_length(cut) < total_length(unread)
        aligned = patience.aligned(transactions, unread, short, marks.end, forward=by_hour)
        if isinstance(aligned, Waiting):
            return aligned
        if not aligned.ranges:
            raise _without_batch(entry, short)
        if extent.cut is not None:  # it is between transactions, too
            aligned = replace(aligned, ranges=_filled(_up_to(aligned.ranges, extent.cut)))
        return replace(
            taken,
            ranges=aligned.ranges,
            may_grow=taken.may_grow and _leaves_some(unread, aligned.ranges),
            is_aligned=aligned.by_transactions,
            # A whole transaction may be longer than the limit, and all that there is.
            is_limited=may_limit and _leaves_some(in_hour, aligned.ranges),
            require_whole=partial(patience.require_whole, transactions, aligned.ranges, marks.end),
        )

    def _in_hour(self, entry: TableEntry, unread: Ranges, extent: Extent) -> Ranges:
        """Cuts ranges at the end of an hour that is over and counts; ranges may become empty."""
        window = extent.window if extent.limits == 1 else None
        if window is None or not unread or not window.is_closed(self._clock()):
            return unread
        stop = self._log.offsets_at([entry.topic], [window.end])[entry.topic, window.end]
        return _up_to(unread, stop)

    def _limit(
        self, entry: TableEntry, published: Published | None, marks: Watermarks, extent: Extent
    ) -> int | None:
        """Returns the limit of offsets; None for no limit.

        Keys move when partitions are added. Their older changes must not be left for later.
        """
        if published and published.carried.partitions_seen != len(marks.end.offsets):
            return None
        usual = self._configured.source(entry).batch.max_records
        return min(usual, extent.most or usual) * extent.limits

    def _patience(self, entry: TableEntry) -> Patience:
        source = self._configured.source(entry)
        return Patience(entry, source.transactions, self._log, self._clock)


def _without_batch(entry: TableEntry, among: Ranges) -> TransientError:
    what = "no batch was found among unread records, although no transaction has to be waited for"
    where = f"table={entry.table} topic={entry.topic} offsets={' '.join(map(str, among))}"
    remedy = "it is tried again; if the error persists, report it: the table waits until then"
    return TransientError(what, where=where, remedy=remedy)


def _up_to(ranges: Ranges, end: OffsetVector) -> Ranges:
    """Cuts ranges at an end, exclusive; ranges may become empty."""
    return tuple(replace(r, end=max(r.start, min(r.end, end.get(r.partition)))) for r in ranges)


def _filled(ranges: Ranges) -> Ranges:
    return tuple(each for each in ranges if each.length)


def _leaves_some(whole: Ranges, taken: Ranges) -> bool:
    """Whether a part of the ranges is not taken; taken ranges may extend beyond the whole."""
    ends = {each.partition: each.end for each in taken}
    return any(each.end > ends.get(each.partition, each.start) for each in whole)


class TransactionTopics:
    """The topics of transaction metadata. Remembers the kind of each examined topic.

    Args:
        configured: the tables.
        log: Kafka.
    """

    def __init__(self, configured: Configured, log: KafkaLog) -> None:
        self._configured = configured
        self._log = log
        self._kinds: dict[str, TopicKind] = {}

    def of(self, entry: TableEntry) -> TransactionLog | None:
        """Returns the transactions of a table; None if no topic has transaction metadata.

        Nor does one for a topic of several tables, whose records are counted for each of them.

        Raises:
            CdcError: if Kafka does not answer.
        """
        topic = None if entry.is_shared else self._topic(entry)
        if topic is None:
            return None
        qualified, marks = entry.at_source.qualified, self._configured.format(entry)
        return self._log.transactions((entry.topic, topic), qualified, marks)

    def _topic(self, entry: TableEntry) -> str | None:
        """Returns the topic of transaction metadata; examines a topic that could be a table's."""
        fmt, name = self._configured.format(entry), entry.at_source.qualified
        found = fmt.topics.transaction_topics(entry.topic, name, self._log.topics())
        doubtful = [each for each in found if fmt.topics.table_of(each, entry.table.source)]
        if not doubtful:
            return found[0] if found else None
        unknown = [each for each in doubtful if each not in self._kinds]
        self._kinds |= self._log.kinds(unknown, fmt.kind) if unknown else {}
        tables = {each for each in doubtful if self._kinds.get(each) is TopicKind.CHANGES}
        return next((each for each in found if each not in tables), None)
