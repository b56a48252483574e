"""Where a source's log ends, and where its connector is in it, by kind of database."""

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
    """How a kind of database is asked.

    Attributes:
        parse: reads a place; ValueError if it is none.
        now: of a DSN: the clock, then the end of its log; None if nothing compares with that.
        acknowledged: of a connector's committed offsets: the place before which all records were
            acknowledged; None if that is not known.
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
    """Where the last commit lies whose records all were acknowledged, by a connector's offset.

    Every record from before the one that the offset belongs to was. Its ``lsn_commit`` is the
    last commit before that, and no snapshot, incremental ones included, changes it. While a
    snapshot is taken, what is before it need not be in Kafka yet.

    Args:
        offsets: of PostgreSQL's connector, which has one.
    """
    found = _only(offsets).get("lsn_commit")
    return Lsn(found) if isinstance(found, int) and not isinstance(found, bool) else None


def acknowledged_gtids(offsets: Offsets) -> Gtids | None:
    """The transactions whose records all were acknowledged, by a connector's offset.

    Its ``gtids`` are those from before the transaction that it would begin with after a restart.

    Args:
        offsets: of the connector for MySQL or MariaDB, which has one.
    """
    found = _only(offsets).get("gtids")
    return Gtids.of(found) if isinstance(found, str) else None


def _only(offsets: Offsets) -> Mapping[str, Any]:
    """The offset; nothing while a snapshot is taken."""
    return offsets[0] if len(offsets) == 1 and not offsets[0].get("snapshot") else {}


_BINLOG: Final = Log(Gtids.parse, _mysql_now, acknowledged_gtids)
LOGS: Final[Mapping[str, Log]] = {
    "postgres": Log(Lsn.parse, _postgres_now, acknowledged_lsn),
    "mysql": _BINLOG,
    "mariadb": _BINLOG,
}
"""By the kind of `sources.….database`."""
