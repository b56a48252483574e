"""Runs a whole assessment: asks each part once, then judges every source and table by rules.

Its own rules judge a source's configuration, and what nobody can be asked about.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from cdc_assets.changes.names import TableName
from cdc_assets.config.strict import nearest
from cdc_assets.config.table import is_pattern
from cdc_assets.databases.kinds import KINDS
from cdc_assets.databases.postgres.server import OddValues, PostgresServer
from cdc_assets.errors import CdcError
from cdc_assets.formats.registry import SchemaRegistry
from cdc_assets.naming import some_of
from cdc_assets.operate.assess.connector import ExpectedConnector
from cdc_assets.operate.assess.connector_rules import judge_connector
from cdc_assets.operate.assess.database import (
    Clock,
    judge_binlog,
    judge_clocks,
    judge_postgres,
    judge_user,
)
from cdc_assets.operate.assess.finding import (
    Assessment,
    Finding,
    Note,
    Obstacle,
    Rule,
    Subject,
    Verdict,
    judged,
    ordered,
)
from cdc_assets.operate.assess.gather import Connectors, Log, SourceFacts, read_log
from cdc_assets.operate.assess.lake import judge_catalog, judge_readers
from cdc_assets.operate.assess.parts import (
    Session,
    SparkFacts,
    SparkRequirements,
    away,
    judge_spark,
    look_at_spark,
    probe_warehouse,
)
from cdc_assets.operate.assess.tables import judge_table
from cdc_assets.operate.assess.topics import judge_topic
from cdc_assets.operate.assess.writing import (
    TriedCatalog,
    judge_tried,
    judge_writing,
    probe_catalog,
    probe_tables,
)
from cdc_assets.operate.plaintext import Plaintext, plaintext_logins
from cdc_assets.operate.services import Services
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.lake import TableState

Say = Callable[[str], None]

_PARTIAL: Final = Verdict.PARTIAL
_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class Depth:
    """The depth of an assessment: its probes beyond the parts' own information.

    Attributes:
        values: whether to search PostgreSQL's tables for values that cannot arrive unchanged.
        writes: whether to write a small file to the warehouse, and a small table through Spark,
            and to delete both.
        session: creates a Spark session; None to skip Spark.
        say: receives messages about the progress.
    """

    values: bool = False
    writes: bool = False
    session: Session | None = None
    say: Say = lambda _: None

    @property
    def left_out(self) -> Iterator[Note]:
        """The parts that it does not look at."""
        if self.session is None:
            yield Note("Spark was not asked")
        if not self.values:
            yield Note("rows were not searched for values that cannot arrive")
        if not self.writes:
            yield Note("no file and no table was written")


@dataclass
class _AssessRun:
    """An assessment in progress."""

    services: Services
    depth: Depth
    findings: list[Finding] = field(default_factory=list[Finding])
    notes: list[Note] = field(default_factory=list[Note])

    def add(self, found: Iterator[Finding]) -> None:
        self.findings += found


def assess(
    services: Services, sources: Sequence[str], entries: Sequence[TableEntry], depth: Depth
) -> Assessment:
    """Assesses some sources and tables. Leaves nothing changed.

    A part that does not answer is a finding, and whatever needs it is not judged.
    """
    look, at = _AssessRun(services, depth, notes=[*depth.left_out]), services.clock()
    by_source: dict[str, list[TableEntry]] = defaultdict(list)
    for entry in entries:
        by_source[entry.table.source].append(entry)
    log, states = _log(look, sources, entries), _states(look, sources, entries)
    spark = _spark(look, sources)
    answers: dict[str, object] = {}
    for name in sources:
        mine = by_source.get(name, [])
        depth.say(f"source {name}: {len(mine)} tables")
        firsts = log.firsts if log is not None else {}
        known = SourceFacts(services, name, mine, answers, firsts)
        _source(look, known, log, (states, spark))
    accept = {name: each.assess.accept for name, each in services.config.sources.items()}
    kept = (each for each in look.findings if each.name not in accept[each.at.source])
    tables = tuple(each.table for each in entries)
    return Assessment(at, tuple(sources), tables, ordered(kept), tuple(look.notes))


def _log(look: _AssessRun, sources: Sequence[str], entries: Sequence[TableEntry]) -> Log | None:
    look.depth.say("Kafka")
    topics = sorted({each.topic for each in entries})
    try:
        look.services.log.topics()
        return read_log(look.services, topics, with_records=True)
    except CdcError as error:
        look.findings += [away("kafka", Subject(name), error) for name in sources]
        return None


def _states(
    look: _AssessRun, sources: Sequence[str], entries: Sequence[TableEntry]
) -> Mapping[TableName, TableState | None]:
    look.depth.say("the catalog")
    lake = look.services.lake
    try:
        lake.require_open()
        looked = lake.find_states([(each.target, each.shard_value) for each in entries])
    except CdcError as error:
        look.findings += [away("catalog", Subject(name), error) for name in sources]
        return {}
    if look.depth.writes:
        look.depth.say("the warehouse")
        for name in sources:
            warehouse = look.services.config.lake.warehouse
            look.findings += probe_warehouse(Subject(name), lake, warehouse)
        _try_catalog(look, sources)
    states: dict[TableName, TableState | None] = {}
    for entry, state in zip(entries, looked, strict=True):
        if isinstance(state, CdcError):
            place = Subject(entry.table.source, entry.table)
            look.findings.append(away("catalog", place, state))
        else:
            states[entry.table] = state
    return states


def _try_catalog(look: _AssessRun, sources: Sequence[str]) -> None:
    config = look.services.config
    look.depth.say("the catalog's branches and conflicts")
    try:
        seen = probe_catalog(config, look.services.clock())
    except CdcError as error:
        look.notes.append(Note(f"what the catalog does was not tried: {error.what}"))
        return
    for name in sources:
        takes_cuts = config.source(name).consistent is not None
        tried = TriedCatalog(seen, config.lake.format_version, takes_cuts)
        look.add(judge_tried(Subject(name), tried))


def _spark(look: _AssessRun, sources: Sequence[str]) -> tuple[SparkFacts, Clock] | None:
    if look.depth.session is None:
        return None
    look.depth.say("Spark")
    try:
        config = look.services.config
        databases = (config.source(name).database for name in sources)
        drivers = {KINDS[each.kind].driver.name for each in databases if each}
        drivers |= {config.kafka.spark_class} - {""}
        facts = look_at_spark(config, look.depth.session, look.services.clock, drivers)
        if look.depth.writes:
            refused = probe_tables(config, look.depth.session(), look.services.clock())
            for name in sources:
                look.add(judge_writing(Subject(name), refused))
        return facts
    except CdcError as error:
        look.findings += [away("spark", Subject(name), error) for name in sources]
        return None


def _source(
    look: _AssessRun,
    known: SourceFacts,
    log: Log | None,
    shared: tuple[Mapping[TableName, TableState | None], tuple[SparkFacts, Clock] | None],
) -> None:
    at, (states, spark) = Subject(known.name), shared
    clocks: list[Clock | None] = []
    connectors = _connectors(look, at, known)
    clocks.append(connectors.clock if connectors else None)
    clocks.append(_tables(look, at, known, connectors))
    _registry(look, at, known)
    _configured(look, at, known)
    look.add(judge_logins(at, plaintext_logins(look.services.config)))
    look.add(judge_catalog(at, look.services.config.lake))
    if spark is not None:
        facts, clock = spark
        clocks.append(clock)
        database = known.source.database
        driver = KINDS[database.kind].driver if database else None
        login = look.services.config.kafka.spark_class
        look.add(judge_spark(at, facts, SparkRequirements(driver, login)))
    look.add(judge_clocks(at, [each for each in clocks if each is not None]))
    readers = look.services.config.lake.readers
    for entry in known.entries:
        place, state = Subject(known.name, entry.table), states.get(entry.table)
        look.add(judge_readers(place, readers, state))
        if log is not None:
            look.add(judge_topic(place, known.topic(entry, log, state)))


def _configured(look: _AssessRun, at: Subject, known: SourceFacts) -> None:
    try:
        there = known.services.registry.load()
    except CdcError:  # it was read for the tables that are assessed; the next look judges
        return
    mine = [each.table.qualified for each in there if each.table.source == known.name]
    if mine:
        listed = [name for name in known.source.tables if not is_pattern(name)]
        look.add(judge_configured(at, listed, mine))


def _connectors(look: _AssessRun, at: Subject, known: SourceFacts) -> Connectors | None:
    source, has_database = known.source, known.source.database is not None
    found: Connectors | None = None
    try:
        found = known.connectors
        where, has_connector = (found.at, bool(found.found)) if found else (None, False)
        access = SourceAccess(known.is_debezium, where, has_connector, has_database)
    except CdcError as error:
        look.findings.append(away("connect", at, error))
        access = SourceAccess(known.is_debezium, "", has_connector=True, has_database=has_database)
    look.add(judge_access(at, access))
    expected = ExpectedConnector(
        at, source.format, source.connector, source.database is not None,
        takes_cuts=source.consistent is not None, reads_first=source.initial == "read",
    )  # fmt: skip
    for connector in found.found if found else ():
        look.add(judge_connector(connector, expected))
    return found


def _tables(
    look: _AssessRun, at: Subject, known: SourceFacts, connectors: Connectors | None
) -> Clock | None:
    """Judges the database's server and its tables; returns its clock, if it answers."""
    database = known.source.database
    if database is None:
        return None
    try:
        server, clock = known.server(database)
        odd: Mapping[TableName, OddValues] = {}
        if look.depth.values:
            odd = known.odd(database, look.services.config.assess.rows)
        if isinstance(server, PostgresServer):
            found = connectors.found if connectors else ()
            look.add(judge_postgres(at, server, found, database.publication))
        else:
            look.add(judge_binlog(at, server))
        for connector in connectors.found if connectors else ():
            look.add(judge_user(at, connector, server))
        for entry in known.entries:
            values = odd.get(entry.at_source)
            place = Subject(known.name, entry.table)
            table = known.table(entry, values, server)
            look.add(judge_table(place, table))
            if table.found is not None:
                _searched(look, place, values)
    except CdcError as error:
        look.findings.append(away("database", at, error))
        return None
    return clock


def _searched(look: _AssessRun, at: Subject, odd: OddValues | None) -> None:
    """Tells of a table whose values were not searched, or not completely."""
    config = look.services.config
    database = config.source(at.source).database
    if not look.depth.values or database is None or database.kind != "postgres":
        return
    look.add(judged(UNSEARCHED, at, odd is not None))
    if odd is not None and odd.is_sample:
        rows = config.assess.rows
        look.notes.append(Note(f"{rows:,} of its rows were searched for odd values", at.table))


def _registry(look: _AssessRun, at: Subject, known: SourceFacts) -> None:
    config = known.source.schema_registry
    if config is None:
        return
    try:
        SchemaRegistry(config, rounds=1).ask()
    except CdcError as error:
        look.findings.append(away("registry", at, error))


# ── rules on a source ─────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Tables:
    """Names of tables, as ``schema.table``: those under ``tables:``, and those of the registry."""

    configured: Collection[str]
    known: Collection[str]


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """What a source's configuration lets be asked.

    Attributes:
        is_debezium: whether Debezium writes its records.
        connect: the address of its Kafka Connect; None if none can be asked.
        has_connector: whether Kafka Connect has a connector for it, or does not answer.
        has_database: whether its database is configured.
    """

    is_debezium: bool
    connect: str | None
    has_connector: bool
    has_database: bool


def judge_configured(
    at: Subject, configured: Collection[str], known: Collection[str]
) -> Iterator[Finding]:
    """Yields a finding if the configuration names tables that are not known.

    Args:
        at: the source.
        configured: names of the tables in its ``tables``, as ``schema.table``.
        known: those of its tables in the registry.
    """
    return judged(CONFIGURED, at, Tables(configured, known))


def judge_logins(at: Subject, logins: Iterable[Plaintext]) -> Iterator[Finding]:
    """Yields a finding for each login of a source that whoever sits between may read or take."""
    mine = [each for each in logins if each.source in {"", at.source}]
    return judged(LOGINS, at, mine)


def judge_access(at: Subject, access: SourceAccess) -> Iterator[Finding]:
    """Yields a finding for each part that cannot be asked."""
    return judged(ACCESS, at, access)


def _unknown_tables(tables: Tables) -> str:
    missing = sorted(set(tables.configured) - set(tables.known))
    others = set(tables.known) - set(tables.configured)
    close = {name: nearest(name, others) for name in missing}
    words = [f"{name} ({other}?)" if (other := close[name]) else name for name in missing]
    what = f"tables: has {some_of(words, _NAMED)}, and no table of the source is called so"
    return what if missing else ""


def _plaintext(logins: Iterable[Plaintext]) -> Iterable[Obstacle]:
    for each in logins:
        yield Obstacle(f"{each.part}: {each.problem}", words={"remedy": each.remedy})


def _no_connect(access: SourceAccess, *, is_debezium: bool) -> str:
    if access.connect is not None or access.is_debezium is not is_debezium:
        return ""
    if is_debezium:
        return "no Kafka Connect is configured (connect.url)"
    return "nothing can be asked how its records are written"


def _no_connector(access: SourceAccess) -> str:
    if access.connect is None or access.has_connector:
        return ""
    return f"Kafka Connect at {access.connect} has no connector for it"


_UNSEEN: Final = "state and settings of what writes them are not known"
_ACCEPT: Final = "check the settings in docs/how-to/sources, and accept this"

CONFIGURED: Final[tuple[Rule[Tables], ...]] = (
    Rule(
        "table_unknown", _PARTIAL, "names under `tables:`", _unknown_tables,
        "what it says there (key, types, excluded and masked columns) holds for no table",
        "correct the name, in its case too, or remove it",
    ),
)  # fmt: skip
LOGINS: Final[tuple[Rule[Iterable[Plaintext]], ...]] = (
    Rule(
        "plaintext_login", _PARTIAL, "logins over unverified connections",
        _plaintext, "whoever sits between may read the login, or answer in the server's place",
        "{remedy}",
    ),
)  # fmt: skip
ACCESS: Final[tuple[Rule[SourceAccess], ...]] = (
    Rule(
        "connector_unseen", _PARTIAL, "`connect.url`, for Debezium's formats",
        partial(_no_connect, is_debezium=True), _UNSEEN,
        f"configure it; if impossible, {_ACCEPT}",
    ),
    Rule(
        "connector_unseen", _PARTIAL, "the writer, for other formats",
        partial(_no_connect, is_debezium=False), _UNSEEN, _ACCEPT,
    ),
    Rule(
        "connector_missing", _PARTIAL, "the connector's name", _no_connector,
        "nothing is known of how its records are written",
        "register the connector, or set connect.connector",
    ),
    Rule(
        "tables_unseen", _PARTIAL, "`database:`",
        lambda access: "" if access.has_database else "no database: is configured",
        "keys, columns and the database's settings are known from records only",
        "configure database:; for another kind check docs/how-to/sources, and accept this",
    ),
)  # fmt: skip
UNSEARCHED: Final[tuple[Rule[bool], ...]] = (
    Rule(
        "values_unseen", _PARTIAL, "the search of values",
        lambda is_searched: "" if is_searched
        else "its values were not searched: no right, or no time",
        "whether all of them can arrive is not known",
        "grant SELECT to the user of database.dsn, or lower assess.rows",
    ),
)  # fmt: skip
