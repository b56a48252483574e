"""Gives the positions of MySQL's and MariaDB's changes: places in their binlogs."""

from __future__ import annotations

import re
from typing import Final, NamedTuple


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


def mysql_position(
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


def mariadb_position(
    *, epoch: int, file_number: int, pos: int, offset: int
) -> tuple[int, int, int]:
    """Returns the position of a MariaDB change: ``(epoch and file number, pos, offset)``.

    From 11.4 on, unless ``binlog_legacy_event_pos`` is on, all events of a transaction have the
    position of its begin, while ``source.row`` starts at 0 in each of them: within a transaction
    the order is that of delivery. ``transaction.total_order`` cannot replace it: connectors before
    Debezium 3.7 count from 1 again when they resume within a transaction.
    https://mariadb.com/docs/server/server-management/variables-and-modes/server-system-variables

    Args:
        epoch: see `mysql_position`.
        file_number: see `mysql_position`.
        pos: see `mysql_position`.
        offset: in Kafka.
    """
    return (epoch << 32 | file_number, pos, offset)
