"""Judges a database's server by rules: PostgreSQL's slots and publications, and binlogs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cdc_assets.databases.mysql.server import Server as BinlogServer
from cdc_assets.databases.postgres.server import Server
from cdc_assets.databases.postgres.slots import Slot
from cdc_assets.operate.assess.connector import Connector
from cdc_assets.operate.assess.finding import Finding, Place, no, yes_but

_GIB: Final = 1 << 30
_HELD_SHARE: Final = 0.5
_HELD_BYTES: Final = 10 * _GIB
_KEPT_SECONDS: Final = 24 * 3600
CLOCKS_SECONDS: Final = 5.0
"""The least difference of clocks that counts as a finding."""


def judge_postgres(
    at: Place, server: Server, connectors: Sequence[Connector], publication: str | None
) -> Iterator[Finding]:
    """Yields all findings on a PostgreSQL server.

    Args:
        at: the source.
        server: the server's facts.
        connectors: the source's connectors; empty if unknown.
        publication: the publication that the configuration names.
    """
    if server.wal_level != "logical":
        yield no(
            "wal_level", at, f"wal_level is {server.wal_level}",
            "PostgreSQL writes no changes that a connector could read",
            "set wal_level = logical and restart the server",
        )  # fmt: skip
    mine = {each.get("slot.name", "debezium") for each in connectors if each.kind == "postgres"}
    for name in sorted(mine - server.slots.keys()):
        yield no(
            "slot_missing", at, f"replication slot {name} does not exist",
            "no changes are read; those since it was there are lost",
            "start the connector, and take a new snapshot if the slot was there before",
        )  # fmt: skip
    for slot in server.slots.values():
        yield from _slot(at, slot, server.keep_bytes, is_mine=slot.name in mine)
    yield from _publications(at, server, _wanted(connectors, publication))


def _wanted(connectors: Sequence[Connector], publication: str | None) -> list[str]:
    names = {
        each.get("publication.name", "dbz_publication")
        for each in connectors
        if each.kind == "postgres" and each.get("plugin.name") == "pgoutput"
    }
    return sorted(names | ({publication} if publication else set()))


def _slot(at: Place, slot: Slot, keep: int | None, *, is_mine: bool) -> Iterator[Finding]:
    if slot.wal_status == "lost":
        if is_mine:
            yield no(
                "slot_lost", at, f"replication slot {slot.name} has lost its WAL",
                "changes are lost that the connector has not read",
                "drop the slot, let the connector make it, and take a new snapshot; raise "
                "max_slot_wal_keep_size",
            )  # fmt: skip
        return
    if not slot.active and is_mine:
        yield yes_but(
            "slot_idle", at, f"nobody reads replication slot {slot.name}",
            "no changes arrive, and the slot holds WAL back",
            "start its connector",
        )  # fmt: skip
    limit = _HELD_BYTES if keep is None else min(_HELD_BYTES, int(keep * _HELD_SHARE))
    if slot.retained_bytes > limit or slot.wal_status == "unreserved":
        held = slot.retained_bytes / _GIB
        of = f" of the {keep / _GIB:.1f} GiB that slots may hold" if keep is not None else ""
        yield yes_but(
            "slot_holds_wal", at,
            f"replication slot {slot.name} holds {held:.1f} GiB of WAL back{of}",
            "the server's disk fills" if keep is None else "the slot is lost with its changes soon",
            "start whoever reads it, or drop the slot if nobody does; set heartbeat.interval.ms",
        )  # fmt: skip


def _publications(at: Place, server: Server, wanted: Sequence[str]) -> Iterator[Finding]:
    for name in wanted:
        found = server.publications.get(name)
        if found is None:
            yield no(
                "publication_missing", at, f"publication {name} does not exist",
                "no changes are published",
                f"CREATE PUBLICATION {name} FOR ALL TABLES, or name the right one",
            )  # fmt: skip
            continue
        if found.missing:
            yield no(
                "publication_operations", at,
                f"publication {name} does not publish {', '.join(found.missing)}",
                "the lake keeps rows as they were before such changes",
                f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')",
                stops=True,
            )  # fmt: skip
        if not found.truncate:
            yield yes_but(
                "publication_operations", at, f"publication {name} does not publish truncate",
                "the lake keeps the rows of a table that is truncated",
                f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')",
            )  # fmt: skip


def judge_binlog(at: Place, server: BinlogServer) -> Iterator[Finding]:
    """Yields all findings on a MySQL or MariaDB server, except those on the form of its rows."""
    if not server.has_binlog:
        yield yes_but(
            "binlog_off", at, "the server of database: has no binlog (log_bin)",
            "it is not the one that the connector reads: nothing is known of that one's settings",
            "name the connector's server, or set log_bin if this is it",
        )  # fmt: skip
        return
    if server.server_id == 0:
        yield no(
            "server_id", at, "the server has no server_id",
            "no connector can read its binlog", "set server_id to a number of its own",
        )  # fmt: skip
    if server.row_metadata not in {"", "full"}:
        yield yes_but(
            "binlog_row_metadata", at, f"binlog_row_metadata is {server.row_metadata}",
            "readers of the binlog cannot check names and signs of columns",
            "SET GLOBAL binlog_row_metadata=FULL",
        )  # fmt: skip
    if not server.has_gtids:
        yield yes_but(
            "gtid", at, "the server writes no GTIDs (gtid_mode)",
            "a binlog that begins anew is told from one that is read again by times only",
            "set gtid_mode=ON and enforce_gtid_consistency=ON",
        )  # fmt: skip
    if server.kept_seconds is not None and server.kept_seconds < _KEPT_SECONDS:
        yield yes_but(
            "binlog_retention", at,
            f"the binlog is kept for {server.kept_seconds / 3600:.1f} h only",
            "a connector that stands still for longer loses changes",
            "SET GLOBAL binlog_expire_logs_seconds=864000",
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Clock:
    """A part's clock at one moment.

    Attributes:
        part: the part's name.
        by: the seconds by which it is ahead of this process's clock; negative if behind.
    """

    part: str
    by: float

    @classmethod
    def of(cls, part: str, said: datetime, before: datetime, after: datetime) -> Clock:
        """Computes the difference from a reading taken between two moments; 0 if between them."""
        ahead = max(0.0, (said - after).total_seconds())
        behind = max(0.0, (before - said).total_seconds())
        return cls(part, ahead - behind)


def judge_clocks(at: Place, clocks: Sequence[Clock]) -> Iterator[Finding]:
    """Yields a finding for each clock that differs."""
    for clock in clocks:
        if abs(clock.by) >= CLOCKS_SECONDS:
            way = "ahead of" if clock.by > 0 else "behind"
            yield yes_but(
                "clock", at,
                f"the clock of {clock.part} is {abs(clock.by):.0f} s {way} this machine's",
                "latencies, and with them the SLO, are wrong by as much",
                "let all machines follow one time server (NTP)",
            )  # fmt: skip
