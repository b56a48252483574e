"""Gives the positions of SQL Server's changes."""

from __future__ import annotations

import re
from typing import Final

from cdc_assets.changes.position.encoding import LAST
from cdc_assets.changes.position.scheme import Scheme, in_epoch

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


def sqlserver_position(
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
    commit = (in_epoch(Scheme.SQLSERVER, epoch, commit_lsn[0]), commit_lsn[1])
    if change_lsn is None:
        return (*commit, LAST, LAST, LAST, offset)
    return (*commit, *change_lsn, serial, offset)
