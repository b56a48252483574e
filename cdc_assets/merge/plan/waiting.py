"""Waits, within a bound, for the end of the first transaction among unread records.

A connector that has stopped or failed inside a transaction sends nothing more, and then nothing
in the log says when the transaction's end will come. So the wait is bounded. It is measured from
the transaction's newest record, not from when somebody first looked: no state is kept, and a
connector that is still sending is never called late.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from cdc_assets.changes.offsets import OffsetRange, OffsetVector, total_length
from cdc_assets.config.batch import TransactionsConfig
from cdc_assets.errors import CutShortError
from cdc_assets.log.boundaries import Aligned
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.resent import TransactionState
from cdc_assets.log.transactions import TransactionLog
from cdc_assets.log.unfinished import Unfinished
from cdc_assets.log.values import Watermarks
from cdc_assets.merge.plan.result import Waiting
from cdc_assets.registry import TableEntry

_CONNECTOR: Final = "see that the connector and its task run"


class UnfinishedError(CutShortError):
    """A batch holds a part of a transaction; ``is_cut``: a longer one may hold all of it."""

    def __init__(self, waiting: Waiting, *, is_cut: bool) -> None:
        self.waiting = waiting
        self.is_cut = is_cut
        super().__init__(waiting.reason, where=waiting.where, remedy=waiting.remedy)


@dataclass(frozen=True, slots=True)
class Patience:
    """One table's wait for a transaction.

    Attributes:
        entry: the table.
        config: the bound, and the action taken then.
        log: Kafka.
        clock: wall clock, aware.
    """

    entry: TableEntry
    config: TransactionsConfig
    log: KafkaLog
    clock: Callable[[], datetime]

    def aligned(
        self,
        transactions: TransactionLog,
        unread: tuple[OffsetRange, ...],
        within: tuple[OffsetRange, ...],
        log_end: OffsetVector,
        *,
        forward: bool,
    ) -> Aligned | Waiting:
        """Returns the result of `TransactionLog.aligned`, or the wait for a transaction.

        If so configured, accepts transactions that have waited too long.

        Args:
            transactions: of the table's topic.
            unread: offsets not merged.
            within: candidates.
            log_end: of the table's topic.
            forward: see `TransactionLog.aligned`.
        """
        accepted: frozenset[str] = frozenset()
        seen: Watermarks | None = None
        while True:
            found = transactions.aligned(within, log_end, forward=forward, accepted=accepted)
            if found.ranges or found.unfinished is None:
                return found
            if self.gives_up(found.unfinished):
                accepted |= {found.unfinished.transaction.id}
            elif seen is not None:
                return self._waiting(found.unfinished, transactions, unread, (log_end, seen))
            else:  # an end that arrives from here on is beyond the watermarks taken now
                seen = self._metadata(transactions)

    def require_whole(
        self,
        transactions: TransactionLog,
        ranges: tuple[OffsetRange, ...],
        log_end: OffsetVector,
        newest: Mapping[int, int],
    ) -> None:
        """Checks that a batch does not end while its newest transaction is being sent again.

        Args:
            transactions: of the table's topic.
            ranges: of the batch.
            log_end: of the table's topic.
            newest: per partition the offset of the change with the highest position.

        Raises:
            UnfinishedError: if it does; nothing was published.
        """
        seen = self._metadata(transactions)
        holds, unfinished = transactions.newest_of(ranges, log_end, newest)
        if holds is TransactionState.WHOLE or unfinished is None or self.gives_up(unfinished):
            return
        waiting = self._waiting(unfinished, transactions, ranges, (log_end, seen))
        reason = f"the connector sends records again after a restart, and {waiting.reason}"
        raise UnfinishedError(replace(waiting, reason=reason), is_cut=holds is TransactionState.CUT)

    def gives_up(self, unfinished: Unfinished) -> bool:
        """Returns whether a part of this transaction is to be published."""
        return self.config.then == "publish" and self.clock() >= self._stops_at(unfinished)

    def _waiting(
        self,
        unfinished: Unfinished,
        transactions: TransactionLog,
        unread: tuple[OffsetRange, ...],
        seen: tuple[OffsetVector, Watermarks],
    ) -> Waiting:
        """Describes the wait; ``seen``: end of the table's topic, watermarks of the other."""
        topic, metadata = transactions.topics
        log_end, marks = seen
        reason, remedy = self._words(unfinished, metadata, marks)
        return Waiting(
            table=self.entry.table,
            topic=topic,
            transaction=unfinished.transaction.id,
            reason=reason,
            remedy=remedy,
            since=unfinished.last_sent,
            stops_at=self._stops_at(unfinished),
            unread=total_length(unread),
            log_end={topic: log_end, metadata: marks.end},
        )

    def _metadata(self, transactions: TransactionLog) -> Watermarks:
        """Returns the watermarks of the transaction topic; empty if it was removed meanwhile."""
        _, topic = transactions.topics
        nothing = Watermarks(OffsetVector(), OffsetVector())
        return self.log.watermarks([topic]).get(topic, nothing)

    def _stops_at(self, unfinished: Unfinished) -> datetime:
        return unfinished.last_sent + timedelta(minutes=self.config.wait_minutes)

    def _words(self, unfinished: Unfinished, metadata: str, marks: Watermarks) -> tuple[str, str]:
        about = f"transaction {unfinished.transaction.id} is not complete in the topic"
        if unfinished.has_ended:
            missing = f"{about}: {metadata} has its end, but not all of its changes are there"
            return missing, f"{_CONNECTOR}, and that the topic is not compacted"
        if self._has_expired(metadata, marks, unfinished.last_sent):
            gone = f"{about}: its end is not in {metadata}, which has lost records of that time"
            longer = "let it keep records for as long as the table's topic"
            return gone, f"the next transaction of the source shows that it has ended; {longer}"
        return f"{about}: its end is not in {metadata}", _CONNECTOR

    def _has_expired(self, metadata: str, marks: Watermarks, at: datetime) -> bool:
        """Returns whether the topic begins after a time and has lost its first records."""
        begin = marks.begin.as_dict()
        first = self.log.offsets_at([metadata], [at]).get((metadata, at), OffsetVector())
        return any(offset and first.get(p) <= offset for p, offset in begin.items())
