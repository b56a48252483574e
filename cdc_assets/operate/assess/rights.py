"""Judges what a connector's user may do in its database, except for reading single tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cdc_assets.databases.mysql.grants import Grants
from cdc_assets.databases.mysql.server import Server as BinlogServer
from cdc_assets.databases.postgres.server import Role, Server
from cdc_assets.operate.assess.connector import Connector
from cdc_assets.operate.assess.finding import Finding, Place, no, yes_but

_WITHOUT_LOCKS: Final = frozenset({"never", "recovery"})
_CHANGES: Final = "the connector cannot read changes"
_SNAPSHOT: Final = "its snapshot fails, and the connector with it"
_LOCKS: Final = ("RELOAD", "FLUSH_TABLES", "LOCK TABLES")


def judge_user(at: Place, connector: Connector, server: Server | BinlogServer) -> Iterator[Finding]:
    """Yields all findings on a connector's user."""
    user = connector.get("database.user")
    match server:
        case Server() if connector.kind == "postgres":
            if not server.roles.get(user, Role(True)).may_replicate:
                yield no(
                    "connector_user", at, f"the connector's user {user} may not replicate",
                    _CHANGES, f'ALTER ROLE "{user}" REPLICATION',
                )  # fmt: skip
        case BinlogServer() if connector.kind in {"mysql", "mariadb"} and user in server.grants:
            yield from _grants(at, connector, user, server.grants[user])
        case _:
            pass


def _grants(at: Place, connector: Connector, user: str, grants: Grants | None) -> Iterator[Finding]:
    missing = () if grants is None else tuple(_missing(connector, grants))
    if grants is None or (missing and grants.has_roles):
        why = "cannot be asked" if grants is None else "come by roles, which are not judged"
        yield yes_but(
            "connector_user_unseen", at, f"the rights of the connector's user {user} {why}",
            "whether it can read changes, and take snapshots, is not known",
            "check them by docs/sources/mysql.md, and accept this; or grant SELECT ON mysql.* to "
            "the user of database.dsn",
        )  # fmt: skip
        return
    for right, impact in missing:
        yield no(
            "connector_user", at, f"the connector's user {user} has no right of {right}", impact,
            f"GRANT {right} ON *.* to it",
        )  # fmt: skip


def _missing(connector: Connector, grants: Grants) -> Iterator[tuple[str, str]]:
    """Yields the rights that a connector needs and its user lacks, and what that means."""
    if not grants.may("REPLICATION SLAVE", "REPLICATION REPLICA"):
        yield "REPLICATION SLAVE", _CHANGES
    if not grants.may("REPLICATION CLIENT", "BINLOG MONITOR", "SUPER"):
        yield "REPLICATION CLIENT", _CHANGES
    locks = connector.get("snapshot.locking.mode", "minimal") != "none"
    snapshots = connector.get("snapshot.mode", "initial") not in _WITHOUT_LOCKS
    if locks and snapshots and not grants.may(*_LOCKS):
        yield "RELOAD", _SNAPSHOT
