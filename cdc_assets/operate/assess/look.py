"""Runs a whole assessment: asks each part once, then judges every source and table by rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cdc_assets.changes.names import TableName
from cdc_assets.databases.postgres.server import Odd, Server
from cdc_assets.errors import CdcError
from cdc_assets.formats.registry_http import RegistryHttp
from cdc_assets.operate.assess.configured import judge_configured, judge_logins
from cdc_assets.operate.assess.connector import Expected
from cdc_assets.operate.assess.connector_rules import judge_connector
from cdc_assets.operate.assess.database import (
    Clock,
    judge_binlog,
    judge_clocks,
    judge_postgres,
)
from cdc_assets.operate.assess.finding import (
    Assessment,
    Finding,
    Note,
    Place,
    accepted,
    ordered,
    yes_but,
)
from cdc_assets.operate.assess.gather import Connectors, Gathered, Log, dated, read_log
from cdc_assets.operate.assess.parts import (
    JDBC,
    Needed,
    Session,
    SparkFacts,
    away,
    judge_spark,
    look_at_spark,
    probe_warehouse,
)
from cdc_assets.operate.assess.rights import judge_user
from cdc_assets.operate.assess.tables import judge_table
from cdc_assets.operate.assess.topics import judge_topic
from cdc_assets.operate.assess.writing import judge_writing, probe_tables
from cdc_assets.operate.plaintext import plaintext_logins
from cdc_assets.operate.services import Services
from cdc_assets.registry import TableEntry

Say = Callable[[str], None]


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
class _Look:
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
    look, at = _Look(services, depth, notes=[*depth.left_out]), services.clock()
    by_source: dict[str, list[TableEntry]] = defaultdict(list)
    for entry in entries:
        by_source[entry.table.source].append(entry)
    log, states = _log(look, sources, entries), _states(look, sources, entries)
    spark = _spark(look, sources)
    answers: dict[str, object] = {}
    for name in sources:
        mine = by_source.get(name, [])
        depth.say(f"source {name}: {len(mine)} tables")
        found: list[Finding] = []
        before, look.findings = look.findings, found
        firsts = log.firsts if log is not None else {}
        known = Gathered(services, name, mine, answers, firsts)
        _source(look, known, log, (states, spark))
        kept = accepted(
            [*(f for f in before if f.at.source == name), *found],
            services.config.source(name).assess.accept,
        )
        look.findings = [*(f for f in before if f.at.source != name), *kept]
    tables = tuple(each.table for each in entries)
    return Assessment(at, tuple(sources), tables, ordered(look.findings), tuple(look.notes))


def _log(look: _Look, sources: Sequence[str], entries: Sequence[TableEntry]) -> Log | None:
    look.depth.say("Kafka")
    topics = sorted({each.topic for each in entries})
    try:
        look.services.log.topics()
        return read_log(look.services, topics, with_records=True)
    except CdcError as error:
        impact = "nothing can be read, and topics are not judged"
        look.findings += [away("kafka", Place(name), error, impact) for name in sources]
        return None


def _states(
    look: _Look, sources: Sequence[str], entries: Sequence[TableEntry]
) -> Mapping[TableName, object]:
    look.depth.say("the catalog")
    lake, nothing = look.services.lake, "no batch can be planned or published"
    try:
        lake.require_open()
        looked = lake.looked([(each.target, each.shard_value) for each in entries])
    except CdcError as error:
        look.findings += [away("catalog", Place(name), error, nothing) for name in sources]
        return {}
    if look.depth.writes:
        look.depth.say("the warehouse")
        for name in sources:
            warehouse = look.services.config.lake.warehouse
            look.findings += probe_warehouse(Place(name), lake, warehouse)
    states = {each.table: state for each, state in zip(entries, looked, strict=True)}
    unread = {table: state for table, state in states.items() if isinstance(state, CdcError)}
    for table, error in unread.items():
        look.findings.append(away("catalog", Place(table.source, table), error, nothing))
    return {table: state for table, state in states.items() if table not in unread}


def _spark(look: _Look, sources: Sequence[str]) -> tuple[SparkFacts, Clock] | None:
    if look.depth.session is None:
        return None
    look.depth.say("Spark")
    try:
        config = look.services.config
        databases = (config.source(name).database for name in sources)
        drivers = {JDBC[each.kind].name for each in databases if each and each.kind in JDBC}
        facts = look_at_spark(config, look.depth.session, look.services.clock, drivers)
        if look.depth.writes:
            refused = probe_tables(config, look.depth.session(), look.services.clock())
            for name in sources:
                look.add(judge_writing(Place(name), refused))
        return facts
    except CdcError as error:
        nothing = "no batch can be merged"
        look.findings += [away("spark", Place(name), error, nothing) for name in sources]
        return None


def _source(
    look: _Look,
    known: Gathered,
    log: Log | None,
    shared: tuple[Mapping[TableName, object], tuple[SparkFacts, Clock] | None],
) -> None:
    at, (states, spark) = Place(known.name), shared
    clocks: list[Clock | None] = []
    connectors = _connectors(look, at, known)
    clocks.append(connectors.clock if connectors else None)
    clocks.append(_tables(look, at, known, connectors))
    _registry(look, at, known)
    _configured(look, at, known)
    look.add(judge_logins(at, plaintext_logins(look.services.config)))
    if spark is not None:
        facts, clock = spark
        clocks.append(clock)
        database = known.source.database
        driver = JDBC.get(database.kind) if database else None
        look.add(judge_spark(at, facts, Needed(driver)))
    look.add(judge_clocks(at, [*dated(clocks)]))
    for entry in known.entries if log is not None else ():
        if log is not None:
            place = Place(known.name, entry.table)
            state = states.get(entry.table)
            look.add(judge_topic(place, known.topic(entry, log, state)))  # pyright: ignore[reportArgumentType]


def _configured(look: _Look, at: Place, known: Gathered) -> None:
    try:
        there = known.services.registry.load()
    except CdcError:  # it was read for the tables that are assessed; the next look judges
        return
    mine = [each.table.qualified for each in there if each.table.source == known.name]
    if mine:
        look.add(judge_configured(at, known.source.tables, mine))


def _connectors(look: _Look, at: Place, known: Gathered) -> Connectors | None:
    try:
        found = known.connectors
    except CdcError as error:
        impact = "how the connector is, and how it is set, is not known"
        look.findings.append(away("connect", at, error, impact))
        return None
    if found is None:
        look.findings.append(_unseen_connector(at, known))
        return None
    if not found.found:
        look.findings.append(
            yes_but(
                "connector_missing", at, f"Kafka Connect at {found.at} has no connector for it",
                "nothing is known of how its records are written",
                "register it, or name it (connect.connector)",
            )
        )  # fmt: skip
    source = known.source
    expected = Expected(at, source.format, source.connector, source.database is not None)
    for connector in found.found:
        look.add(judge_connector(connector, expected))
    return found


def _unseen_connector(at: Place, known: Gathered) -> Finding:
    problem, remedy = "nothing can be asked how its records are written", ""
    if known.is_debezium:
        problem, remedy = "no Kafka Connect is configured (connect.url)", "configure it; if none "
        remedy += "can be asked, "
    return yes_but(
        "connector_unseen", at, problem, "state and settings of what writes them are not known",
        f"{remedy}check the settings that docs/sources names, and accept this",
    )  # fmt: skip


def _tables(look: _Look, at: Place, known: Gathered, connectors: Connectors | None) -> Clock | None:
    """Judges the database's server and its tables; returns its clock, if it answers."""
    database = known.source.database
    if database is None:
        look.findings.append(
            yes_but(
                "tables_unseen", at, "no database: is configured",
                "keys, columns and the database's settings are known from records only",
                "configure database:; where it cannot be PostgreSQL, MySQL or MariaDB, check what "
                "docs/sources says of it, and accept this",
            )
        )  # fmt: skip
        return None
    try:
        server, clock = known.server(database)
        odd: Mapping[TableName, Odd] = {}
        if look.depth.values:
            odd = known.odd(database, look.services.config.assess.rows)
        if isinstance(server, Server):
            found = connectors.found if connectors else ()
            look.add(judge_postgres(at, server, found, database.publication))
        else:
            look.add(judge_binlog(at, server))
        for connector in connectors.found if connectors else ():
            look.add(judge_user(at, connector, server))
        for entry in known.entries:
            values = odd.get(entry.at_source)
            place = Place(known.name, entry.table)
            table = known.table(entry, values, server)
            look.add(judge_table(place, table))
            if table.found is not None:
                _searched(look, place, values)
    except CdcError as error:
        impact = "types, keys and what is published of its tables are not known"
        look.findings.append(away("database", at, error, impact))
        return None
    return clock


def _searched(look: _Look, at: Place, odd: Odd | None) -> None:
    """Tells of a table whose values were not searched, or not completely."""
    config = look.services.config
    database = config.source(at.source).database
    if not look.depth.values or database is None or database.kind != "postgres":
        return
    if odd is None:
        look.findings.append(
            yes_but(
                "values_unseen", at, "its values were not searched: no right, or no time",
                "whether all of them can arrive is not known",
                "grant SELECT on it to the user of database.dsn, or lower assess.rows",
            )
        )  # fmt: skip
    elif odd.is_sample:
        rows = config.assess.rows
        look.notes.append(Note(f"{rows:,} of its rows were searched for odd values", at.table))


def _registry(look: _Look, at: Place, known: Gathered) -> None:
    config = known.source.schema_registry
    if config is None:
        return
    path = "/schemas/ids/1" if config.api == "confluent" else "/ids/globalIds/1"
    http = RegistryHttp(config, 1)
    try:
        http.get(path, f"registry {http.shown}")
    except CdcError as error:
        impact = "records with schemas that were not seen before cannot be read"
        look.findings.append(away("registry", at, error, impact))
