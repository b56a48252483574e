"""Counts a topic's records over all of its partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from cdc_assets.changes.numbering.partition import CountedPartition
from cdc_assets.changes.numbering.records import BinlogRecord
from cdc_assets.changes.numbering.state import Counted, Numbering, Restart, Stage


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
        partition = self._partitions.setdefault(record.partition, CountedPartition(Counted()))
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
        at, found = partition.epoch - 1, Restart(record.sent_ms, record.is_snapshot)
        if at < len(self._restarts):
            known = self._restarts[at]
            found = Restart(min(known.sent_ms, found.sent_ms), known.is_reset or found.is_reset)
        self._restarts[at : at + 1] = [found]
        if found.is_reset:
            self._require_unread(at, found)

    def _require_unread(self, at: int, found: Restart) -> None:
        """Raises if a partition has read on beyond a restart without knowing it."""
        for number, each in sorted(self._partitions.items()):
            stage = each.stage(min(at, each.epoch))
            if stage is not None and stage.last_ms > found.sent_ms:
                raise RestartSeenLateError(number, each.next_offset)
