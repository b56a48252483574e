"""Reads a MySQL or MariaDB server's side of replication, except for the form of its rows.

A user's rights come from ``SHOW GRANTS``. A name may have several accounts, for several hosts;
which of them a connector logs in to is not known. What one of them may do counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from glob import escape
from typing import Any, Final

from cdc_assets.changes.log_places import Gtids
from cdc_assets.changes.names import TableName
from cdc_assets.databases.mysql.connection import answers, parse_dsn
from cdc_assets.errors import LoginRefusedError, TerminalError

_VARIABLES: Final = (
    "log_bin", "binlog_row_metadata", "server_id", "gtid_mode", "enforce_gtid_consistency",
    "binlog_expire_logs_seconds", "expire_logs_days",
)  # fmt: skip
_SETTINGS: Final = "SHOW GLOBAL VARIABLES WHERE Variable_name IN %(names)s"
_NOW: Final = "SELECT UTC_TIMESTAMP(6), VERSION() LIKE '%%MariaDB%%'"
_DAY: Final = 86_400
_ENDS: Final = {
    True: "SELECT @@global.gtid_binlog_pos",
    False: "SELECT @@global.gtid_executed",
}
"""Of MariaDB, whose servers all have GTIDs; of MySQL, empty unless ``gtid_mode`` is on."""
_FILE: Final = re.compile(r"(?P<base>.*)\.(?P<number>[0-9]+)")
_OWN: Final = "SHOW GRANTS"
_HOSTS: Final = "SELECT Host FROM mysql.user WHERE User = %(user)s"
_OF: Final = "SHOW GRANTS FOR %(user)s@%(host)s"
_NAME: Final = r"""(?:\*|`(?:[^`]|``)*`|"(?:[^"]|"")*")"""
_GRANT: Final = re.compile(rf"GRANT (.+?) ON ({_NAME})\.({_NAME}) TO ", re.IGNORECASE)
_COLUMNS: Final = re.compile(r"\([^()]*+\)")
_ALL: Final = frozenset({"ALL PRIVILEGES", "ALL"})
_WITHOUT_SCHEMA: Final = re.compile(r"GRANT .+ ON ", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Right:
    """Rights on a place; ``schema`` is a pattern of LIKE, None everywhere; ``table`` None for all.

    ``names`` are in upper case. Rights on single columns are not among them.
    """

    names: frozenset[str]
    schema: str | None = None
    table: str | None = None

    def has(self, name: str) -> bool:
        """Returns whether a right is among them."""
        return name in self.names or bool(self.names & _ALL)

    def covers(self, table: TableName) -> bool:
        """Returns whether they hold for a table."""
        if self.schema is not None and not _is_like(table.schema, self.schema):
            return False
        return self.table in {None, table.name}


@dataclass(frozen=True, slots=True)
class Grants:
    """What the accounts of one name may do.

    Attributes:
        rights: their rights.
        has_roles: whether they have roles too, whose rights are not among these.
    """

    rights: tuple[Right, ...] = ()
    has_roles: bool = False

    def may(self, *names: str) -> bool:
        """Returns whether they have one of some rights everywhere."""
        everywhere = [each for each in self.rights if each.schema is None]
        return any(each.has(name) for each in everywhere for name in names)

    def may_read(self, table: TableName) -> bool:
        """Returns whether they may read a table, with all of its columns."""
        return any(each.has("SELECT") and each.covers(table) for each in self.rights)


def read_grants(dsn: str, user: str) -> Grants | None:
    """Returns what a user may do; None if that may not be asked, or the server has no such user.

    Raises:
        UnreachableError: if the server does not answer.
    """
    try:
        if parse_dsn(dsn).user == user:
            (lines,) = answers(dsn, (_OWN, {}))
        else:
            (hosts,) = answers(dsn, (_HOSTS, {"user": user}))
            if not hosts:
                return None
            queries = [(_OF, {"user": user, "host": host}) for (host,) in hosts]
            lines = [line for answer in answers(dsn, *queries) for line in answer]
    except (LoginRefusedError, TerminalError):
        return None
    return grants_of(str(line) for (line,) in lines)


def grants_of(lines: Iterable[str]) -> Grants:
    """Returns what lines of ``SHOW GRANTS`` say."""
    rights, has_roles = list[Right](), False
    for line in lines:
        found = _GRANT.match(line)
        if found is not None:
            names, schema, table = found.groups()
            rights.append(Right(_names(names), _unquoted(schema), _unquoted(table)))
        elif line.upper().startswith("GRANT ") and not _WITHOUT_SCHEMA.match(line):
            has_roles = True
    return Grants(tuple(rights), has_roles)


def _names(said: str) -> frozenset[str]:
    """Splits a list of rights, without those on columns."""
    marked = _COLUMNS.sub("()", said).upper()
    named = (each.strip() for each in marked.split(","))
    return frozenset(each for each in named if not each.endswith("()"))


def _unquoted(name: str) -> str | None:
    return None if name == "*" else name[1:-1].replace(name[0] * 2, name[0])


def _is_like(name: str, pattern: str) -> bool:
    r"""Returns whether a pattern of LIKE matches: ``%``, ``_``, and ``\`` before these."""
    parts: list[str] = re.findall(r"\\.|.", pattern, re.DOTALL)
    words = {"%": "*", "_": "?"}
    return fnmatchcase(name, "".join(words.get(each) or escape(each[-1]) for each in parts))


# ── settings ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class BinlogServer:
    """One server.

    Attributes:
        has_binlog: ``log_bin``.
        row_metadata: ``binlog_row_metadata`` in lower case; empty of servers that have none.
        kept_seconds: for so long binlog files are kept; None for ever, or by their size.
        has_gtids: transactions have numbers that are the same on all servers.
        server_id: 0 if it has none: no connector can follow it then.
        now: its clock.
        grants: by name, what the users may do that were asked for; None if it may not be asked.
    """

    has_binlog: bool = True
    row_metadata: str = "full"
    kept_seconds: int | None = None
    has_gtids: bool = True
    server_id: int = 1
    now: datetime | None = None
    grants: Mapping[str, Grants | None] = field(default_factory=dict[str, Grants | None])


def read_server(dsn: str, users: Iterable[str]) -> BinlogServer:
    """Reads it, by two queries, and two for each user.

    Args:
        dsn: of the database.
        users: the connectors' users.

    Raises:
        CdcError: as `cdc_assets.databases.mysql.catalog.read_tables`.
    """
    settings, ((now, is_mariadb),) = answers(dsn, (_SETTINGS, {"names": _VARIABLES}), (_NOW, {}))
    said = {name.lower(): str(value).lower() for name, value in settings}
    return BinlogServer(
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


# ── the binlog ───────────────────────────────────────────────────────────────────────────


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
    (((now, is_mariadb),),) = answers(dsn, (_NOW, {}))
    (((gtids,),),) = answers(dsn, (_ENDS[bool(is_mariadb)], {}))
    return BinlogEnd(now.replace(tzinfo=UTC), str(gtids or ""))


@dataclass(frozen=True, slots=True)
class BinlogPosition:
    """Between two events.

    Attributes:
        file: of the binlog.
        position: in it.
        gtids: of a connector of MariaDB, the last of each domain before it; empty if not known.
    """

    file: str
    position: int
    gtids: str = ""

    @classmethod
    def parse(cls, text: str) -> BinlogPosition:
        """Parses the text that `str` returns."""
        place, _, gtids = text.partition(" ")
        file, _, position = place.rpartition(":")
        return cls(file, int(position), gtids)

    def __str__(self) -> str:
        """Returns it like ``binlog.000002:943 0-7-3``."""
        return f"{self.file}:{self.position} {self.gtids}".rstrip()

    def reaches(self, other: BinlogPosition) -> bool:
        """Returns whether it is not before another one of the same binlog."""
        mine, theirs = self.number, other.number
        return mine is not None and theirs is not None and mine >= theirs

    @property
    def number(self) -> tuple[int, int] | None:
        """The number by which places of one binlog are ordered."""
        found = _FILE.fullmatch(self.file)
        return (int(found["number"]), self.position) if found else None

    @property
    def base(self) -> str:
        """The common beginning of the names of a binlog's files."""
        found = _FILE.fullmatch(self.file)
        return found["base"] if found else self.file


def place_of(offset: Mapping[str, Any]) -> BinlogPosition | None:
    """Returns where a Debezium connector continues after a restart, from its committed offset.

    Kafka has acknowledged whatever is from before. While a snapshot is taken there is no such
    place.
    """
    file, position = offset.get("file"), offset.get("pos")
    if offset.get("snapshot") or not isinstance(file, str) or not isinstance(position, int):
        return None
    return BinlogPosition(file, position, str(offset.get("gtids") or ""))


def has_delivered(connector: BinlogPosition, until: BinlogPosition, end: BinlogPosition) -> bool:
    """Returns whether a connector has delivered all before a place of the log that it reads.

    A place beyond the end of the log is of another log, and proves nothing.

    Args:
        connector: where it is.
        until: the place.
        end: of the log, looked at after the connector was asked.
    """
    is_of_one = connector.base == until.base == end.base
    return is_of_one and end.reaches(connector) and connector.reaches(until)


def is_same_log(connector: BinlogPosition, gtids: str) -> bool:
    """Returns whether a connector of MariaDB reads this log: both count alike up to a place.

    Files of two servers may have the same names. A replica has the same transactions, at other
    places; and it may lack what the lake has merged, so that it does for no comparison.

    Args:
        connector: where it is; it may leave domains out.
        gtids: what the log has before that place.
    """
    mine, theirs = Gtids.of(connector.gtids), Gtids.of(gtids)
    if mine is None:
        return True  # nothing tells
    return theirs is not None and all(
        theirs.sets.get(domain) == each for domain, each in mine.sets.items()
    )
