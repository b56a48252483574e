"""Counts one partition's records: which of them belong to another numbering than those before."""

from __future__ import annotations

from cdc_assets.changes.numbering.records import BinlogRecord, lineage_of
from cdc_assets.changes.numbering.state import STAGES, Counted, Read, Stage, Transaction


class CountedPartition:
    """The state of a scan in one partition."""

    def __init__(self, start: Counted) -> None:
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

    def result(self) -> Counted:
        """Returns the state after the records counted so far."""
        return Counted(
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
                stage = stage._replace(read=Read(record.sent_ms, record.place))
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
            self._transaction = Transaction(lineage, first, last)
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
