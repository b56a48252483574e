"""Encodes the source's position of a change as numbers whose order is source order.

A position is a tuple of non-negative 63-bit numbers, compared from left to right; as bytes,
each number is 8 bytes big-endian, so that byte order is the same order. The last number is
always the Kafka offset: equal positions fall back to Kafka order (docs/ARCHITECTURE.md).

===========  =================================================================================
scheme       numbers before the offset
===========  =================================================================================
`postgres`   epoch and last commit LSN, LSN
`binlog`     epoch and file number, position in the file, row of the event (MySQL)
`mariadb`    epoch and file number, position in the file
`sqlserver`  epoch and commit LSN (two numbers), change LSN (two numbers), serial number
`oracle`     epoch and commit SCN, SCN, place in the transaction
`mongodb`    seconds of the cluster time, ordinal
`yugabyte`   commit time, term, index, write id
`tidb`       commit timestamp
`trail`      epoch and sequence number of the trail file, byte in it
`offset`     none
===========  =================================================================================

A row of a snapshot has a position too: it is newer than everything that the snapshot contains and
older than everything that it does not. Where the source only gives the last commit that it
contains, the numbers below the commit are `LAST`, so that it wins over all changes of that commit.

The *epoch* rises where a source's numbering starts again lower (`cdc_assets.changes.restarts`,
for binlogs `cdc_assets.changes.numbering`). Until then it is 0 and does not show.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

LAST: Final = 2**63 - 1
"""Above any number of a change: the end of a commit that a snapshot contains completely."""


class Scheme(StrEnum):
    """The scheme of one table's positions. It never changes while the table lives."""

    POSTGRES = "postgres"
    BINLOG = "binlog"
    MARIADB = "mariadb"
    SQLSERVER = "sqlserver"
    ORACLE = "oracle"
    MONGODB = "mongodb"
    YUGABYTE = "yugabyte"
    TIDB = "tidb"
    TRAIL = "trail"
    OFFSET = "offset"

    @property
    def numbers(self) -> int:
        """The number of numbers in a position, including the Kafka offset."""
        return _NUMBERS[self]


_NUMBERS: Final = {
    Scheme.POSTGRES: 3,
    Scheme.BINLOG: 4,
    Scheme.MARIADB: 3,
    Scheme.SQLSERVER: 6,
    Scheme.ORACLE: 4,
    Scheme.MONGODB: 3,
    Scheme.YUGABYTE: 5,
    Scheme.TIDB: 2,
    Scheme.TRAIL: 3,
    Scheme.OFFSET: 1,
}


_EPOCH_BITS: Final = {
    Scheme.POSTGRES: 52,
    Scheme.BINLOG: 32,
    Scheme.MARIADB: 32,
    Scheme.SQLSERVER: 32,
    Scheme.ORACLE: 52,
    Scheme.TRAIL: 34,
}
"""An LSN counts bytes of the write-ahead log: 52 bits are four petabytes. An SCN had 48 bits until
Oracle 12.2, and the rate at which it may rise since fills no more within decades. Of a SQL Server
LSN the first 32 bits are a number of their own. A trail file's number has ten digits."""


def epoch_bits(scheme: Scheme) -> int:
    """Returns the bits of a position's first number below its epoch; larger numbers have none.

    Raises:
        KeyError: if positions of the scheme have no epoch.
    """
    return _EPOCH_BITS[scheme]


def _in_epoch(scheme: Scheme, epoch: int, number: int) -> int:
    """Returns a first number with its epoch.

    Raises:
        ValueError: if the number reaches into the bits of the epoch.
    """
    bits = epoch_bits(scheme)
    if number >> bits:
        msg = f"a {scheme} position above {bits} bits cannot be told from one of a later epoch"
        raise ValueError(msg)
    return epoch << bits | number


def encode(numbers: Sequence[int]) -> bytes:
    """Returns the bytes of a position.

    Raises:
        ValueError: if a number is negative or needs more than 63 bits.
    """
    if any(not 0 <= number < 2**63 for number in numbers):
        msg = "a position holds non-negative signed 64-bit numbers"
        raise ValueError(msg)
    return struct.pack(f">{len(numbers)}q", *numbers)


def decode(position: bytes) -> tuple[int, ...]:
    """Returns the numbers of an encoded position."""
    return struct.unpack(f">{len(position) // 8}q", position)


NUMBER_DIGITS: Final = 16
"""Hexadecimal digits of each number of a position."""


def without_offset(position: str) -> str:
    """Returns the part of a position that all deliveries of an event share; hexadecimal."""
    return position[:-NUMBER_DIGITS]


# ── PostgreSQL ────────────────────────────────────────────────────────────────────────────


def postgres(
    *,
    sequence_commit: int | None,
    lsn: int,
    offset: int,
    is_read: bool,
    read_floor: int,
    epoch: int = 0,
) -> tuple[int, int, int]:
    """Returns the position of a PostgreSQL change: ``(last commit LSN, LSN, offset)``.

    For one key, LSN order is commit order, since row locks serialise its writers. Across
    transactions it is not, since they interleave. The pair of ``source.sequence`` follows the order
    of emission, which is commit order. Three cases need more than the pair:

    - A row of a complete snapshot (``read``) has no last commit. It was read at its LSN, and
      every transaction that it does not contain commits after that: it counts as committed there,
      before any change that follows that commit.
    - A row of an incremental snapshot is sent amid changes and has the ``sequence`` of the
      change that it is sent before, which it may not contain: with ``read.only`` a change of its
      own key closes the window. All changes that follow that last commit may be newer than the row,
      and earlier ones are in it. So it counts as committed there.
      https://debezium.io/documentation/reference/3.6/connectors/postgresql.html#postgresql-read-only-incremental-snapshots
    - The first transaction after a connector's start has no last commit either. Its changes
      may have an LSN *below* that of a snapshot row (it ran while the slot was made), but are
      newer. They follow the *read floor*: the LSN of the latest complete snapshot that began
      before them in their partition. A later one would lift redeliveries and replays above newer
      rows; see `floor_at`.

    Args:
        sequence_commit: first element of ``source.sequence``; None where it is null or absent,
            and of rows of complete snapshots.
        lsn: ``source.lsn``; rows of an incremental snapshot have it only as the second
            element of ``source.sequence``.
        offset: in Kafka.
        is_read: whether the change is a row of a snapshot.
        read_floor: of the change's place in the log, with its epoch; see `floor_at`.
        epoch: of the change's place in the log.

    Raises:
        ValueError: if an LSN reaches into the bits of the epoch.
    """
    follows = lsn if sequence_commit is None else sequence_commit
    first = _in_epoch(Scheme.POSTGRES, epoch, follows)
    if is_read:
        return (first, 0, offset)
    return (max(first, read_floor) if sequence_commit is None else first, lsn, offset)


Floors = Mapping[int, Sequence[tuple[int, int]]]
"""By partition, the offset of the first row of each complete snapshot and its LSN, ascending.

The LSN is as in positions: with its epoch.

Every partition that the topic had when the table was made is present, also those without rows.
"""


def floor_at(floors: Floors, partition: int, offset: int) -> int:
    """Returns the read floor of a change; 0 if no snapshot began before it.

    A missing partition was added later: its rows' snapshot may be in another partition, so the
    log's first one counts.
    """
    if partition not in floors:
        return min((lsn for begins in floors.values() for _, lsn in begins), default=0)
    return max((lsn for begin, lsn in floors[partition] if begin < offset), default=0)


def with_snapshot(floors: Floors, begins: Mapping[tuple[int, int], int]) -> Floors:
    """Adds snapshots, given by ``(partition, LSN)`` and the offset of the first row."""
    found = {partition: dict[int, int]() for partition, _ in begins}
    for partition, known in floors.items():
        found.setdefault(partition, {}).update({lsn: offset for offset, lsn in known})
    for (partition, lsn), offset in begins.items():
        found[partition][lsn] = min(offset, found[partition].get(lsn, offset))
    return {
        partition: tuple(sorted((offset, lsn) for lsn, offset in each.items()))
        for partition, each in sorted(found.items())
    }


def with_snapshots(
    floors: Floors,
    starts: Mapping[int, int],
    newest_read: int | None,
    begins: Callable[[], Mapping[tuple[int, int], int]],
) -> Floors:
    """Adds the complete snapshots that a batch has rows of, in the partitions that have the rows.

    A snapshot reaches one partition earlier than another. So where it begins is asked for until
    it, or a later one, has begun before the batch in every partition that the batch reads.

    Args:
        floors: known ones.
        starts: first offset of the batch by partition, of those that it reads.
        newest_read: highest LSN of its rows of complete snapshots; None without any.
        begins: returns the offset of their first row in the batch, by ``(partition, LSN)``; costs
            a reading of the batch.
    """
    if newest_read is None:
        return floors
    if all(_begun_before(floors, *start) >= newest_read for start in starts.items()):
        return floors
    return with_snapshot(floors, begins())


def _begun_before(floors: Floors, partition: int, offset: int) -> int:
    begun = floors.get(partition, ())
    return max((lsn for begin, lsn in begun if begin < offset), default=-1)


# ── MySQL, MariaDB ────────────────────────────────────────────────────────────────────────


class BinlogFile(NamedTuple):
    """A binlog file's name in two parts; files of one base follow each other by number."""

    base: str
    number: int


def binlog_file(name: str) -> BinlogFile | None:
    """Splits a name like ``mysql-bin.000009``; None if it is not one.

    The number has six digits until it needs more (``mysql-bin.1000000`` comes after
    ``mysql-bin.999999``), so names must not be compared as text.
    https://dev.mysql.com/doc/refman/8.4/en/binary-log.html
    """
    found = _BINLOG_FILE.match(name)
    return BinlogFile(found[1], int(found[2])) if found and int(found[2]) < 2**32 else None


_BINLOG_FILE: Final = re.compile(r"^(.+)\.([0-9]{1,10})\Z", re.DOTALL)


def binlog(
    *, epoch: int, file_number: int, pos: int, row: int, offset: int
) -> tuple[int, int, int, int]:
    """Returns the position of a MySQL change: ``(epoch and file number, pos, row, offset)``.

    ``source.pos`` is where the binlog event begins and ``source.row`` is the row in it, from 0.
    Rows of a snapshot carry the binlog position that the snapshot is consistent with, which is
    the end of the last event that it contains; rows of an incremental one that of the watermark.
    https://debezium.io/documentation/reference/stable/connectors/mysql.html (``source``)

    Args:
        epoch: of the numbering, see `cdc_assets.changes.numbering`; below 2**31.
        file_number: see `binlog_file`.
        pos: ``source.pos``.
        row: ``source.row``.
        offset: in Kafka.
    """
    return (epoch << 32 | file_number, pos, row, offset)


def mariadb(*, epoch: int, file_number: int, pos: int, offset: int) -> tuple[int, int, int]:
    """Returns the position of a MariaDB change: ``(epoch and file number, pos, offset)``.

    From 11.4 on, unless ``binlog_legacy_event_pos`` is on, all events of a transaction have the
    position of its begin, while ``source.row`` starts at 0 in each of them: within a transaction
    the order is that of delivery. ``transaction.total_order`` cannot replace it: connectors before
    Debezium 3.7 count from 1 again when they resume within a transaction.
    https://mariadb.com/docs/server/server-management/variables-and-modes/server-system-variables

    Args:
        epoch: see `binlog`.
        file_number: see `binlog`.
        pos: see `binlog`.
        offset: in Kafka.
    """
    return (epoch << 32 | file_number, pos, offset)


# ── SQL Server ────────────────────────────────────────────────────────────────────────────


SqlServerLsn = tuple[int, int]
"""A log sequence number of 80 bits, as its first 32 and its other 48: compares as the LSN does."""


def sqlserver_lsn(text: str) -> SqlServerLsn | None:
    """Parses an LSN as Debezium writes it, ``00000027:00000758:0005``; None if it is not one.

    The parts are the virtual log file's sequence number, the block and the slot in it.
    https://learn.microsoft.com/sql/relational-databases/sql-server-transaction-log-architecture-and-management-guide
    """
    found = _SQLSERVER_LSN.match(text)
    return (int(found[1], 16), int(found[2] + found[3], 16)) if found else None


_SQLSERVER_LSN: Final = re.compile(r"^([0-9a-fA-F]{8}):([0-9a-fA-F]{8}):([0-9a-fA-F]{4})\Z")


def sqlserver(
    *,
    commit_lsn: SqlServerLsn,
    change_lsn: SqlServerLsn | None,
    serial: int,
    offset: int,
    epoch: int = 0,
) -> tuple[int, int, int, int, int, int]:
    """Returns a SQL Server change's position: ``(commit LSN, change LSN, serial, offset)``.

    ``source.event_serial_no`` distinguishes changes of the same commit and change LSN. Rows of
    an initial or blocking snapshot have only a commit LSN, the highest of the database when
    the snapshot began; rows of an incremental one have all of the watermark's.
    https://debezium.io/documentation/reference/stable/connectors/sqlserver.html

    Args:
        commit_lsn: ``source.commit_lsn``.
        change_lsn: ``source.change_lsn``; None if absent.
        serial: ``source.event_serial_no``, 0 if absent; has no meaning without a change LSN.
        offset: in Kafka.
        epoch: of the change's place in the log.
    """
    commit = (_in_epoch(Scheme.SQLSERVER, epoch, commit_lsn[0]), commit_lsn[1])
    if change_lsn is None:
        return (*commit, LAST, LAST, LAST, offset)
    return (*commit, *change_lsn, serial, offset)


# ── Oracle ────────────────────────────────────────────────────────────────────────────────


def oracle(
    *, commit_scn: int | None, scn: int, order: int, offset: int, is_read: bool, epoch: int = 0
) -> tuple[int, int, int, int]:
    """Returns the position of an Oracle change: ``(commit SCN, SCN, order, offset)``.

    A snapshot reads ``AS OF SCN`` S, which contains everything committed up to S, and its rows have
    S as ``source.scn``. They have no commit SCN, or an older one of a change streamed before.
    https://debezium.io/documentation/reference/stable/connectors/oracle.html

    Args:
        commit_scn: ``source.commit_scn``; None if absent, which only a snapshot's row may be.
        scn: ``source.scn``, of the change.
        order: ``source.txSeq``, the change's place in its transaction; of connectors that do
            not write it ``source.ssn``, the sequence number within a redo record; else 0.
            ``source.rs_id``, a redo address, adds nothing to the first.
        offset: in Kafka.
        is_read: whether the change is a row of a snapshot.
        epoch: of the change's place in the log.

    Raises:
        ValueError: if a streamed change has no commit SCN, or one that reaches into the bits of
            the epoch.
    """
    if is_read and (commit_scn is None or commit_scn < scn):
        return (_in_epoch(Scheme.ORACLE, epoch, scn), scn, LAST, offset)
    if commit_scn is None:
        msg = "a streamed change without a commit SCN has no position"
        raise ValueError(msg)
    return (_in_epoch(Scheme.ORACLE, epoch, commit_scn), scn, order, offset)


# ── MongoDB ───────────────────────────────────────────────────────────────────────────────


def mongodb(*, seconds: int, ordinal: int, offset: int) -> tuple[int, int, int]:
    """Returns a MongoDB change's position: ``(seconds, ordinal, offset)`` of its cluster time.

    Changes of one transaction share a cluster time; they count in Kafka order.
    https://www.mongodb.com/docs/manual/reference/bson-types/#timestamps

    Args:
        seconds: ``source.ts_ms`` in whole seconds, where it holds the cluster time; see
            `scheme_of`.
        ordinal: ``source.ord``.
        offset: in Kafka.
    """
    return (seconds, ordinal, offset)


# ── YugabyteDB ────────────────────────────────────────────────────────────────────────────


YugabyteOp = tuple[int, int, int]
"""A tablet's Raft operation and a write in it: term, index, write id."""


def yugabyte_op(text: str) -> YugabyteOp | None:
    """Parses an operation in ``source.lsn``, ``term:index:key:write_id:time``; None if not one.

    The key and the time only say where a snapshot of the tablet continues.
    https://github.com/yugabyte/debezium-connector-yugabytedb (``OpId``)
    """
    found = _YUGABYTE_OP.match(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


_YUGABYTE_OP: Final = re.compile(
    r"^([0-9]{1,18}):([0-9]{1,18}):[^:]*:([0-9]{1,18})(?::[^:]*)?\Z", re.DOTALL
)


def yugabyte(
    *, commit_time: int, op: YugabyteOp | None, offset: int
) -> tuple[int, int, int, int, int]:
    """Returns a YugabyteDB change's position: ``(commit time, term, index, write id, offset)``.

    The commit time is the hybrid time by which the database itself orders the versions of a
    row, over all tablets and also after a tablet was split. Within a transaction, and so
    within its tablet, the operation orders the writes. A snapshot's row contains everything
    committed up to the time at which it was read, which is its commit time.

    Args:
        commit_time: ``source.commit_time``: microseconds since 1970 shifted left by 12 bits,
            and a logical counter in these. It needs more than 63 bits from the year 2041 on.
        op: of ``source.lsn``; None for a row of a snapshot.
        offset: in Kafka.
    """
    if op is None:
        return (commit_time, LAST, LAST, LAST, offset)
    return (commit_time, *op, offset)


# ── TiDB ──────────────────────────────────────────────────────────────────────────────────


def tidb(*, commit_ts: int, offset: int) -> tuple[int, int]:
    """Returns the position of a TiDB change: ``(commit timestamp, offset)``.

    The timestamp oracle gives each transaction one, in the order of commits over the whole cluster.
    A transaction leaves one change of each key.
    https://docs.pingcap.com/tidb/stable/tso

    Args:
        commit_ts: ``_tidb.commitTs``: milliseconds since 1970 shifted left by 18 bits, and a
            counter in these.
        offset: in Kafka.
    """
    return (commit_ts, offset)


# ── GoldenGate ────────────────────────────────────────────────────────────────────────────


TrailPlace = tuple[int, int]
"""A record of a trail: the file's sequence number, and the byte at which it ends or begins."""


def trail_place(text: str) -> TrailPlace | None:
    """Parses a place as GoldenGate writes it, twenty digits; None if it is not one.

    Ten digits of the file's sequence number, ten of the relative byte address in the file.
    https://docs.oracle.com/en/middleware/goldengate/big-data/21.1/gadbd/ (metacolumn
    ``${position}``, "concatenated sequence number and RBA")
    """
    return (int(text[:10]), int(text[10:])) if _TRAIL_PLACE.match(text) else None


_TRAIL_PLACE: Final = re.compile(r"^[0-9]{20}\Z")


def trail(*, place: TrailPlace, offset: int, epoch: int = 0) -> tuple[int, int, int]:
    """Returns the position of a change in a trail: ``(epoch and file, byte, offset)``.

    A trail contains whole transactions in commit order. A change of the key that comes as a delete
    and an insert has one place and two keys.

    Args:
        place: ``pos``, see `trail_place`.
        offset: in Kafka.
        epoch: of the change's place in the log.
    """
    return (_in_epoch(Scheme.TRAIL, epoch, place[0]), place[1], offset)


# ── which scheme ──────────────────────────────────────────────────────────────────────────


def scheme_of(source: Mapping[str, object]) -> Scheme:
    """Returns the scheme of a table, from the ``source`` of one of its records.

    A source whose position is not filled in, such as an empty binlog file name, is ordered by
    the Kafka offset, like an unknown connector.

    So is MongoDB, though there is a scheme for it. Rows of its snapshots have no cluster time
    (``ord`` is -1 and ``ts_ms`` is the connector's clock), and since Debezium 3.4 ``ts_ms`` of
    changes is wall time, whose second may differ from that of ``ord``.
    """
    is_read = source.get("snapshot") not in (None, False, "false")
    match source.get("connector"):
        case "postgresql" if _number(source, "lsn") or (is_read and _text(source, "sequence")):
            return Scheme.POSTGRES
        case "mysql" if _in_binlog(source):
            return Scheme.BINLOG
        case "mariadb" if _in_binlog(source):
            return Scheme.MARIADB
        case "sqlserver" if sqlserver_lsn(_text(source, "commit_lsn")):
            return Scheme.SQLSERVER
        case "oracle" if _number(source, "scn") and (is_read or _number(source, "commit_scn")):
            return Scheme.ORACLE
        case "yugabytedb" if is_read or yugabyte_op(_text(source, "lsn")):
            return Scheme.YUGABYTE if _number(source, "commit_time") else Scheme.OFFSET
        case "ticdc" if _number(source, "commitTs"):
            return Scheme.TIDB
        case "goldengate" if trail_place(_text(source, "pos")):
            return Scheme.TRAIL
        case _:
            return Scheme.OFFSET


def _in_binlog(source: Mapping[str, object]) -> bool:
    return bool(binlog_file(_text(source, "file")) and _number(source, "pos"))


def _text(source: Mapping[str, object], name: str) -> str:
    value = source.get(name)
    return value if isinstance(value, str) else ""


def _number(source: Mapping[str, object], name: str) -> int:
    """Returns a number, also from decimal text; 0 if it is neither."""
    value = source.get(name)
    if isinstance(value, str):
        return int(value) if _DECIMAL.match(value) else 0
    return value if isinstance(value, int) else 0


_DECIMAL: Final = re.compile(r"^[0-9]{1,19}\Z")
