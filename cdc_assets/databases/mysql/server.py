"""Reads a MySQL or MariaDB server's side of replication, except for the form of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from cdc_assets.databases.mysql.connection import asked
from cdc_assets.databases.mysql.grants import Grants, read_grants

_VARIABLES: Final = (
    "log_bin", "binlog_row_metadata", "server_id", "gtid_mode", "enforce_gtid_consistency",
    "binlog_expire_logs_seconds", "expire_logs_days",
)  # fmt: skip
_SETTINGS: Final = "SHOW GLOBAL VARIABLES WHERE Variable_name IN %(names)s"
_NOW: Final = "SELECT UTC_TIMESTAMP(6), VERSION() LIKE '%%MariaDB%%'"
_DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class Server:
    """One server.

    Attributes:
        is_mariadb: which always has GTIDs.
        has_binlog: ``log_bin``.
        row_metadata: ``binlog_row_metadata`` in lower case; empty of servers that have none.
        kept_seconds: for so long binlog files are kept; None for ever, or by their size.
        has_gtids: transactions have numbers that are the same on all servers.
        server_id: 0 if it has none: no connector can follow it then.
        now: its clock.
        grants: by name, what the users may do that were asked for; None if it may not be asked.
    """

    is_mariadb: bool = False
    has_binlog: bool = True
    row_metadata: str = "full"
    kept_seconds: int | None = None
    has_gtids: bool = True
    server_id: int = 1
    now: datetime | None = None
    grants: Mapping[str, Grants | None] = field(default_factory=dict[str, Grants | None])


def read_server(dsn: str, users: Iterable[str]) -> Server:
    """Reads it, by two queries, and two for each user.

    Args:
        dsn: of the database.
        users: the connectors' users.

    Raises:
        CdcError: as `cdc_assets.databases.mysql.catalog.read_tables`.
    """
    settings, ((now, is_mariadb),) = asked(dsn, (_SETTINGS, {"names": _VARIABLES}), (_NOW, {}))
    said = {name.lower(): str(value).lower() for name, value in settings}
    return Server(
        is_mariadb=bool(is_mariadb),
        has_binlog=said.get("log_bin", "") in {"on", "1"},
        row_metadata=said.get("binlog_row_metadata", ""),
        kept_seconds=_kept(said),
        has_gtids=bool(is_mariadb) or said.get("gtid_mode", "") == "on",
        server_id=int(said.get("server_id", "0")),
        now=now.replace(tzinfo=UTC),
        grants={user: read_grants(dsn, user) for user in users},
    )


def _kept(said: dict[str, str]) -> int | None:
    seconds = int(said.get("binlog_expire_logs_seconds", "0"))
    days = float(said.get("expire_logs_days", "0"))
    return seconds or int(days * _DAY) or None
