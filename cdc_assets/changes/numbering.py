"""Finds the epochs of a topic: the places where the numbering of binlog files starts again.

After a failover, or after ``RESET BINARY LOGS``, a MySQL or MariaDB server numbers its binlog
files on its own: new changes have positions that look old. The *epoch* precedes the file number
in a position (`cdc_assets.changes.position.binlog`) and rises there, so that new changes are higher
again.

Debezium emits changes in binlog order. Hence, within one numbering, a change delivered for the
first time is above everything that its Kafka partition had before. A change that is not is either a
redelivery or the first one of another numbering. Two things distinguish them:

- *Lineage and serial*, which a change keeps wherever it is replicated to: of a GTID ``uuid:n``
  (MySQL) the uuid and n, of ``domain-server-seq`` (MariaDB) the domain and the sequence number;
  without a GTID the server that committed it, the files' base name and the place. Serials rise
  within a lineage, so a change above the highest serial so far was never delivered before. A
  transaction has one serial and many places: if it is the newest of all and one of its changes is
  outside its places seen so far, it was renumbered, and the rest of it comes now.
- *Time.* A redelivery keeps its time. A change later than all changes of the topic so far is new;
  so is a snapshot's row that was read after all snapshot rows so far. A reset takes a new snapshot,
  since it removes the connector's position. The snapshot is above everything that any partition had
  before it.

A restart concerns the whole source, and each partition of the topic reaches it separately. The
first partition that shows it gives the epoch. In all others the epoch begins, unless their own
records show it earlier, with the first record that was sent no earlier. One connector sends to all
of them, so Kafka's timestamps are those of one clock. After a reset, serials begin again in all of
them.

Guaranteed: a change delivered for the first time has a position above everything that its partition
had before, and after a known restart above everything that any partition had before it. Within one
numbering no epoch is raised, and a redelivered change keeps its position. Not guaranteed: a change
redelivered *out of another numbering* has another position than before, until its successors have
come again too.

Not detected: servers without GTIDs that replicate each other's changes (a chain), when the
connector moves from one to another; a failover in partitions where all new changes happen to be
numbered above the old ones, until another partition shows it; a reset while no partition has a
record later than its last by the source's clock; the rest of a transaction that two failovers cut,
or whose places happen to fall among those seen of it. The first transaction after that is detected
again.

https://dev.mysql.com/doc/refman/8.4/en/replication-gtids-concepts.html
https://mariadb.com/docs/server/ha-and-performance/standard-replication/gtid
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

Place = tuple[int, int]
"""File number, position in it."""

Begin = tuple[int, int]
"""The Kafka offset where an epoch begins, and the epoch."""

Serial = tuple[int, ...]

STAGES: Final = 8
"""The most epochs back over which partitions are compared, so that the state does not grow with
failovers. No partition lags behind by more, since a batch takes from all partitions."""


@dataclass(frozen=True, slots=True)
class BinlogRecord:
    """A change's place in the binlog that it was read from.

    Attributes:
        partition, offset: in Kafka.
        sent_ms: the record's timestamp in Kafka.
        base: base of the binlog file's name, see `cdc_assets.changes.position.binlog`.
        place: file number and position.
        gtid: of the transaction; None if the server writes none.
        server_id: the server that first committed it.
        ts_ms: the source's time.
        is_snapshot: whether it is a row of a snapshot; rows of incremental ones say nothing here.
    """

    partition: int
    offset: int
    sent_ms: int
    base: str
    place: Place
    gtid: str | None
    server_id: int
    ts_ms: int
    is_snapshot: bool


class Restart(NamedTuple):
    """The begin of a numbering.

    Attributes:
        sent_ms: when the first record that shows it was sent.
        is_reset: whether the server has forgotten its serials: shown by a row of a snapshot.
    """

    sent_ms: int
    is_reset: bool


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


class Read(NamedTuple):
    """A snapshot: when its first row was sent, and its place."""

    sent_ms: int
    place: Place


class Transaction(NamedTuple):
    """The newest transaction: its lineage, with the lowest and the highest place seen of it."""

    lineage: str
    first: Place
    last: Place


class Stage(NamedTuple):
    """The part of an epoch that a partition has seen.

    Attributes:
        sent_ms: when the first record at the highest place was sent; -1 without any.
        base: base name of the files.
        highest: highest place; None before the first record.
        read: the newest snapshot; None without one.
        last_ms: when the last record was sent; -1 without any.
    """

    sent_ms: int = -1
    base: str = ""
    highest: Place | None = None
    read: Read | None = None
    last_ms: int = -1

    def is_above(self, base: str, place: Place) -> bool:
        """Returns whether that place is lower, or in files of another base name."""
        return self.highest is not None and (base != self.base or self.highest > place)


@dataclass(frozen=True, slots=True)
class Counted:
    """The state of the numbering after a partition's records up to an offset.

    Attributes:
        next_offset: offset of the first record not counted yet.
        sent_ms: the highest timestamp in Kafka so far.
        newest_ts_ms: the highest time of a change.
        read_ts_ms: the highest time of a snapshot's row.
        serials: the highest of each lineage.
        transaction: the newest; None if there was only a snapshot.
        begins: the begin of each epoch after the first, in offset order.
        stages: the newest `STAGES` epochs; the last is the next record's, unless that starts a new
            one.
    """

    next_offset: int = 0
    sent_ms: int = -1
    newest_ts_ms: int = -1
    read_ts_ms: int = -1
    serials: Mapping[str, Serial] = field(default_factory=dict[str, Serial])
    transaction: Transaction | None = None
    begins: tuple[Begin, ...] = ()
    stages: tuple[Stage, ...] = (Stage(),)

    @property
    def epoch(self) -> int:
        """The epoch of the next record, unless that starts a new one."""
        return self.begins[-1][1] if self.begins else 0


@dataclass(frozen=True, slots=True)
class Numbering:
    """The state of the numbering after a topic's records so far.

    Attributes:
        restarts: the known restarts; the n-th begins epoch n.
        partitions: the counted state of each.
    """

    restarts: tuple[Restart, ...] = ()
    partitions: Mapping[int, Counted] = field(default_factory=dict[int, Counted])

    @property
    def begins(self) -> dict[int, tuple[Begin, ...]]:
        """The begins of epochs by partition; partitions without any are left out."""
        return {p: each.begins for p, each in self.partitions.items() if each.begins}

    def to_json(self) -> str:
        """Returns text; it grows with partitions, servers and failovers, not with changes."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Numbering:
        """Reads what `to_json` wrote; the empty text gives an empty state."""
        if not text:
            return cls()
        said = json.loads(text)
        return cls(
            tuple(Restart(*each) for each in said["restarts"]),
            {int(partition): _counted(each) for partition, each in said["partitions"].items()},
        )


def _counted(said: Mapping[str, Any]) -> Counted:
    newest = said["transaction"]
    return Counted(
        next_offset=said["next_offset"],
        sent_ms=said["sent_ms"],
        newest_ts_ms=said["newest_ts_ms"],
        read_ts_ms=said["read_ts_ms"],
        serials={name: tuple(serial) for name, serial in said["serials"].items()},
        transaction=Transaction(newest[0], _place(newest[1]), _place(newest[2]))
        if newest
        else None,
        begins=tuple((offset, epoch) for offset, epoch in said["begins"]),
        stages=tuple(_stage(*each) for each in said["stages"]),
    )


def _stage(
    sent_ms: int, base: str, highest: Sequence[int] | None, read: Any, last_ms: int
) -> Stage:
    place = None if highest is None else _place(highest)
    found = None if read is None else Read(read[0], _place(read[1]))
    return Stage(sent_ms, base, place, found, last_ms)


def _place(numbers: Sequence[int]) -> Place:
    file, pos = numbers
    return (file, pos)


def epoch_at(begins: Sequence[Begin], offset: int) -> int:
    """Returns the epoch of the record at an offset of the partition."""
    after = bisect_right(begins, offset, key=lambda begin: begin[0])
    return begins[after - 1][1] if after else 0


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
        self._partitions = {p: _Partition(each) for p, each in start.partitions.items()}

    def result(self) -> Numbering:
        counted = {p: each.result() for p, each in sorted(self._partitions.items())}
        return Numbering(tuple(self._restarts), counted)

    def observe(self, record: BinlogRecord) -> None:
        partition = self._partitions.setdefault(record.partition, _Partition(Counted()))
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

    def _is_below(self, partition: _Partition, record: BinlogRecord) -> bool:
        """Returns whether a row was read after all others but is below another partition's."""
        if any(record.ts_ms <= each.read_ts_ms for each in self._partitions.values()):
            return False
        stages = self._stages(partition.epoch).values()
        earlier = (each for each in stages if each.sent_ms <= record.sent_ms)
        return any(each.is_above(record.base, record.place) for each in earlier)

    def _require_before_reads(self, partition: _Partition, record: BinlogRecord) -> None:
        """Raises unless a change sent before a counted snapshot is below that snapshot."""
        for number, stage in self._stages(partition.epoch).items():
            read = stage.read
            if read and record.sent_ms < read.sent_ms and record.place > read.place:
                raise RestartSeenLateError(number, self._partitions[number].next_offset)

    def _stages(self, epoch: int) -> dict[int, Stage]:
        """Returns the stage of an epoch for each partition that has reached it."""
        found = ((p, each.stage(epoch)) for p, each in sorted(self._partitions.items()))
        return {number: stage for number, stage in found if stage is not None}

    def _catch_up(self, partition: _Partition, record: BinlogRecord) -> None:
        """Moves a partition to the restarts that others showed before the record was sent."""
        while partition.epoch < len(self._restarts):
            next_ = self._restarts[partition.epoch]
            if record.sent_ms < next_.sent_ms:
                return
            partition.begin(record.offset, is_reset=next_.is_reset)

    def _record(self, partition: _Partition, record: BinlogRecord) -> None:
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


class _Partition:
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


def lineage_of(record: BinlogRecord) -> tuple[str, Serial]:
    """Returns a change's lineage and its serial in it."""
    if found := _MYSQL_GTID.match(record.gtid or ""):
        return found[1], (int(found[2]),)
    if found := _MARIADB_GTID.match(record.gtid or ""):
        return found[1], (int(found[2]),)
    return f"{record.server_id}/{record.base}", record.place


_MYSQL_GTID: Final = re.compile(r"^([0-9a-fA-F-]{36}(?::\w+)?):([0-9]+)\Z")
_MARIADB_GTID: Final = re.compile(r"^([0-9]+)-[0-9]+-([0-9]+)\Z")
