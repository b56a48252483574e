"""Reads the end of a source's log, and its connector's position in it, by kind of database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cdc_assets.changes.log_places import Gtids, LogPlace, Lsn
from cdc_assets.changes.valid_through import Moment
from cdc_assets.databases.mysql.binlog_end import binlog_end
from cdc_assets.databases.postgres.slots import log_position

Offsets = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Log:
    """The functions that ask a kind of database.

    Attributes:
        parse: reads a place; ValueError if it is none.
        now: takes a DSN; returns the clock, then the end of its log; None if that end has no
            comparable place.
        acknowledged: takes a connector's committed offsets; returns the place before which all
            records were acknowledged; None if unknown.
    """

    parse: Callable[[str], LogPlace]
    now: Callable[[str], Moment[Any] | None]
    acknowledged: Callable[[Offsets], LogPlace | None]


def _postgres_now(dsn: str) -> Moment[Lsn]:
    found = log_position(dsn)
    return Moment(found.at, Lsn(found.lsn))


def _mysql_now(dsn: str) -> Moment[Gtids] | None:
    found = binlog_end(dsn)
    gtids = Gtids.of(found.gtids)
    return Moment(found.at, gtids) if gtids else None


def acknowledged_lsn(offsets: Offsets) -> Lsn | None:
    """Returns the last commit whose records were all acknowledged, from a connector's offset.

    All records from before the offset's record were acknowledged. Its ``lsn_commit`` is the last
    commit before that, and no snapshot, incremental ones included, changes it. While a snapshot is
    taken, changes before it need not be in Kafka yet.

    Args:
        offsets: of PostgreSQL's connector, which has one.
    """
    found = _only(offsets).get("lsn_commit")
    return Lsn(found) if isinstance(found, int) and not isinstance(found, bool) else None


def acknowledged_gtids(offsets: Offsets) -> Gtids | None:
    """Returns the transactions whose records were all acknowledged, from a connector's offset.

    Its ``gtids`` are those from before the transaction with which it would begin after a restart.

    Args:
        offsets: of the connector for MySQL or MariaDB, which has one.
    """
    found = _only(offsets).get("gtids")
    return Gtids.of(found) if isinstance(found, str) else None


def _only(offsets: Offsets) -> Mapping[str, Any]:
    """Returns the offset; nothing while a snapshot is taken."""
    return offsets[0] if len(offsets) == 1 and not offsets[0].get("snapshot") else {}


_BINLOG: Final = Log(Gtids.parse, _mysql_now, acknowledged_gtids)
LOGS: Final[Mapping[str, Log]] = {
    "postgres": Log(Lsn.parse, _postgres_now, acknowledged_lsn),
    "mysql": _BINLOG,
    "mariadb": _BINLOG,
}
"""The logs, by the kind of `sources.….database`."""
