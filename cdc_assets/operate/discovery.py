"""Discovers tables: topics that match the configuration and are not in the registry yet.

A topic becomes a table once a change event is seen among its first or last records. A topic with
other records (heartbeats under another prefix, logical decoding messages, …) is set aside: it is
recorded with the kind of its records, shown by `cdc-assets status`, and examined again every ten
minutes, so that a first look never excludes a table for ever. A table that the configuration
lists under ``tables:`` always counts as one. A topic without records counts as a table by its
name, unless that is the name of one of Debezium's own topics; the first records correct this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from cdc_assets.changes.names import TableName
from cdc_assets.config import SourceConfig
from cdc_assets.errors import CdcError, ConfigError, TerminalError, UnreachableError
from cdc_assets.formats.format import Format
from cdc_assets.formats.names import match_topics, spellings
from cdc_assets.log.hours import first_hour
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.left_behind import late_under_old_names
from cdc_assets.log.reader import EPOCH
from cdc_assets.naming import some_of
from cdc_assets.operate.by_record import elsewhere, named_by_records, untaken_topics, without_rows
from cdc_assets.operate.judged_kinds import (
    OF_TABLES,
    JudgedKinds,
    is_listed,
    judged_kinds,
    may_be_table,
    others_of,
)
from cdc_assets.operate.known_tables import not_tables, replicated
from cdc_assets.operate.services import Services
from cdc_assets.registry import UNTAKEN, OtherTopic, Registry, TableEntry, Taken

LOOK_AGAIN_AFTER: Final = timedelta(minutes=10)
_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class Discovery:
    """The result of one look at Kafka.

    ``refused`` says which tables could not be added, and why: two tables whose rows would be
    written to one Iceberg table, two topics of one table, a topic whose records nobody can judge.
    """

    registry: Registry
    added: tuple[TableEntry, ...]
    refused: tuple[CdcError, ...] = ()


def discover(services: Services) -> Discovery:
    """Adds the tables of new topics to the registry.

    A table that cannot be added does not prevent adding the others.

    Raises:
        UnreachableError: if Kafka, the registry or, to correct a table, the catalog does not
            answer.
    """
    known = services.registry.load()
    topics = services.log.topics()
    guesses = without_rows(services, known)
    doubtful = _doubtful(services, known, topics, guesses)
    judged = _kinds(services, doubtful)
    kinds = judged.kinds
    kinds |= dict.fromkeys(_with_rows(services, known, kinds), TopicKind.CHANGES)
    entries = _entries(services, judged.tables, Taken.NAMED)
    named = named_by_records(known, guesses, entries)
    others = others_of(services.formats, judged, services.clock())
    mine = replicated(services.config, known)
    mistaken = (*_named_by(mine, {other.topic for other in others}), *named.mistaken)
    if others or mistaken:
        known = services.registry.set_aside(others, mistaken)
        for table in mistaken:
            services.failures.clear(table)
    decided = {*judged.problems, *judged.tables}
    left = [topic for topic in topics if topic not in decided]
    by_name, ambiguous = _matching(services, known, left, kinds)
    shared, silent, untaken = _in_shared_topics(services, known, topics)
    to_read, unlisted = _to_be_read(services, known)
    if untaken:
        known = services.registry.set_aside(untaken)
    found = _added(services, known, (*named.entries, *by_name, *shared, *to_read))
    unjudged = {each.what: each for each in judged.problems.values()}.values()
    refused = (
        *found.refused,
        *unjudged,
        *named.problems,
        *ambiguous,
        *silent,
        *unlisted,
        *late_under_old_names(mine, services.log),
    )
    return replace(found, refused=refused)


def add_seen(
    services: Services, entry: TableEntry, names: Iterable[str], changes: int = 0
) -> Discovery:
    """Adds tables that a batch found in another table's topic.

    Those that cannot be added are shown with the topic, as nothing merges their changes.

    Args:
        services: the registry and the configuration.
        entry: the entry of the table whose batch it was.
        names: the tables' names, as ``schema.table``.
        changes: how many changes of such tables the batch held.

    Raises:
        UnreachableError: if the registry does not answer.
    """
    fmt = services.formats[entry.table.source]
    seen = {fmt.table_called(name, entry.at_source) for name in names}
    is_named = fmt.names_tables
    known = services.registry.load()
    if is_named:
        known = services.registry.share(entry.topic)
    taken = Taken.NAMED if is_named else Taken.ALL
    new = _entries(services, {entry.topic: seen - known.tables}, taken)
    found = _added(services, known, tuple(replace(each, is_shared=is_named) for each in new))
    refused = (*found.refused, *elsewhere(known, {entry.topic: seen}))
    if refused and entry.topic not in _judged_lately(services, known):
        why = some_of((each.what for each in refused), _NAMED, "; ")
        holds = f"{UNTAKEN}, among {changes:,} of other tables in a batch: {why}"
        services.registry.set_aside([OtherTopic(entry.topic, holds, services.clock())])
    return replace(found, refused=refused)


def _in_shared_topics(
    services: Services, known: Registry, topics: Sequence[str]
) -> tuple[tuple[TableEntry, ...], tuple[CdcError, ...], tuple[OtherTopic, ...]]:
    """Returns an entry for each new table named by a shared topic's first or last records.

    Tables that only the records between them name are found during the merge: `add_seen`.

    Returns:
        The entries; the errors of topics of which a partition has no leader, and of those with
        changes of another topic's tables; and the topics whose records no table takes.
    """
    found: list[TableEntry] = []
    problems: list[CdcError] = []
    untaken: list[OtherTopic] = []
    registered = {entry.topic for entry in replicated(services.config, known)}
    known_topics = _judged_lately(services, known) | registered
    for source, fmt in services.formats.items():
        mine = [each for each in topics if fmt.has_many_tables and fmt.topics.includes(each)]
        if not mine:
            continue
        try:
            bounds = services.log.bounds(mine)
        except UnreachableError as problem:  # that of the only one, or of all
            problems.append(problem)
            continue
        problems += bounds.problems.values()
        edges = services.log.edges_within(bounds.marks)
        named = {topic: fmt.tables(records, source) for topic, records in edges.items()}
        problems += elsewhere(known, named)
        found += _entries(services, {t: tables - known.tables for t, tables in named.items()})
        left = {t: edges[t] for t, tables in named.items() if not tables and t not in known_topics}
        untaken += untaken_topics(fmt, left, services.clock())
    return tuple(found), tuple(problems), tuple(untaken)


def _entries(
    services: Services, tables: Mapping[str, Collection[TableName]], taken: Taken = Taken.ALL
) -> tuple[TableEntry, ...]:
    """Returns entries for tables that were seen in these topics."""
    config, now = services.config, services.clock()
    return tuple(
        replace(
            _entry(config.source(table.source), table, topic, now),
            taken=taken,
            is_shared=taken is Taken.NAMED and len(mine) > 1,
        )
        for topic, mine in tables.items()
        for table in sorted(mine)
    )


def _entry(source: SourceConfig, table: TableName, topic: str, now: datetime) -> TableEntry:
    return TableEntry(table, topic, source.lake_name(table), now, shard=source.shard(table))


def _kinds(services: Services, doubtful: Mapping[str, Sequence[str]]) -> JudgedKinds:
    """Returns each topic's kind, as its source's format reads it; CHANGES wins over others."""
    found: dict[str, TopicKind] = {}
    problems: dict[str, CdcError] = {}
    tables: dict[str, frozenset[TableName]] = {}
    for name, topics in doubtful.items():
        if topics:
            judged = judged_kinds(services.log, topics, services.formats[name], name)
            tables |= {t: tables.get(t, frozenset()) | each for t, each in judged.tables.items()}
            kinds = judged.kinds.items()
            found |= {t: k for t, k in kinds if found.get(t) is not TopicKind.CHANGES}
            problems |= judged.problems
    unjudged = {t: each for t, each in problems.items() if t not in found}
    return JudgedKinds(found, unjudged, tables)


def _matching(
    services: Services, known: Registry, topics: Sequence[str], kinds: Mapping[str, TopicKind]
) -> tuple[tuple[TableEntry, ...], tuple[ConfigError, ...]]:
    """Returns an entry for each table's topic that the registry lacks or has unconfirmed.

    And the errors of sources of which two topics belong to one table, and which have none.
    """
    now = services.clock()
    confirmed = {topic for topic, kind in kinds.items() if kind is TopicKind.CHANGES}
    excluded = {each.topic for each in not_tables(services.config, known)} - confirmed
    excluded |= {
        topic for topic, kind in kinds.items()
        if kind is TopicKind.EMPTY and _looks_like_side_topic(services.formats, topic)
        and not is_listed(services.formats, topic)
    }  # fmt: skip
    mine = replicated(services.config, known)
    excluded |= {entry.topic for entry in mine if entry.taken is Taken.NAMED}
    excluded |= _of_other_names(services, known)
    registered = {entry.table: entry.is_confirmed for entry in known}
    registered |= {entry.at_source: True for entry in known if entry.renamed}
    found: list[TableEntry] = []
    ambiguous: list[ConfigError] = []
    for name, source in services.config.sources.items():
        fmt = services.formats[name]
        if fmt.has_many_tables:
            continue
        try:
            matched = match_topics(fmt.topics, name, topics, excluded)
        except ConfigError as error:
            ambiguous.append(error)
            continue
        found += (
            replace(_entry(source, table, topic, now),
                    is_confirmed=topic in confirmed or table.qualified in source.tables,
                    taken=Taken.UNLESS_NAMED if fmt.names_tables else Taken.ALL)
            for table, topic in matched
        )  # fmt: skip
    new = (
        each for each in found
        if each.table not in registered or (each.is_confirmed and not registered[each.table])
    )  # fmt: skip
    return tuple(new), tuple(ambiguous)


def _of_other_names(services: Services, known: Registry) -> set[str]:
    """Returns topics of tables that are to be read, which Kafka cannot name like their tables."""
    return {
        each.topic
        for each in known
        if each.renamed is None
        and (fmt := services.formats.get(each.table.source)) is not None
        and services.config.source(each.table.source).reads_first(each.table)
        and fmt.topics.table_of(each.topic, each.table.source) != each.table
    }


def _to_be_read(
    services: Services, known: Registry
) -> tuple[tuple[TableEntry, ...], tuple[CdcError, ...]]:
    """Returns an entry for each new table with `initial: read`, and what prevents finding some.

    A connector without a snapshot makes a table's topic with the table's first change, which may
    never come. So these tables are found in their database's catalog: those whose topics would be
    the source's, by the connector's prefix and the configured patterns. Where Kafka Connect is
    known, tables that the connector leaves out are left out. A table that is registered under
    another topic, or by a former name, stays as it is.
    """
    registered = {*known.tables, *(each.at_source for each in known)}
    found: list[TableEntry] = []
    problems: list[CdcError] = []
    for name, source in services.config.sources.items():
        if not source.reads_some_first:
            continue
        try:
            listed = _listed_to_be_read(services, name, source)
            times = Counter(each.topic for each in listed)
            alone = [each for each in listed if times[each.topic] == 1]
            problems += (_one_topic(each) for each in listed if times[each.topic] > 1)
            found += _captured(services, [e for e in alone if e.table not in registered])
        except CdcError as problem:
            problems.append(problem)
    return tuple(found), tuple(problems)


def _listed_to_be_read(services: Services, name: str, source: SourceConfig) -> list[TableEntry]:
    """Returns an entry for each of the database's tables that is to be read.

    Raises:
        CdcError: if the database does not answer, or no topic is a table's.
    """
    from cdc_assets.databases.kinds import catalog_of

    fmt = services.formats[name]
    if fmt.has_many_tables:
        what = f"initial: read needs a topic for each table, which {source.format} has not"
        raise ConfigError(what, where=f"sources.{name}", remedy="write initial: log")
    tables = catalog_of(source.database).listed() if source.database is not None else ()
    named = (TableName(name, schema, table) for schema, table in tables)
    found = (_to_be_made(services, each) for each in named if source.reads_first(each))
    return [
        each
        for each in found
        if fmt.topics.includes(each.topic)
        and (
            each.table.qualified in source.tables
            or not fmt.topics.looks_like_side_topic(each.topic)
        )
    ]


def _to_be_made(services: Services, table: TableName) -> TableEntry:
    """Returns the entry of a table whose topic may be yet to be made, with the topic's name."""
    source = services.config.source(table.source)
    topic = spellings(f"{source.topics.prefix}.{table.qualified}")[-1]
    taken = Taken.UNLESS_NAMED if services.formats[table.source].names_tables else Taken.ALL
    return replace(_entry(source, table, topic, services.clock()), taken=taken)


def _captured(services: Services, entries: Sequence[TableEntry]) -> Sequence[TableEntry]:
    """Returns the entries of tables that the source's connector captures, as far as that is known.

    Raises:
        CdcError: if Kafka Connect does not answer, or does not have that connector.
    """
    from cdc_assets.log.connect import captures, connect_of, described_connector

    if not entries or connect_of(services.config, entries[0].table.source) is None:
        return entries
    _, settings = described_connector(services.config, entries[0])
    return [e for e in entries if captures(settings, e.table.schema, e.table.name)]


def _one_topic(entry: TableEntry) -> ConfigError:
    """Returns the error of a table whose topic Kafka cannot name unlike another table's."""
    what = f"changes of {entry.table} and of another table come in one topic"
    remedy = "write initial: log for both, or exclude the topic (topics.exclude)"
    return ConfigError(what, where=f"topic={entry.topic}", remedy=remedy)


def _looks_like_side_topic(formats: Mapping[str, Format], topic: str) -> bool:
    """Returns whether a source that may own the topic takes it for a side topic."""
    mine = [each for name, each in formats.items() if each.topics.table_of(topic, name)]
    return any(each.topics.looks_like_side_topic(topic) for each in mine)


def _doubtful(
    services: Services, known: Registry, topics: Sequence[str], guesses: Iterable[TableEntry]
) -> dict[str, list[str]]:
    """Returns by source the topics whose records must show whether they are tables, and which.

    The tables of a source that is not configured any more, or was renamed, take no topic.
    """
    mine = replicated(services.config, known)
    confirmed = {entry.topic for entry in mine if entry.is_confirmed}
    confirmed -= {entry.topic for entry in guesses}
    decided = confirmed | _judged_lately(services, known)
    left = [topic for topic in topics if topic not in decided]
    return {
        name: [topic for topic in left if may_be_table(fmt, name, topic)]
        for name, fmt in services.formats.items()
    }


def _judged_lately(services: Services, known: Registry) -> set[str]:
    """Returns the topics that were found to be no tables a short while ago."""
    now = services.clock()
    others = known.others
    return {each.topic for each in others if abs(now - each.looked_at) < LOOK_AGAIN_AFTER}


def _with_rows(
    services: Services, known: Registry, kinds: Mapping[str, TopicKind]
) -> tuple[str, ...]:
    """Returns topics whose tables are in the lake; they are tables whatever their records show."""
    return tuple(
        entry.topic for entry in known
        if kinds.get(entry.topic, TopicKind.EMPTY) not in OF_TABLES
        and services.lake.find_states([(entry.target, entry.shard_value)])[0] is not None
    )  # fmt: skip


def _named_by(entries: Iterable[TableEntry], topics: set[str]) -> list[TableName]:
    """Returns the tables that were registered by these topics' names."""
    return [entry.table for entry in entries if entry.topic in topics]


def _added(services: Services, known: Registry, new: tuple[TableEntry, ...]) -> Discovery:
    """Stores entries; ``added`` are those of tables that were not known."""
    if not new:
        return Discovery(known, ())
    first = known.hours_from or _first_hour(services, new)
    new = tuple(replace(each, hours_from=first) for each in new)
    fresh = tuple(each for each in new if each.table not in known.tables)
    refused = dict(_refused(services, new))
    added = tuple(each for each in fresh if each not in refused)
    return Discovery(services.registry.load(), added, tuple(refused.values()))


def _first_hour(services: Services, new: Sequence[TableEntry]) -> datetime:
    """Returns the start of the first hour of a replication's first tables.

    Records without a time do not count; Kafka gives them one before 1970. Nor does a topic of which
    a partition has no leader.

    Raises:
        UnreachableError: if Kafka does not answer.
    """
    there = services.log.bounds({each.topic for each in new}).marks
    firsts = services.log.firsts(there)
    times = [each.timestamp for records in firsts.values() for each in records]
    known = [each for each in times if each >= EPOCH]
    return first_hour(min(known, default=None), services.clock())


def _refused(
    services: Services, new: tuple[TableEntry, ...]
) -> Iterator[tuple[TableEntry, TerminalError]]:
    """Adds entries, and yields those that cannot be added, each with its error.

    They are tried in halves: one name that is taken does not make thousands of tables be added one
    by one, each with a new version of the registry's file.
    """
    try:
        services.registry.add(new)
    except TerminalError as error:
        if len(new) == 1:
            yield new[0], error
        else:
            yield from _refused(services, new[: len(new) // 2])
            yield from _refused(services, new[len(new) // 2 :])
