"""When the numbering of binlog files starts again: the epochs of a Kafka partition.

After a failover, or after ``RESET BINARY LOGS``, a MySQL or MariaDB server numbers its binlog
files by itself: changes that are new have positions that look old. The *epoch* stands before
the file number in a position (`cdc_assets.changes.position.binlog`) and rises where that
happens, so that what is new is higher again.

Debezium emits changes in binlog order. Hence, within one numbering, a change that is delivered
for the first time lies above all that the partition had before. What does not is either a
change delivered again, or the first of another numbering. Two things tell which:

- *Lineage and serial*, which a change keeps wherever it is replicated to: of a GTID ``uuid:n``
  (MySQL) the uuid and n, of ``domain-server-seq`` (MariaDB) the domain and the sequence number;
  without a GTID the server that committed it, the files' base name and the place. Serials rise
  within a lineage, so one above the highest so far was never delivered before. A transaction
  has one serial and many places: if it is the newest of all and one of its changes lies outside
  the places seen of it, it was numbered again, and what is left of it comes now.
- *Time*, of a snapshot's rows. Theirs is that of their reading, and whatever GTID they carry is
  not their own. A row delivered again keeps its time, so that one above every time so far was
  read anew. A reset takes a new snapshot, since it takes the connector's position away.

The guarantee: a change delivered for the first time has a position above all that the
partition had before; within one numbering no epoch is raised, and a change delivered again has
the position it had. What is not promised: a change delivered again *out of another numbering*
has another position than before, until its successors have come again too.

Not seen: servers without GTIDs that pass on each other's changes (a chain), when the connector
moves from one to another; a reset in partitions to which its snapshot brings no row; what is
left of a transaction that is cut by two failovers, or whose places happen to fall among those
seen of it. The first transaction after that is seen again.

https://dev.mysql.com/doc/refman/8.4/en/replication-gtids-concepts.html
https://mariadb.com/docs/server/ha-and-performance/standard-replication/gtid
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

Place = tuple[int, int, int]
"""File number, position in it, row of the event."""

Restart = tuple[int, int]
"""The Kafka offset where an epoch begins, and the epoch."""

Serial = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BinlogRecord:
    """What a change tells of the binlog that it was read from.

    Attributes:
        offset: in its Kafka partition.
        base: of the binlog file's name, see `cdc_assets.changes.position.binlog_file`.
        place: file number, position, row.
        gtid: of the transaction; None if the server writes none.
        server_id: of the server that first committed it.
        ts_ms: the source's time.
        is_snapshot: whether it is a row of a snapshot.
    """

    offset: int
    base: str
    place: Place
    gtid: str | None
    server_id: int
    ts_ms: int
    is_snapshot: bool


class Transaction(NamedTuple):
    """The newest transaction: its lineage, with the lowest and the highest place seen of it."""

    lineage: str
    first: Place
    last: Place


@dataclass(frozen=True, slots=True)
class Numbering:
    """What a partition's records up to an offset tell of the numbering.

    Attributes:
        next_offset: of the first record that is not counted yet.
        base: base name of the epoch's files.
        highest: highest place of the epoch; None before the first record.
        newest_ts_ms: highest time so far.
        serials: the highest of each lineage.
        transaction: the newest; None if there was only a snapshot.
        restarts: where each epoch after the first began, in offset order.
    """

    next_offset: int = 0
    base: str = ""
    highest: Place | None = None
    newest_ts_ms: int = -1
    serials: Mapping[str, Serial] = field(default_factory=dict[str, Serial])
    transaction: Transaction | None = None
    restarts: tuple[Restart, ...] = ()

    @property
    def epoch(self) -> int:
        """The epoch of the next record, if that starts none."""
        return self.restarts[-1][1] if self.restarts else 0

    def to_json(self) -> str:
        """As text; it grows with servers and failovers, not with changes."""
        return json.dumps(
            {
                "next_offset": self.next_offset,
                "base": self.base,
                "highest": self.highest,
                "newest_ts_ms": self.newest_ts_ms,
                "serials": self.serials,
                "transaction": self.transaction,
                "restarts": self.restarts,
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> Numbering:
        """The inverse of `to_json`."""
        said = json.loads(text)
        highest, newest = said["highest"], said["transaction"]
        return cls(
            next_offset=said["next_offset"],
            base=said["base"],
            highest=_place(highest) if highest else None,
            newest_ts_ms=said["newest_ts_ms"],
            serials={name: tuple(serial) for name, serial in said["serials"].items()},
            transaction=Transaction(newest[0], _place(newest[1]), _place(newest[2]))
            if newest
            else None,
            restarts=tuple((offset, epoch) for offset, epoch in said["restarts"]),
        )


def _place(numbers: Sequence[int]) -> Place:
    file, pos, row = numbers
    return (file, pos, row)


def epoch_at(restarts: Sequence[Restart], offset: int) -> int:
    """The epoch of the record at an offset of the partition."""
    after = bisect_right(restarts, offset, key=lambda restart: restart[0])
    return restarts[after - 1][1] if after else 0


def scan(numbering: Numbering, records: Iterable[BinlogRecord]) -> tuple[Numbering, list[Restart]]:
    """Count a partition's next records.

    Args:
        numbering: of the records before.
        records: in offset order. Those below ``numbering.next_offset`` were counted before
            and are skipped.

    Returns:
        The numbering after them, and the restarts among them; ``restarts`` of the numbering
        has all of the partition.
    """
    counting = _Counting(numbering)
    for record in records:
        if record.offset >= counting.next_offset:
            counting.observe(record)
    return counting.result(numbering), counting.restarts


class _Counting:
    """The state of a scan, record by record."""

    def __init__(self, start: Numbering) -> None:
        self.next_offset = start.next_offset
        self.restarts: list[Restart] = []
        self._epoch = start.epoch
        self._base = start.base
        self._highest = start.highest
        self._newest_ts_ms = start.newest_ts_ms
        self._serials = dict(start.serials)
        self._transaction = start.transaction

    def result(self, start: Numbering) -> Numbering:
        return Numbering(
            next_offset=self.next_offset,
            base=self._base,
            highest=self._highest,
            newest_ts_ms=self._newest_ts_ms,
            serials=self._serials,
            transaction=self._transaction,
            restarts=(*start.restarts, *self.restarts),
        )

    def observe(self, record: BinlogRecord) -> None:
        if record.is_snapshot:
            self._observe_read(record)
        else:
            self._observe_change(record)
        self.next_offset = record.offset + 1
        self._newest_ts_ms = max(self._newest_ts_ms, record.ts_ms)

    def _observe_read(self, record: BinlogRecord) -> None:
        same = record.base == self._base and record.place == self._highest
        if self._advance(record) or same or record.ts_ms <= self._newest_ts_ms:
            return
        self._restart(record)
        # The server may have been reset: its serials may start again as well.
        self._serials, self._transaction = {}, None

    def _observe_change(self, record: BinlogRecord) -> None:
        lineage, serial = lineage_of(record)
        known, newest = self._serials.get(lineage), self._transaction
        is_new = known is None or serial > known
        if is_new:
            self._serials[lineage] = serial
        is_newest = serial == known and newest is not None and newest.lineage == lineage
        first, last = newest[1:] if is_newest and newest else (record.place, record.place)
        is_outside = is_newest and not first <= record.place <= last
        at_a_read = self._is_at_a_read(record)
        if not self._advance(record) and (is_new or is_outside) and not at_a_read:
            self._restart(record)
            first = last = record.place
        if is_new or is_newest:
            first, last = min(first, record.place), max(last, record.place)
            self._transaction = Transaction(lineage, first, last)

    def _is_at_a_read(self, record: BinlogRecord) -> bool:
        """Whether the highest place is a snapshot's, and the record's too: the offset is higher.

        MariaDB from 11.4 on gives all changes of a transaction the place where it begins, unless
        ``binlog_legacy_event_pos`` is on: the first one after a snapshot has the snapshot's.
        """
        is_there = record.base == self._base and record.place == self._highest
        return is_there and (self._transaction is None or self._transaction.last != record.place)

    def _advance(self, record: BinlogRecord) -> bool:
        """Whether the record lies above all before it; takes its place into account."""
        highest = self._highest
        if highest is None:
            self._base, self._highest = record.base, record.place
            return True
        self._highest = max(highest, record.place)
        return record.base == self._base and record.place > highest

    def _restart(self, record: BinlogRecord) -> None:
        self._epoch += 1
        self.restarts.append((record.offset, self._epoch))
        self._base, self._highest = record.base, record.place


def lineage_of(record: BinlogRecord) -> tuple[str, Serial]:
    """The lineage of a change and its serial in it."""
    if found := _MYSQL_GTID.match(record.gtid or ""):
        return found[1], (int(found[2]),)
    if found := _MARIADB_GTID.match(record.gtid or ""):
        return found[1], (int(found[2]),)
    return f"{record.server_id}/{record.base}", record.place[:2]


_MYSQL_GTID: Final = re.compile(r"^([0-9a-fA-F-]{36}(?::\w+)?):([0-9]+)\Z")
_MARIADB_GTID: Final = re.compile(r"^([0-9]+)-[0-9]+-([0-9]+)\Z")
