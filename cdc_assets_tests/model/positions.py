"""States each source's order of changes a second time, for the tests of `cdc_assets.formats.order`.

The rules stand with the orders; here each is a function of plain numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from cdc_assets.changes.numbering import Begin
from cdc_assets.changes.position import LAST, Scheme, epoch_bits
from cdc_assets.changes.position.scheme import SqlServerLsn, TrailPlace, YugabyteOp


def in_epoch(scheme: Scheme, epoch: int, number: int) -> int:
    """Returns a first number with its epoch.

    Raises:
        ValueError: if the number reaches into the bits of the epoch.
    """
    bits = epoch_bits(scheme)
    if number >> bits:
        msg = f"a {scheme} position above {bits} bits cannot be told from one of a later epoch"
        raise ValueError(msg)
    return epoch << bits | number


def epoch_at(begins: Sequence[Begin], offset: int) -> int:
    """Returns the epoch of the record at an offset of the partition."""
    after = bisect_right(begins, offset, key=lambda begin: begin[0])
    return begins[after - 1][1] if after else 0


def postgres_position(
    *,
    sequence_commit: int | None,
    lsn: int,
    offset: int,
    is_read: bool,
    low_watermark: int,
    epoch: int = 0,
) -> tuple[int, int, int]:
    """Returns the position of a PostgreSQL change: ``(last commit LSN, LSN, offset)``.

    The rule: `cdc_assets.formats.order.postgres.PostgresOrder`.

    Args:
        sequence_commit: first element of ``source.sequence``; None where it is null or absent,
            and of rows of complete snapshots.
        lsn: ``source.lsn``; rows of an incremental snapshot have it only as the second
            element of ``source.sequence``.
        offset: in Kafka.
        is_read: whether the change is a row of a snapshot.
        low_watermark: of the change's place in the log, with its epoch; see
            `cdc_assets.changes.position.low_watermark_at`.
        epoch: of the change's place in the log.

    Raises:
        ValueError: if an LSN reaches into the bits of the epoch.
    """
    follows = lsn if sequence_commit is None else sequence_commit
    first = in_epoch(Scheme.POSTGRES, epoch, follows)
    if is_read:
        return (first, 0, offset)
    return (max(first, low_watermark) if sequence_commit is None else first, lsn, offset)


def mysql_position(
    *, epoch: int, file_number: int, pos: int, row: int, offset: int
) -> tuple[int, int, int, int]:
    """Returns the position of a MySQL change: ``(epoch and file number, pos, row, offset)``.

    The rule: `cdc_assets.formats.order.binlog.BinlogOrder`.

    Args:
        epoch: of the numbering, see `cdc_assets.changes.numbering`; below 2**31.
        file_number: see `binlog_file`.
        pos: ``source.pos``.
        row: ``source.row``.
        offset: in Kafka.
    """
    return (epoch << 32 | file_number, pos, row, offset)


def mariadb_position(
    *, epoch: int, file_number: int, pos: int, offset: int
) -> tuple[int, int, int]:
    """Returns the position of a MariaDB change: ``(epoch and file number, pos, offset)``.

    The rule: `cdc_assets.formats.order.binlog.MariaDbOrder`.

    Args:
        epoch: see `mysql_position`.
        file_number: see `mysql_position`.
        pos: see `mysql_position`.
        offset: in Kafka.
    """
    return (epoch << 32 | file_number, pos, offset)


def sqlserver_position(
    *,
    commit_lsn: SqlServerLsn,
    change_lsn: SqlServerLsn | None,
    serial: int,
    offset: int,
    epoch: int = 0,
) -> tuple[int, int, int, int, int, int]:
    """Returns a SQL Server change's position: ``(commit LSN, change LSN, serial, offset)``.

    The rule: `cdc_assets.formats.order.sqlserver.SqlServerOrder`.

    Args:
        commit_lsn: ``source.commit_lsn``.
        change_lsn: ``source.change_lsn``; None if absent.
        serial: ``source.event_serial_no``, 0 if absent; has no meaning without a change LSN.
        offset: in Kafka.
        epoch: of the change's place in the log.
    """
    commit = (in_epoch(Scheme.SQLSERVER, epoch, commit_lsn[0]), commit_lsn[1])
    if change_lsn is None:
        return (*commit, LAST, LAST, LAST, offset)
    return (*commit, *change_lsn, serial, offset)


def oracle_position(
    *, commit_scn: int | None, scn: int, order: int, offset: int, is_read: bool, epoch: int = 0
) -> tuple[int, int, int, int]:
    """Returns the position of an Oracle change: ``(commit SCN, SCN, order, offset)``.

    The rule: `cdc_assets.formats.order.oracle.OracleOrder`.

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
        return (in_epoch(Scheme.ORACLE, epoch, scn), scn, LAST, offset)
    if commit_scn is None:
        msg = "a streamed change without a commit SCN has no position"
        raise ValueError(msg)
    return (in_epoch(Scheme.ORACLE, epoch, commit_scn), scn, order, offset)


def yugabyte_position(
    *, commit_time: int, op: YugabyteOp | None, offset: int
) -> tuple[int, int, int, int, int]:
    """Returns a YugabyteDB change's position: ``(commit time, term, index, write id, offset)``.

    The rule: `cdc_assets.formats.order.yugabyte.YugabyteOrder`.

    Args:
        commit_time: ``source.commit_time``: microseconds since 1970 shifted left by 12 bits,
            and a logical counter in these. It needs more than 63 bits from the year 2041 on.
        op: of ``source.lsn``; None for a row of a snapshot.
        offset: in Kafka.
    """
    if op is None:
        return (commit_time, LAST, LAST, LAST, offset)
    return (commit_time, *op, offset)


def tidb_position(*, commit_ts: int, offset: int) -> tuple[int, int]:
    """Returns the position of a TiDB change: ``(commit timestamp, offset)``.

    The rule: `cdc_assets.formats.order.tidb.TidbOrder`.

    Args:
        commit_ts: ``_tidb.commitTs``: milliseconds since 1970 shifted left by 18 bits, and a
            counter in these.
        offset: in Kafka.
    """
    return (commit_ts, offset)


def trail_position(*, place: TrailPlace, offset: int, epoch: int = 0) -> tuple[int, int, int]:
    """Returns the position of a change in a trail: ``(epoch and file, byte, offset)``.

    The rule: `cdc_assets.formats.order.trail.TrailOrder`.

    Args:
        place: ``pos``, see `trail_place`.
        offset: in Kafka.
        epoch: of the change's place in the log.
    """
    return (in_epoch(Scheme.TRAIL, epoch, place[0]), place[1], offset)
