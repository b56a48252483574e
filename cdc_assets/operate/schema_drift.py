"""Compares a table's columns in the lake with the source's newest ones.

The newest are those of the database's catalog if ``database:`` is configured; otherwise those of
the last records that contain a schema. The next records will change whatever differs.

Compares one table's columns with the source's newest ones, for ``cdc-assets schema diff``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from cdc_assets.changes.names import TableName
from cdc_assets.changes.position import Scheme
from cdc_assets.config import ReplicationConfig
from cdc_assets.databases.catalog import ColumnFacts, numbered, with_existing, with_number
from cdc_assets.errors import CdcError
from cdc_assets.formats.layout import Layout
from cdc_assets.operate.known_tables import find_table
from cdc_assets.operate.services import Services
from cdc_assets.registry import TableEntry
from cdc_assets.schema.evolution import plan_evolution
from cdc_assets.schema.homes import home_of
from cdc_assets.schema.promotions import fits
from cdc_assets.schema.silent import SilentChange, doubt_words, remembered
from cdc_assets.schema.table_changes import EvolutionPlan, Refused
from cdc_assets.schema.types import Column, TableSchema, UnmappedColumn

if TYPE_CHECKING:
    from cdc_assets.databases.catalog import SourceTable
    from cdc_assets.formats.histories import Histories
    from cdc_assets.lake import TableState
    from cdc_assets.schema.history import Retyped, StatementHistory


BY_CATALOG: Final = "the database's catalog"
BY_RECORDS: Final = "the newest records"
BY_STATEMENTS: Final = "the statements on it"


@dataclass(frozen=True, slots=True)
class Drift:
    """The differences between a table in the lake and at the source.

    Attributes:
        plan: the evolution of the table when such records come; its refused parts stop the table.
        dropped: columns that the source no longer has.
        is_gone: whether the source no longer has the table.
        called: the table's new name at the source; empty if unknown.
        is_dropped: whether the source has the table under no name at all.
        is_another: why the source's table is another one than that of the lake's rows; empty if
            it is not.
        by: the origin of the newest columns; empty if there is none.
        problem: why nothing is known; empty if the database answered.
        silent: changes of its rows without events, whose rows nothing has proven right since.
        halts: those of them that stop the table.
    """

    plan: EvolutionPlan = field(default_factory=EvolutionPlan)
    dropped: tuple[str, ...] = ()
    is_gone: bool = False
    called: str = ""
    is_dropped: bool = False
    is_another: str = ""
    by: str = ""
    problem: str = ""
    silent: tuple[SilentChange, ...] = ()
    halts: tuple[SilentChange, ...] = ()

    @property
    def is_in_sync(self) -> bool:
        """Whether nothing differs."""
        differs = self.problem or self.is_gone or self.is_another or self.dropped or self.silent
        return not differs and self.plan.is_empty

    @property
    def stops(self) -> bool:
        """Whether the table stops when such records come."""
        return bool(self.plan.refused or self.is_another or self.halts)

    def lines(self) -> Iterator[str]:
        """Yields the differences, for people."""
        if self.problem:
            yield f"not known: {self.problem}"
        if self.is_gone:
            yield "the source no longer has the table" + (
                f": it is called {self.called} now" if self.called else ""
            )
        if self.is_another:
            yield f"the lake's rows are of another table: {self.is_another}"
        yield from map(doubt_words, self.silent)
        yield from self.plan.lines()
        for name in self.dropped:
            yield f"{name} was dropped at the source: emptied in the rows that change"


def drifts(
    services: Services, tables: Sequence[tuple[TableEntry, TableState]]
) -> dict[TableName, Drift]:
    """Compares tables with their databases' catalogs; asks once for each source.

    For tables of sources without ``database:`` it only finds out whether they exist and are still
    the same ones: their columns follow the records.
    """
    from cdc_assets.databases.kinds import catalog_of
    from cdc_assets.formats.histories import Histories
    from cdc_assets.lake.at_source import AtSource

    histories = Histories(services.log, looks_once=True)
    found: dict[TableName, Drift] = {}
    by_source: dict[str, list[tuple[TableEntry, TableState]]] = {}
    for entry, state in tables:
        by_source.setdefault(entry.table.source, []).append((entry, state))
    for source, mine in by_source.items():
        database = services.config.source(source).database
        past = {entry.table: _history(services, histories, entry, state) for entry, state in mine}
        if database is None:
            for entry, state in mine:
                history = past[entry.table]
                found[entry.table] = _gone(history) or _doubted(
                    services, Drift(), entry, state, history, None
                )
            continue
        try:
            catalog = catalog_of(database)
            there = catalog.read([entry.at_source for entry, _ in mine])
            lost = {
                entry: AtSource.of(state, entry.shard_value).identity
                for entry, state in mine
                if entry.at_source not in there
            }
            called = catalog.called(each for each in lost.values() if each) if lost else {}
        except CdcError as error:
            found |= {entry.table: Drift(problem=str(error)) for entry, _ in mine}
            continue
        for entry, state in mine:
            if entry in lost:
                found[entry.table] = _lost(lost[entry], called, past[entry.table])
                continue
            table = there[entry.at_source]
            found[entry.table] = _by_catalog(services, entry, state, table, past[entry.table])
    return found


def newest_drift(services: Services, entry: TableEntry, state: TableState) -> Drift:
    """Compares one table; without a database, with its topic's last records.

    Raises:
        CdcError: if Kafka or a registry does not answer.
    """
    if services.config.source(entry.table.source).database is not None:
        return drifts(services, [(entry, state)])[entry.table]
    from cdc_assets.formats.histories import Histories

    history = _history(services, Histories(services.log), entry, state)
    return _by_records(services, entry, state, history)


def _history(
    services: Services, histories: Histories, entry: TableEntry, state: TableState
) -> StatementHistory | None:
    """Returns the effects of statements on the table, once a batch has recorded them.

    Before that, each call would have to read the whole topic.
    """
    from cdc_assets.lake.at_source import AtSource

    stored = AtSource.of(state, entry.shard_value).history
    if stored is None:
        return None
    fmt, scheme = services.formats[entry.table.source], Layout.of(state.properties).scheme
    return histories.of(entry, fmt, scheme, stored)


def _stored(
    entry: TableEntry, state: TableState, history: StatementHistory | None
) -> TableSchema | None:
    """Returns the lake's columns, with the facts that statements give of them."""
    from cdc_assets.lake.columns import columns_of

    stored = columns_of(state)
    if stored is None or history is None or entry.shard is not None:
        return stored
    return history.taught(stored)


def _another(
    entry: TableEntry,
    state: TableState,
    table: SourceTable | None,
    history: StatementHistory | None,
) -> str:
    """Says why the source's table is another than the lake's rows are of; empty if it is not."""
    from cdc_assets.lake.at_source import AtSource

    before = AtSource.of(state, entry.shard_value).identity
    broken = history.broken if history else None
    if before is None or (broken is not None and broken.at == before):
        return ""
    now = table.identity if table is not None else ""
    if broken is not None:
        return broken.why
    return f"{before} is {now} now" if now and now != before else ""


def _nothing_differs(_: Retyped) -> bool:
    return True


def _gone(history: StatementHistory | None) -> Drift | None:
    """Returns the drift of a table that statements have removed; None if it still exists."""
    if history is None or history.is_there:
        return None
    became = str(history.became) if history.became else ""
    return Drift(is_gone=True, called=became, is_dropped=not became, by=BY_STATEMENTS)


def _lost(
    identity: str | None, called: Mapping[str, tuple[str, str]], history: StatementHistory | None
) -> Drift:
    """Returns the drift of a table that the database no longer has under its name."""
    if (gone := _gone(history)) is not None:
        return gone
    now = ".".join(called[identity]) if identity and identity in called else ""
    return Drift(is_gone=True, called=now, is_dropped=bool(identity) and not now, by=BY_CATALOG)


def _by_catalog(
    services: Services,
    entry: TableEntry,
    state: TableState,
    table: SourceTable,
    history: StatementHistory | None,
) -> Drift:
    stored = _stored(entry, state, history)
    if stored is None:
        return Drift()
    source = services.config.source(entry.table.source)
    described = services.formats[entry.table.source].of_catalog(table)
    described = source.laid_over(entry.table, described, whole=False)
    hidden = {*table.unpublished(source.publication)}
    overrides = source.overrides(entry.table)
    mine = stored.of_source
    tells_types = described.origin == stored.origin
    known = numbered(table.facts, history)
    facts = {name: replace(each, number=0) if entry.shard else each for name, each in known.items()}
    columns = tuple(
        _numbered(each, mine, described.names, facts, tells_types=tells_types)
        for each in described.columns
        if each.name not in {*hidden, *overrides.excluded}
    )
    given = (
        _filled(c, mine, described.names, facts, overrides.existing, is_merged=bool(entry.shard))
        for c in columns
        if isinstance(c, Column)
    )
    seen = TableSchema(tuple(given), mine.as_sent.key)
    refused = tuple(
        Refused(f"column {c.name} ({c.source_type}) cannot be stored exactly: {c.reason}")
        for c in columns
        if isinstance(c, UnmappedColumn)
    )
    plan = plan_evolution(mine, seen, source.policy(entry.table), by_catalog=tells_types)
    plan = replace(plan, refused=(*plan.refused, *refused))
    drift = _with_dropped(mine, seen, plan, BY_CATALOG)
    return _doubted(services, drift, entry, state, history, table)


def _doubted(
    services: Services,
    drift: Drift,
    entry: TableEntry,
    state: TableState,
    history: StatementHistory | None,
    table: SourceTable | None,
) -> Drift:
    """Adds why the lake's rows may be others than the source's."""
    from cdc_assets.lake.at_source import AtSource

    another = _another(entry, state, table, history)
    said, silent = AtSource.of(state, entry.shard_value), ()
    source = services.config.source(entry.table.source)
    policy, publication = source.silent(entry.table), source.publication
    if table is not None or history is not None:
        silent = table.silent_since(None if another else said.look, publication) if table else ()
        if history is not None:
            held = _nothing_differs  # the next batch compares types
            with_keys = table is None and Layout.of(state.properties).scheme is not Scheme.TIDB
            silent = (*silent, *history.without_events(held, with_keys=with_keys))
        truncated = state.published.carried.max_truncate if state.published else ""
        silent = remembered(said.silent, silent, services.clock(), truncated)
    else:
        silent = said.silent
    silent = policy.heeded(silent)
    halts = tuple(each for each in silent if policy.stops(each))
    return replace(drift, is_another=another, silent=silent, halts=halts)


def _numbered(
    column: Column | UnmappedColumn,
    table: TableSchema,
    names: Sequence[str],
    facts: Mapping[str, ColumnFacts],
    *,
    tells_types: bool,
) -> Column | UnmappedColumn:
    """Returns a column as in the catalog; if records give better types, as in the lake or wider."""
    named = Column(column.name, table.columns[0].type, table.columns[0].wire)
    found = column if isinstance(column, Column) else named
    found = with_number(found, facts.get(column.name))
    home = home_of(table, found, names) or _by_number(table, found)
    wider = home is not None and isinstance(column, Column) and fits(home.type, column.type)
    if home is not None and not (isinstance(column, Column) and (tells_types or wider)):
        return replace(found, type=home.type, wire=home.wire, detail=home.detail)
    return found if isinstance(column, Column) else column


def _filled(
    column: Column,
    table: TableSchema,
    names: Sequence[str],
    facts: Mapping[str, ColumnFacts],
    texts: Mapping[str, str | None],
    *,
    is_merged: bool,
) -> Column:
    """Adds the value that older rows have in a column, if it is new."""
    if home_of(table, column, names) or _by_number(table, column):
        return column
    return with_existing(column, facts.get(column.name), texts, is_merged=is_merged, implies=False)


def _by_number(table: TableSchema, column: Column) -> Column | None:
    number = column.identity.number
    return next((c for c in table.columns if number and c.identity.number == number), None)


def _by_records(
    services: Services, entry: TableEntry, state: TableState, history: StatementHistory | None
) -> Drift:
    if (gone := _gone(history)) is not None:
        return gone
    stored = _stored(entry, state, history)
    numbers = numbered({}, None if entry.shard else history)
    fmt = services.formats[entry.table.source]
    records = services.log.edges([entry.topic]).get(entry.topic, ())
    newest = sorted(records, key=lambda each: (each.timestamp, each.coordinate), reverse=True)
    layout = Layout.of(state.properties)
    for record in newest:
        for message in fmt.unpacked(record, entry.table) if record.value is not None else ():
            written = fmt.written(message, layout)
            if stored is None or written is None or written.is_of_key:
                continue
            source = services.config.source(entry.table.source)
            overrides = source.overrides(entry.table)
            left = dict.fromkeys((*stored.left_out, *overrides.excluded), "")
            given = source.laid_over(entry.table, written.described.without(left), whole=False)
            columns = tuple(
                with_existing(c, numbers.get(c.name), overrides.existing,
                              is_merged=bool(entry.shard), implies=False)
                for c in given.columns
                if isinstance(c, Column)
            )  # fmt: skip
            seen = TableSchema(columns)
            mine = stored.of_source
            plan = plan_evolution(mine, seen, source.policy(entry.table))
            drift = _with_dropped(mine, seen, plan, BY_RECORDS)
            return _doubted(services, drift, entry, state, history, None)
    return _doubted(services, Drift(), entry, state, history, None)


def _with_dropped(table: TableSchema, seen: TableSchema, plan: EvolutionPlan, by: str) -> Drift:
    """Returns the drift, with the lake's columns that no seen column maps to as dropped."""
    after = plan.after(table)
    there = {home.name for c in seen.columns if (home := home_of(after, c, seen.names))}
    gone = tuple(n for n in after.expected if n not in there)
    return Drift(plan, gone, by=by)


@dataclass(frozen=True, slots=True)
class SchemaDiff:
    """The lines to print; ``stops``: whether the table would stop, or nothing can be known."""

    lines: tuple[str, ...]
    stops: bool


def schema_diff(config: ReplicationConfig, table: str) -> SchemaDiff:
    """Compares a table's columns; changes nothing.

    Raises:
        TerminalError: if no table has that name, or several do.
        CdcError: if the lake, Kafka or a registry does not answer.
    """
    services = Services(config)
    entry = find_table(config, services.registry.load(), table)
    state = services.lake.state(entry.target, entry.shard_value)
    if state is None:
        return SchemaDiff((f"{entry.table}: not in the lake yet",), stops=False)
    found = newest_drift(services, entry, state)
    head = f"{entry.table} → {entry.target}, against {found.by or 'nothing that tells columns'}:"
    lines = tuple(f"  {line}" for line in found.lines())
    return SchemaDiff((head, *(lines or ("  in sync",))), found.stops or bool(found.problem))
