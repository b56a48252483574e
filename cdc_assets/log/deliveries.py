"""Determines the time up to which all commits of a source are in Kafka, by asking its parts.

See `cdc_assets.changes.valid_through`. The moments at a source are kept in a small document in the
registry's folder, so that a process need not wait until the connector reaches the newest moment.
Moments stay true: a document that is lost, or written by two processes at once, costs only time.

A source may have several connectors: each proves only the tables whose topics it writes.

Reads the end of a source's log, and its connector's position in it, by kind of database.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, cast
from urllib.parse import quote

from cdc_assets.changes.log_places import Gtids, LogPlace, Lsn
from cdc_assets.changes.valid_through import SourceMemory, SourceMoment, delivered
from cdc_assets.config import ReplicationConfig
from cdc_assets.config.secret import reveal
from cdc_assets.databases.mysql.server import binlog_end
from cdc_assets.databases.postgres.server import log_position
from cdc_assets.errors import CdcError
from cdc_assets.files import as_os_errors, files_at, registry_path, replace_file
from cdc_assets.log.connect import (
    CommittedOffsets,
    ConnectRest,
    RunningConnector,
    connect_of,
    writer_of,
)
from cdc_assets.registry import TableEntry

Offsets = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class LogFunctions:
    """The functions that ask a kind of database.

    Attributes:
        parse: reads a place; ValueError if it is none.
        now: takes a DSN; returns the clock, then the end of its log; None if that end has no
            comparable place.
        acknowledged: takes a connector's committed offsets; returns the place before which all
            records were acknowledged; None if unknown.
    """

    parse: Callable[[str], LogPlace]
    now: Callable[[str], SourceMoment[Any] | None]
    acknowledged: Callable[[Offsets], LogPlace | None]


def _postgres_now(dsn: str) -> SourceMoment[Lsn]:
    found = log_position(dsn)
    return SourceMoment(found.at, Lsn(found.lsn))


def _mysql_now(dsn: str) -> SourceMoment[Gtids] | None:
    found = binlog_end(dsn)
    gtids = Gtids.of(found.gtids)
    return SourceMoment(found.at, gtids) if gtids else None


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


_BINLOG: Final = LogFunctions(Gtids.parse, _mysql_now, acknowledged_gtids)
LOGS: Final[Mapping[str, LogFunctions]] = {
    "postgres": LogFunctions(Lsn.parse, _postgres_now, acknowledged_lsn),
    "mysql": _BINLOG,
    "mariadb": _BINLOG,
}
"""The logs, by the kind of `sources.….database`."""


GOOD_FOR_SECONDS: Final = 5
AGAIN_SECONDS: Final = 60
"""Seconds for which a part that did not answer is not asked again."""
FIRST_SECONDS: Final = 1.0
"""Seconds for which the first batch of a process waits for an answer."""

_FORMATS: Final = "debezium"

Key = tuple[str, str]
"""A source and its connector's name; empty as long as the connector of a table is not known."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Everything that was committed before ``through`` had been delivered by ``at``.

    Both are by the source's clock; their difference is the connector's lag, at most. ``at`` is None
    if there has been no answer since.
    """

    through: datetime
    at: datetime | None


class Deliveries:
    """The deliveries of one configuration's sources. May be used by several threads.

    Args:
        config: of the replication.
        monotonic: seconds, which decide for how long an answer is valid.
    """

    def __init__(
        self, config: ReplicationConfig, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._now = monotonic
        self._lock = threading.Lock()
        self._deliveries: dict[Key, Delivery | None] = {}
        self._due: dict[Key, float] = {}
        self._asking: dict[Key, threading.Thread] = {}
        self._connectors: dict[str, tuple[RunningConnector, ...]] = {}
        self._names: dict[tuple[str, str], str] = {}

    def newest(self, entry: TableEntry) -> Delivery | None:
        """Returns a delivery, asking unless the last answer is still valid; None if none is proven.

        Not to be called by a thread that waits for the other threads' answers.
        """
        if not self._may_be_asked(entry):
            return None
        key = self._key(entry)
        with self._lock:
            is_due = self._now() >= self._due.get(key, 0.0)
        if is_due:
            self._ask(key, entry)
        return self._deliveries.get(self._key(entry))

    def known(self, entry: TableEntry) -> Delivery | None:
        """Returns the newest answer without waiting; the next is asked for in the background.

        Only the first call waits, for a second at most.
        """
        if not self._may_be_asked(entry):
            return None
        key = self._key(entry)
        with self._lock:
            running = self._asking.get(key)
            is_due = self._now() >= self._due.get(key, 0.0)
            if is_due and not (running and running.is_alive()):
                target, arguments = self._ask, (key, entry)
                running = threading.Thread(target=target, args=arguments, daemon=True)
                self._asking[key] = running
                running.start()
        if running is not None and key not in self._due:
            running.join(FIRST_SECONDS)
        return self._deliveries.get(self._key(entry))

    def _may_be_asked(self, entry: TableEntry) -> bool:
        """Whether the source's log can be compared with its connector's progress."""
        source = self._config.source(entry.table.source)
        if source.database is None or not source.format.startswith(_FORMATS):
            return False
        return connect_of(self._config, entry.table.source) is not None

    def _key(self, entry: TableEntry) -> Key:
        """Returns the key of the connector that was last known to write a table's topic."""
        source, topic = entry.table.source, entry.topic
        connect = connect_of(self._config, source)
        named = connect and writer_of(connect, self._connectors.get(source, ()), topic)
        if named:
            self._names[source, topic] = named
        return source, self._names.get((source, topic), "")

    def _ask(self, key: Key, entry: TableEntry) -> None:
        wait, found = AGAIN_SECONDS, None
        try:
            connector = self._connector(entry)
            if connector is not None:
                key = entry.table.source, connector.name
                found = self._look(key, connector)
            wait = GOOD_FOR_SECONDS
        except CdcError:  # nothing is proven then; code that needs these parts reports the error
            pass
        with self._lock:
            before = self._deliveries.get(key)
            self._deliveries[key] = latest(before, found)
            self._due[key] = self._now() + wait

    def _connector(self, entry: TableEntry) -> CommittedOffsets | None:
        """Returns the connector that writes a table's topic; None if the connector is unknown."""
        source = entry.table.source
        connect = connect_of(self._config, source)
        if connect is None:
            return None
        rest = ConnectRest(reveal(connect.url))
        found = () if connect.connector else rest.connectors()
        self._connectors[source] = found
        named = writer_of(connect, found, entry.topic)
        return None if named is None else CommittedOffsets(named, rest)

    def _look(self, key: Key, connector: CommittedOffsets) -> Delivery | None:
        """Reads acknowledgements before the log's end, so that the end is never the older value."""
        database = self._config.source(key[0]).database
        if database is None:
            return None
        log = LOGS[database.kind]
        at, now = log.acknowledged(connector.offsets()), log.now(database.login())
        if now is None:
            return None
        document = _Document.of(self._config.registry, key, log)
        newest, kept = delivered(document.load(), at, now)
        document.save(kept)
        return Delivery(newest.at, now.at) if newest else None


def latest(before: Delivery | None, found: Delivery | None) -> Delivery | None:
    """Returns the later proof; a proven delivery stays proven if a later look finds less."""
    if before is None or (found is not None and found.through >= before.through):
        return found
    return replace(before, at=found.at if found else None)


@dataclass(frozen=True, slots=True)
class _Document:
    """The moments of a source that a connector has not reached, and the newest that it has."""

    url: str
    log: LogFunctions

    @classmethod
    def of(cls, registry_url: str, key: Key, log: LogFunctions) -> _Document:
        source, connector = (quote(each, safe="") for each in key)
        return cls(registry_path(registry_url, f"moments/{source}/{connector}.json"), log)

    def load(self) -> SourceMemory[Any]:
        """Reads the document; if missing or unreadable, nothing: moments are collected again."""
        files, path = files_at(self.url)
        try:
            with as_os_errors():
                content = cast("bytes", files.cat_file(path))
            document = json.loads(content)
            moments = tuple(self._moment(*each) for each in document["moments"])
            stale = document["stale"]
            return SourceMemory(moments, None if stale is None else self.log.parse(stale))
        except (OSError, ValueError, TypeError, KeyError):
            return SourceMemory()

    def save(self, seen: SourceMemory[Any]) -> None:
        """Ignores failures: without stored moments the next process only proves less at first."""
        files, path = files_at(self.url)
        document = {
            "moments": [[each.at.isoformat(), str(each.place)] for each in seen.moments],
            "stale": None if seen.stale is None else str(seen.stale),
        }
        try:
            replace_file(files, path, json.dumps(document).encode())
        except OSError:
            return

    def _moment(self, at: str, place: str) -> SourceMoment[Any]:
        return SourceMoment(datetime.fromisoformat(at), self.log.parse(place))
