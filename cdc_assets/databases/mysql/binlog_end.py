"""Reads which transactions a MySQL or MariaDB server has written to its binlog, and when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cdc_assets.databases.mysql.connection import asked

_NOW: Final = "SELECT UTC_TIMESTAMP(6), VERSION() LIKE '%%MariaDB%%'"
_ENDS: Final = {
    True: "SELECT @@global.gtid_binlog_pos",
    False: "SELECT @@global.gtid_executed",
}
"""Of MariaDB, whose servers all have GTIDs; of MySQL, empty unless ``gtid_mode`` is on."""


@dataclass(frozen=True, slots=True)
class BinlogEnd:
    """A moment at the server: whatever had been committed before ``at`` is among ``gtids``.

    Attributes:
        at: by the server's clock, aware.
        gtids: as the server writes them; empty if it has none.
    """

    at: datetime
    gtids: str


def binlog_end(dsn: str) -> BinlogEnd:
    """Reads the clock, then the GTIDs, so that these are never too few for the time.

    A commit is answered only once its transaction is among them.

    Raises:
        CdcError: as `cdc_assets.databases.mysql.catalog.read_tables`.
    """
    (((now, is_mariadb),),) = asked(dsn, (_NOW, {}))
    (((gtids,),),) = asked(dsn, (_ENDS[bool(is_mariadb)], {}))
    return BinlogEnd(now.replace(tzinfo=UTC), str(gtids or ""))
