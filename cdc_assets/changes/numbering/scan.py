"""Counts a topic's records over all of its partitions.

Counts one partition's records: which of them belong to another numbering than those before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from cdc_assets.changes.numbering.records import BinlogRecord, lineage_of
from cdc_assets.changes.numbering.state import (
    STAGES,
    LineageTransaction,
    Numbering,
    NumberingBegin,
    NumberingState,
    SnapshotRead,
    Stage,
)


class RestartSeenLateError(ValueError):
    """Records were counted in the previous numbering although they may belong to the next one.

    Attributes:
        partition: the partition of the records.
        before: the offset after the last of them.
    """

    def __init__(self, partition: int, before: int) -> None:
        super().__init__(f"partition={partition} offsets below {before}")
        self.partition = partition
        self.before = before


def scan(numbering: Numbering, records: Iterable[BinlogRecord]) -> Numbering:
    """Counts a topic's next records.

    Args:
        numbering: the state after the records before.
        records: in offset order within each partition. Those counted before are skipped.

    Raises:
        RestartSeenLateError: if a partition was read beyond a reset before another partition
            showed that reset.
    """
    counting = _Counting(numbering)
    for record in _as_sent(numbering, records):
        counting.observe(record)
    return counting.result()


def _as_sent(numbering: Numbering, records: Iterable[BinlogRecord]) -> list[BinlogRecord]:
    """Sorts records by the time at which they were sent, keeping offset order in a partition."""

    def lifted() -> Iterator[tuple[int, BinlogRecord]]:
        newest = {p: each.sent_ms for p, each in numbering.partitions.items()}
        for record in records:
            partition = record.partition
            newest[partition] = max(newest.get(partition, -1), record.sent_ms)
            yield newest[partition], record

    ordered = sorted(lifted(), key=lambda each: (each[0], each[1].partition, each[1].offset))
    return [replace(record, sent_ms=sent_ms) for sent_ms, record in ordered]


class _Counting:
    """The state of a scan over all partitions."""

    def __init__(self, start: Numbering) -> None:
        self._restarts = [*start.restarts]
        self._partitions = {p: CountedPartition(each) for p, each in start.partitions.items()}

    def result(self) -> Numbering:
        counted = {p: each.result() for p, each in sorted(self._partitions.items())}
        return Numbering(tuple(self._restarts), counted)

    def observe(self, record: BinlogRecord) -> None:
        partition = self._partitions.setdefault(
            record.partition, CountedPartition(NumberingState())
        )
        if record.offset < partition.next_offset:
            return
        self._catch_up(partition, record)
        if record.is_snapshot:
            restarts = partition.observe_read(record) or self._is_below(partition, record)
        else:
            self._require_before_reads(partition, record)
            restarts = partition.observe_change(record, self._is_later(record))
        if restarts:
            partition.begin(record.offset, is_reset=record.is_snapshot)
        partition.count(record)
        if restarts:
            self._record(partition, record)

    def _is_later(self, record: BinlogRecord) -> bool:
        """Returns whether its time is later than that of every change so far."""
        return all(record.ts_ms > each.newest_ts_ms for each in self._partitions.values())

    def _is_below(self, partition: CountedPartition, record: BinlogRecord) -> bool:
        """Returns whether a row was read after all others but is below another partition's."""
        if any(record.ts_ms <= each.read_ts_ms for each in self._partitions.values()):
            return False
        stages = self._stages(partition.epoch).values()
        earlier = (each for each in stages if each.sent_ms <= record.sent_ms)
        return any(each.is_above(record.base, record.place) for each in earlier)

    def _require_before_reads(self, partition: CountedPartition, record: BinlogRecord) -> None:
        """Raises unless a change sent before a counted snapshot is below that snapshot."""
        for number, stage in self._stages(partition.epoch).items():
            read = stage.read
            if read and record.sent_ms < read.sent_ms and record.place > read.place:
                raise RestartSeenLateError(number, self._partitions[number].next_offset)

    def _stages(self, epoch: int) -> dict[int, Stage]:
        """Returns the stage of an epoch for each partition that has reached it."""
        found = ((p, each.stage(epoch)) for p, each in sorted(self._partitions.items()))
        return {number: stage for number, stage in found if stage is not None}

    def _catch_up(self, partition: CountedPartition, record: BinlogRecord) -> None:
        """Moves a partition to the restarts that others showed before the record was sent."""
        while partition.epoch < len(self._restarts):
            next_ = self._restarts[partition.epoch]
            if record.sent_ms < next_.sent_ms:
                return
            partition.begin(record.offset, is_reset=next_.is_reset)

    def _record(self, partition: CountedPartition, record: BinlogRecord) -> None:
        """Records a restart that a partition shows, either first or by an earlier sign."""
        at, found = partition.epoch - 1, NumberingBegin(record.sent_ms, record.is_snapshot)
        if at < len(self._restarts):
            known = self._restarts[at]
            found = NumberingBegin(
                min(known.sent_ms, found.sent_ms), known.is_reset or found.is_reset
            )
        self._restarts[at : at + 1] = [found]
        if found.is_reset:
            self._require_unread(at, found)

    def _require_unread(self, at: int, found: NumberingBegin) -> None:
        """Raises if a partition has read on beyond a restart without knowing it."""
        for number, each in sorted(self._partitions.items()):
            stage = each.stage(min(at, each.epoch))
            if stage is not None and stage.last_ms > found.sent_ms:
                raise RestartSeenLateError(number, each.next_offset)


class CountedPartition:
    """The state of a scan in one partition."""

    def __init__(self, start: NumberingState) -> None:
        self.next_offset = start.next_offset
        self.sent_ms = start.sent_ms
        self.newest_ts_ms = start.newest_ts_ms
        self.read_ts_ms = start.read_ts_ms
        self.epoch = start.epoch
        self._stages = [*start.stages]
        self._begins = [*start.begins]
        self._serials = dict(start.serials)
        self._transaction = start.transaction

    def stage(self, epoch: int) -> Stage | None:
        """Returns the stage of an epoch; None if not reached yet, or too long past."""
        at = epoch - self.epoch + len(self._stages) - 1
        return self._stages[at] if 0 <= at < len(self._stages) else None

    def result(self) -> NumberingState:
        """Returns the state after the records counted so far."""
        return NumberingState(
            next_offset=self.next_offset,
            sent_ms=self.sent_ms,
            newest_ts_ms=self.newest_ts_ms,
            read_ts_ms=self.read_ts_ms,
            serials=self._serials,
            transaction=self._transaction,
            begins=tuple(self._begins),
            stages=tuple(self._stages[-STAGES:]),
        )

    def begin(self, offset: int, *, is_reset: bool) -> None:
        """Begins the next epoch; the next record is its first."""
        self.epoch += 1
        self._stages.append(Stage())
        begun = [each for each in self._begins if each[0] < offset]
        self._begins = [*begun, (offset, self.epoch)]
        if is_reset:
            self._serials, self._transaction = {}, None

    def count(self, record: BinlogRecord) -> None:
        """Counts a record in its epoch."""
        self.next_offset, self.sent_ms = record.offset + 1, record.sent_ms
        stage = self._stages[-1]
        if stage.highest is None:
            stage = Stage(record.sent_ms, record.base, record.place)
        elif record.place > stage.highest:
            stage = stage._replace(sent_ms=record.sent_ms, highest=record.place)
        if record.is_snapshot:
            self.read_ts_ms = max(self.read_ts_ms, record.ts_ms)
            if stage.read is None or record.place > stage.read.place:
                stage = stage._replace(read=SnapshotRead(record.sent_ms, record.place))
        else:
            self.newest_ts_ms = max(self.newest_ts_ms, record.ts_ms)
        self._stages[-1] = stage._replace(last_ms=record.sent_ms)

    def observe_read(self, record: BinlogRecord) -> bool:
        """Returns whether a snapshot's row belongs to another numbering than the rows before it."""
        stage = self._stages[-1]
        same = record.base == stage.base and record.place == stage.highest
        return not self._advances(record) and not same and record.ts_ms > self.read_ts_ms

    def observe_change(self, record: BinlogRecord, is_later: bool) -> bool:
        """Returns whether a change belongs to another numbering than those before it."""
        lineage, serial = lineage_of(record)
        known, newest = self._serials.get(lineage), self._transaction
        is_new = known is None or serial > known
        is_newest = serial == known and newest is not None and newest.lineage == lineage
        first, last = newest[1:] if is_newest and newest else (record.place, record.place)
        is_outside = is_newest and not first <= record.place <= last
        at_a_read = self._is_at_a_read(record)
        is_first = is_new or is_outside or (is_later and not is_newest)
        restarts = not self._advances(record) and is_first and not at_a_read
        if is_new or restarts:
            self._serials[lineage] = serial
        if restarts:
            first = last = record.place
        if is_new or is_newest or restarts:
            first, last = min(first, record.place), max(last, record.place)
            self._transaction = LineageTransaction(lineage, first, last)
        return restarts

    def _is_at_a_read(self, record: BinlogRecord) -> bool:
        """Returns whether the record is at the highest place, and that is a snapshot's.

        Its offset is then higher. MariaDB from 11.4 on gives all changes of a transaction the place
        where it begins, unless ``binlog_legacy_event_pos`` is on: the first transaction after a
        snapshot has the snapshot's place.
        """
        stage = self._stages[-1]
        is_there = record.base == stage.base and record.place == stage.highest
        return is_there and (self._transaction is None or self._transaction.last != record.place)

    def _advances(self, record: BinlogRecord) -> bool:
        """Returns whether the record is above everything before it in the epoch."""
        stage = self._stages[-1]
        if stage.highest is None:
            return True
        return record.base == stage.base and record.place > stage.highest
