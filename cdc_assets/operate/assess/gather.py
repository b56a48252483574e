"""Asks each part once for all tables, and passes the facts to the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from cdc_assets.changes.names import TableName
from cdc_assets.changes.position import Scheme
from cdc_assets.config.database import ConnectConfig, DatabaseConfig
from cdc_assets.config.secret import reveal
from cdc_assets.config.source import SourceConfig
from cdc_assets.databases.catalog import SourceTable
from cdc_assets.databases.kinds import catalog_of
from cdc_assets.databases.mysql.server import BinlogServer
from cdc_assets.databases.mysql.server import read_server as read_binlog_server
from cdc_assets.databases.postgres.server import OddValues, PostgresServer, odd_values, read_server
from cdc_assets.databases.postgres.table import PostgresTable
from cdc_assets.errors import CdcError, UnreachableError
from cdc_assets.formats.layout import Layout
from cdc_assets.log.connect import ConnectRest, RunningConnector, connect_of
from cdc_assets.operate.assess.connector import Connector, configured_as, encoding_of
from cdc_assets.operate.assess.database import Clock
from cdc_assets.operate.assess.table_facts import Table
from cdc_assets.operate.assess.topics import Topic
from cdc_assets.operate.services import Services
from cdc_assets.operate.slo import slo_target
from cdc_assets.operate.status import has_others
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.lake import TableState
    from cdc_assets.log.settings import TopicSettings
    from cdc_assets.log.values import RawRecord, Watermarks

_SEARCHED: Final = frozenset({"numeric", "date", "timestamp", "timestamptz"})
_BIT_OF_SECOND: Final = 1.0
"""An HTTP date has whole seconds."""


@dataclass(frozen=True, slots=True)
class Log:
    """Kafka's facts about all topics; ``ids`` tell them from others of their names."""

    marks: Mapping[str, Watermarks]
    settings: Mapping[str, TopicSettings | None]
    firsts: Mapping[str, Sequence[RawRecord]]
    ids: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Connectors:
    """Kafka Connect's facts about a source's connectors; ``at`` is Connect's address."""

    at: str = ""
    found: tuple[Connector, ...] = ()
    clock: Clock | None = None

    def of_topic(self, topic: str, named: str | None) -> Connector | None:
        """Returns the connector that writes a topic."""
        return next((c for c in self.found if c.name == named or c.writes(topic)), None)


def read_log(services: Services, topics: Sequence[str], *, with_records: bool) -> Log:
    """Reads bounds, settings, ids and first records of topics.

    Raises:
        CdcError: if Kafka does not answer.
    """
    log = services.log
    marks = log.watermarks(topics)
    ids = {topic: each.topic_id for topic, each in log.identity(marks).items()}
    return Log(marks, log.settings(marks), log.firsts(marks) if with_records else {}, ids)


@dataclass
class SourceFacts:
    """The facts about one source. Each part is asked once, when it is first needed.

    Attributes:
        services: the services to ask.
        name: the source's name.
        entries: its tables to assess.
        answers: the answers of Kafka Connects that were asked before, by URL.
        firsts: the first records of its topics; None to read them if they are needed.
    """

    services: Services
    name: str
    entries: Sequence[TableEntry]
    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    firsts: Mapping[str, Sequence[RawRecord]] | None = None

    @cached_property
    def source(self) -> SourceConfig:
        """The source's configuration."""
        return self.services.config.source(self.name)

    @property
    def is_debezium(self) -> bool:
        """Whether Debezium, or a connector made of it, writes its records."""
        return "debezium" in self.source.format.split("-")

    @property
    def connect(self) -> ConnectConfig | None:
        """The Kafka Connect to ask about its connector; None if none is configured."""
        return connect_of(self.services.config, self.name)

    @cached_property
    def connectors(self) -> Connectors | None:
        """The connectors that write its topics; None if no Connect can be asked.

        Raises:
            CdcError: if Kafka Connect does not answer, or its secret is not set in this process.
        """
        connect = self.connect
        if connect is None or not self.is_debezium:
            return None
        rest, clock = ConnectRest(reveal(connect.url)), self.services.clock
        if rest.shown not in self.answers:
            before = clock()
            try:
                said, date = rest.described()
            except UnreachableError as error:
                self.answers[rest.shown] = error
            else:
                self.answers[rest.shown] = said, _http_clock(date, before, clock())
        answer = self.answers[rest.shown]
        if isinstance(answer, UnreachableError):
            raise answer
        said, at = answer
        mine = (_connector(each, settings) for each, settings in said)
        found = tuple(self._seen(c) for c in mine if self._is_mine(c, connect.connector))
        return Connectors(rest.shown, found, at)

    def _seen(self, connector: Connector) -> Connector:
        """Returns a connector with what its records tell of a converter that it does not name."""
        if connector.names_converter:
            return connector
        topics = [each.topic for each in self.entries if connector.writes(each.topic)]
        try:
            firsts = self.services.log.firsts(topics) if self.firsts is None else self.firsts
        except CdcError:  # Kafka's silence is a finding of its own
            return connector
        records = (record for topic in topics for record in firsts.get(topic, ()))
        return replace(connector, seen=encoding_of(records))

    def _is_mine(self, connector: Connector, named: str | None) -> bool:
        if named is not None:
            return connector.name == named
        if any(connector.writes(each.topic) for each in self.entries):
            return True
        guess = f"{connector.prefix}.schema.table"
        return not self.entries and bool(connector.prefix) and self.source.topics.matches(guess)

    def connector(self, entry: TableEntry) -> Connector | None:
        """Returns one table's connector, if known; a Connect that does not answer gives None."""
        try:
            found, connect = self.connectors, self.connect
        except CdcError:
            return None
        return (
            found.of_topic(entry.topic, connect.connector if connect else None) if found else None
        )

    @cached_property
    def tables(self) -> Mapping[TableName, SourceTable] | None:
        """The tables as their database has them; None without ``database:``.

        Raises:
            CdcError: if the database does not answer, or refuses.
        """
        if self.source.database is None:
            return None
        return catalog_of(self.source.database).read([each.at_source for each in self.entries])

    def server(
        self, database: DatabaseConfig
    ) -> tuple[PostgresServer | BinlogServer, Clock | None]:
        """Returns the facts of the database's server, and its clock.

        Raises:
            CdcError: if it does not answer, or refuses.
        """
        dsn, clock = database.login(), self.services.clock
        before = clock()
        users = {each.get("database.user") for each in self._known} - {""}
        if database.kind == "postgres":
            found = read_server(dsn, [each.at_source for each in self.entries], users)
        else:
            found = read_binlog_server(dsn, users)
        now = found.now
        return found, Clock.of("the database", now, before, clock()) if now else None

    @property
    def _known(self) -> tuple[Connector, ...]:
        try:
            return self.connectors.found if self.connectors else ()
        except CdcError:
            return ()

    def odd(self, database: DatabaseConfig, rows: int) -> Mapping[TableName, OddValues]:
        """Returns values of PostgreSQL's tables that cannot arrive unchanged.

        Raises:
            CdcError: if the database does not answer, or refuses.
        """
        tables = self.tables or {}
        if database.kind != "postgres":
            return {}
        wanted = {
            name: {
                c.name: c.type_name for c in table.columns
                if c.type_name in _SEARCHED and not c.is_array
            }
            for name, table in tables.items()
            if isinstance(table, PostgresTable)
        }  # fmt: skip
        return odd_values(database.login(), wanted, rows)

    def publication(self, entry: TableEntry) -> tuple[str | None, bool]:
        """Returns the publication of a table's changes, and whether there has to be one."""
        database, connector = self.source.database, self.connector(entry)
        named = database.publication if database else None
        if connector is None or connector.kind != "postgres":
            return named, named is not None
        if connector.get("plugin.name") != "pgoutput":
            return named, named is not None
        return named or connector.get("publication.name", "dbz_publication"), True

    def table(self, entry: TableEntry, odd: OddValues | None, server: object) -> Table:
        """Returns one table's facts for the rules.

        Raises:
            CdcError: if the database does not answer, or refuses.
        """
        found = (self.tables or {}).get(entry.at_source)
        connector, source = self.connector(entry), self.source
        publication, has_to = self.publication(entry)
        overrides = source.overrides(entry.table)
        described = None
        if found is not None:
            if connector is not None:
                really = configured_as(connector, source.connector) or source.connector
                source = source.model_copy(update={"connector": really})
            described = _format(source).of_catalog(found)
            described = described.without(dict.fromkeys(overrides.excluded, ""))
            described = source.laid_over(entry.table, described, whole=False)
        return Table(
            found, described, publication, has_to, overrides, connector, odd,
            self.source.bad_records == "fail", _unreadable(server, connector, entry),
            self.source.mode_of(entry.table), self.source.silent(entry.table),
        )  # fmt: skip

    def topic(self, entry: TableEntry, log: Log, state: TableState | None) -> Topic:
        """Returns the facts about a table's topic for the rules."""
        from cdc_assets.merge.intake.planning import begin_of

        records = log.firsts.get(entry.topic, ())
        try:
            table = (self.tables or {}).get(entry.at_source)
        except CdcError:
            table = None
        overrides = self.source.overrides(entry.table)
        key = overrides.primary_key or (table.primary_key if table is not None else ())
        topic_id = log.ids.get(entry.topic, "")
        dropped = entry.dropped.end_in(topic_id) if entry.dropped else None
        begins = entry.begins.at_in(topic_id) if entry.begins else None
        return Topic(
            name=entry.topic,
            marks=log.marks.get(entry.topic),
            settings=log.settings.get(entry.topic),
            target=slo_target(self.services, entry.table),
            keys=tuple(each.key is not None for each in records),
            expects_keys=self.is_debezium and bool(key),
            is_new=state is None or state.published is None,
            accepts_lost_start=self.source.lost_start == "accept",
            begin=begin_of(state) or dropped or begins,
            partitions=_partitions(state),
            is_by_binlog=_is_by_binlog(state, self.is_debezium, self.source),
            has_others=has_others(self.services, entry, state),
        )


def _partitions(state: TableState | None) -> int | None:
    """Returns how many partitions a table began with that only offsets order; else None."""
    from cdc_assets.merge.plan.stable_partitions import begun_with

    if state is None or state.published is None:
        return None
    is_by_offset = Layout.of(state.properties).scheme is Scheme.OFFSET
    return begun_with(state.published) if is_by_offset else None


def _is_by_binlog(state: TableState | None, is_debezium: bool, source: SourceConfig) -> bool:
    """Returns whether places in a binlog order a table's changes, or will, if it is new."""
    if state is not None and state.published is not None:
        return Layout.of(state.properties).scheme in {Scheme.BINLOG, Scheme.MARIADB}
    database = source.database
    return is_debezium and database is not None and database.kind != "postgres"


def _format(source: SourceConfig) -> Any:
    from cdc_assets.formats.registered import format_of

    return format_of(source)


def _unreadable(server: object, connector: Connector | None, entry: TableEntry) -> str:
    """Returns the connector's user if it is known to have no right to read a table; else ""."""
    if connector is None:
        return ""
    user, name = connector.get("database.user"), entry.at_source
    match server:
        case PostgresServer():
            role = server.roles.get(user)
            is_refused = role is not None and (name.schema, name.name) in role.unreadable
        case BinlogServer():
            grants = server.grants.get(user)
            is_refused = grants is not None and not grants.has_roles and not grants.may_read(name)
        case _:
            is_refused = False
    return user if is_refused else ""


def _connector(known: RunningConnector, settings: Mapping[str, str]) -> Connector:
    bad = ", ".join(part.words for part in known.down)
    return Connector(known.name, bad or ("" if known.is_up else "it has no task"), settings)


def _http_clock(date: str, before: Any, after: Any) -> Clock | None:
    if not date:
        return None
    clock = Clock.of("Kafka Connect", parsedate_to_datetime(date), before, after)
    return clock if abs(clock.by) > _BIT_OF_SECOND else None
