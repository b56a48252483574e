"""Judges a database's server by rules: slots, publications, binlogs, and the connector's user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cdc_assets.databases.mysql.server import BinlogServer, Grants
from cdc_assets.databases.postgres.server import PostgresServer, Role, Slot
from cdc_assets.operate.assess.connector import Connector
from cdc_assets.operate.assess.finding import Finding, Obstacle, Rule, Subject, Verdict, judged

_NO, _PARTIAL = Verdict.NO, Verdict.PARTIAL
_GIB: Final = 1 << 30
_HELD_SHARE: Final = 0.5
_HELD_BYTES: Final = 10 * _GIB
_KEPT_SECONDS: Final = 24 * 3600
CLOCKS_SECONDS: Final = 5.0
"""The least difference of clocks that counts as a finding."""

_PUBLISH_ALL: Final = "ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')"

# ── PostgreSQL ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Postgres:
    """A PostgreSQL server, and what its connectors need of it.

    Attributes:
        server: the server's facts.
        slots: the slots of the source's connectors.
        publications: the publications that the connectors and the configuration name.
    """

    server: PostgresServer
    slots: frozenset[str]
    publications: tuple[str, ...]

    @classmethod
    def of(
        cls, server: PostgresServer, connectors: Sequence[Connector], publication: str | None
    ) -> Postgres:
        """Returns what the connectors need, and the publication that the configuration names."""
        mine = [each for each in connectors if each.kind == "postgres"]
        published = {
            each.get("publication.name", "dbz_publication")
            for each in mine
            if each.get("plugin.name") == "pgoutput"
        }
        return cls(
            server,
            frozenset(each.get("slot.name", "debezium") for each in mine),
            tuple(sorted(published | ({publication} if publication else set()))),
        )

    @property
    def own(self) -> list[Slot]:
        """The slots of the source's connectors, as far as they exist."""
        return [each for each in self.server.slots.values() if each.name in self.slots]


def judge_postgres(
    at: Subject,
    server: PostgresServer,
    connectors: Sequence[Connector],
    publication: str | None,
) -> Iterator[Finding]:
    """Yields all findings on a PostgreSQL server.

    Args:
        at: the source.
        server: the server's facts.
        connectors: the source's connectors; empty if unknown.
        publication: the publication that the configuration names.
    """
    return judged(POSTGRES, at, Postgres.of(server, connectors, publication))


def _wal_level(facts: Postgres) -> str:
    level = facts.server.wal_level
    return "" if level == "logical" else f"wal_level is {level}"


def _missing_slots(facts: Postgres) -> Iterator[Obstacle]:
    for name in sorted(facts.slots - facts.server.slots.keys()):
        yield Obstacle(f"replication slot {name} does not exist")


def _lost_slots(facts: Postgres) -> Iterator[Obstacle]:
    for slot in facts.own:
        if slot.wal_status == "lost":
            yield Obstacle(f"replication slot {slot.name} has lost its WAL")


def _idle_slots(facts: Postgres) -> Iterator[Obstacle]:
    for slot in facts.own:
        if slot.wal_status != "lost" and not slot.active:
            yield Obstacle(f"nobody reads replication slot {slot.name}")


def _holding_slots(facts: Postgres) -> Iterator[Obstacle]:
    keep = facts.server.keep_bytes
    limit = _HELD_BYTES if keep is None else min(_HELD_BYTES, int(keep * _HELD_SHARE))
    of = f" of the {keep / _GIB:.1f} GiB that slots may hold" if keep is not None else ""
    what = "the server's disk fills" if keep is None else "the slot is lost with its changes soon"
    for slot in facts.server.slots.values():
        is_much = slot.retained_bytes > limit or slot.wal_status == "unreserved"
        if is_much and slot.wal_status != "lost":
            held = f"{slot.retained_bytes / _GIB:.1f} GiB of WAL back{of}"
            yield Obstacle(f"replication slot {slot.name} holds {held}", words={"what": what})


def _missing_publications(facts: Postgres) -> Iterator[Obstacle]:
    for name in facts.publications:
        if name not in facts.server.publications:
            yield Obstacle(f"publication {name} does not exist", words={"name": name})


def _unpublished_changes(facts: Postgres) -> Iterator[Obstacle]:
    for name in facts.publications:
        found = facts.server.publications.get(name)
        if found is not None and found.missing:
            lacks = ", ".join(found.missing)
            yield Obstacle(f"publication {name} does not publish {lacks}", words={"name": name})


def _unpublished_truncates(facts: Postgres) -> Iterator[Obstacle]:
    for name in facts.publications:
        found = facts.server.publications.get(name)
        if found is not None and not found.truncate:
            yield Obstacle(f"publication {name} does not publish truncate", words={"name": name})


POSTGRES: Final[tuple[Rule[Postgres], ...]] = (
    Rule(
        "wal_level", _NO, "`wal_level`", _wal_level,
        "PostgreSQL writes no changes that a connector could read",
        "set wal_level = logical and restart the server",
    ),
    Rule(
        "slot_missing", _NO, "the connectors' slots", _missing_slots,
        "no changes are read; those since it was there are lost",
        "start the connector; take a new snapshot if the slot existed before",
    ),
    Rule(
        "slot_lost", _NO, "the connectors' slots", _lost_slots,
        "changes are lost that the connector has not read",
        "drop the slot, let the connector make it, and take a new snapshot; raise "
        "max_slot_wal_keep_size",
    ),
    Rule(
        "slot_idle", _PARTIAL, "the connectors' slots", _idle_slots,
        "no changes arrive, and the slot holds WAL back", "start the connector",
    ),
    Rule(
        "slot_holds_wal", _PARTIAL, "WAL that any replication slot retains",
        _holding_slots, "{what}",
        "start its reader, or drop an unused slot; set heartbeat.interval.ms",
    ),
    Rule(
        "publication_missing", _NO, "the connectors' publications", _missing_publications,
        "no changes are published",
        "CREATE PUBLICATION {name} FOR ALL TABLES, or correct publication.name",
    ),
    Rule(
        "publication_operations", _NO, "the publications' operations",
        _unpublished_changes, "the lake keeps rows as they were before such changes",
        _PUBLISH_ALL, stops=True,
    ),
    Rule(
        "publication_operations", _PARTIAL, "truncates in publications",
        _unpublished_truncates, "the lake keeps the rows of a table that is truncated",
        _PUBLISH_ALL,
    ),
)  # fmt: skip

# ── MySQL and MariaDB ─────────────────────────────────────────────────────────────────────


def judge_binlog(at: Subject, server: BinlogServer) -> Iterator[Finding]:
    """Yields all findings on a MySQL or MariaDB server, except those on the form of its rows."""
    return judged(BINLOG, at, server)


def _row_metadata(server: BinlogServer) -> str:
    is_odd = server.has_binlog and server.row_metadata not in {"", "full"}
    return f"binlog_row_metadata is {server.row_metadata}" if is_odd else ""


def _kept(server: BinlogServer) -> str:
    kept = server.kept_seconds
    if not server.has_binlog or kept is None or kept >= _KEPT_SECONDS:
        return ""
    return f"the binlog is kept for {kept / 3600:.1f} h only"


BINLOG: Final[tuple[Rule[BinlogServer], ...]] = (
    Rule(
        "binlog_off", _PARTIAL, "`log_bin`",
        lambda s: "" if s.has_binlog else "the server of database: has no binlog (log_bin)",
        "it is not the one that the connector reads: nothing is known of that one's settings",
        "name the connector's server, or set log_bin",
    ),
    Rule(
        "server_id", _NO, "`server_id`",
        lambda s: "the server has no server_id" if s.has_binlog and s.server_id == 0 else "",
        "no connector can read its binlog", "set server_id to a unique number",
    ),
    Rule(
        "binlog_row_metadata", _PARTIAL, "`binlog_row_metadata`", _row_metadata,
        "readers of the binlog cannot check names and signs of columns",
        "SET GLOBAL binlog_row_metadata=FULL",
    ),
    Rule(
        "gtid", _PARTIAL, "`gtid_mode`",
        lambda s: "the server writes no GTIDs (gtid_mode)"
        if s.has_binlog and not s.has_gtids else "",
        "a restarted binlog is distinguished from one that is read again by times only",
        "set gtid_mode=ON and enforce_gtid_consistency=ON",
    ),
    Rule(
        "binlog_retention", _PARTIAL, "the binlog's retention", _kept,
        "a connector that stands still for longer loses changes",
        "SET GLOBAL binlog_expire_logs_seconds=864000",
    ),
)  # fmt: skip

# ── the connector's user ──────────────────────────────────────────────────────────────────

_WITHOUT_LOCKS: Final = frozenset({"never", "recovery"})
_CHANGES: Final = "the connector cannot read changes"
_SNAPSHOT: Final = "its snapshot fails, and the connector with it"
_LOCKS: Final = ("RELOAD", "FLUSH_TABLES", "LOCK TABLES")


@dataclass(frozen=True, slots=True)
class User:
    """A connector, and the server of its database."""

    connector: Connector
    server: PostgresServer | BinlogServer

    @property
    def name(self) -> str:
        """The user's name."""
        return self.connector.get("database.user")

    @property
    def grants(self) -> tuple[Grants | None, ...]:
        """The rights of the user of a MySQL or MariaDB, None for unknown ones; () elsewhere."""
        server, is_binlog = self.server, self.connector.kind in {"mysql", "mariadb"}
        if not isinstance(server, BinlogServer) or not is_binlog:
            return ()
        return (server.grants[self.name],) if self.name in server.grants else ()


def judge_user(
    at: Subject, connector: Connector, server: PostgresServer | BinlogServer
) -> Iterator[Finding]:
    """Yields all findings on a connector's user."""
    return judged(USERS, at, User(connector, server))


def _not_replicating(user: User) -> Iterable[Obstacle]:
    server = user.server
    if not isinstance(server, PostgresServer) or user.connector.kind != "postgres":
        return
    if not server.roles.get(user.name, Role(True)).may_replicate:
        problem = f"the connector's user {user.name} may not replicate"
        yield Obstacle(problem, words={"user": user.name})


def _unseen_rights(user: User) -> str:
    for grants in user.grants:
        if grants is None or (grants.has_roles and any(_missing(user.connector, grants))):
            why = "cannot be asked" if grants is None else "come by roles, which are not judged"
            return f"the rights of the connector's user {user.name} {why}"
    return ""


def _missing_rights(user: User) -> Iterable[Obstacle]:
    for grants in user.grants:
        if grants is not None and not grants.has_roles:
            for right, impact in _missing(user.connector, grants):
                problem = f"the connector's user {user.name} has no right of {right}"
                yield Obstacle(problem, words={"right": right, "impact": impact})


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


USERS: Final[tuple[Rule[User], ...]] = (
    Rule(
        "connector_user", _NO, "REPLICATION of the connector's role",
        _not_replicating, _CHANGES, 'ALTER ROLE "{user}" REPLICATION',
    ),
    Rule(
        "connector_user_unseen", _PARTIAL, "the grants of the connector's user", _unseen_rights,
        "whether it can read changes, and take snapshots, is not known",
        "grant SELECT ON mysql.* to the user of database.dsn; or check them by "
        "docs/how-to/sources/mysql.md, and accept this",
    ),
    Rule(
        "connector_user", _NO, "the grants of the connector's user", _missing_rights, "{impact}",
        "GRANT {right} ON *.* to it",
    ),
)  # fmt: skip

# ── clocks ────────────────────────────────────────────────────────────────────────────────


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


def judge_clocks(at: Subject, clocks: Sequence[Clock]) -> Iterator[Finding]:
    """Yields a finding for each clock that differs."""
    return judged(CLOCKS, at, clocks)


def _wrong_clocks(clocks: Sequence[Clock]) -> Iterable[Obstacle]:
    for clock in clocks:
        if abs(clock.by) >= CLOCKS_SECONDS:
            way = "ahead of" if clock.by > 0 else "behind"
            by = f"{abs(clock.by):.0f} s {way} this machine's"
            yield Obstacle(f"the clock of {clock.part} is {by}")


CLOCKS: Final[tuple[Rule[Sequence[Clock]], ...]] = (
    Rule(
        "clock", _PARTIAL, "clocks of the database, Kafka Connect and Spark", _wrong_clocks,
        "latencies, and with them the SLO, are wrong by as much",
        "synchronize all clocks by NTP",
    ),
)  # fmt: skip
