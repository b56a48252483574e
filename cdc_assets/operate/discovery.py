"""Discovers tables: topics that match the configuration and are not in the registry yet.

A topic becomes a table once a change event is seen among its first or last records. A topic with
other records (heartbeats under another prefix, logical decoding messages, …) is set aside: it is
recorded with the kind of its records, shown by `cdc-assets status`, and examined again every ten
minutes, so that a first look never excludes a table for ever. A table that the configuration
lists under ``tables:`` always counts as one. A topic without records counts as a table by its
name, unless that is the name of one of Debezium's own topics; the first records correct this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Final

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig, SourceConfig
from cdc_assets.errors import CdcError, ConfigError, TerminalError, UnreachableError
from cdc_assets.formats.format import Format
from cdc_assets.formats.names import match_topics
from cdc_assets.formats.registered import formats_of
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
    is_shown,
    judged_kinds,
    may_be_table,
    others_of,
)
from cdc_assets.operate.services import Services
from cdc_assets.operate.to_read import tables_to_read
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
    mistaken = (*_named_by(known, {other.topic for other in others}), *named.mistaken)
    if others or mistaken:
        known = services.registry.set_aside(others, mistaken)
        for table in mistaken:
            services.failures.clear(table)
    left = [topic for topic in topics if topic not in {*judged.problems, *judged.tables}]
    by_name, ambiguous = _matching(services, known, left, kinds)
    shared, silent, untaken = _in_shared_topics(services, known, topics)
    to_read, unlisted = tables_to_read(services, known)
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
        *late_under_old_names(known, services.log),
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
    if refused and entry.topic not in _settled(services, known):
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
    settled = _settled(services, known) | {entry.topic for entry in known}
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
        left = {t: edges[t] for t, tables in named.items() if not tables and t not in settled}
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
    excluded |= {entry.topic for entry in known if entry.taken is Taken.NAMED}
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


def _looks_like_side_topic(formats: Mapping[str, Format], topic: str) -> bool:
    """Returns whether a source that may own the topic takes it for a side topic."""
    mine = [each for name, each in formats.items() if each.topics.table_of(topic, name)]
    return any(each.topics.looks_like_side_topic(topic) for each in mine)


def _doubtful(
    services: Services, known: Registry, topics: Sequence[str], guesses: Iterable[TableEntry]
) -> dict[str, list[str]]:
    """Returns by source the topics whose records must show whether they are tables, and which."""
    confirmed = {entry.topic for entry in known if entry.is_confirmed}
    confirmed -= {entry.topic for entry in guesses}
    left = [topic for topic in topics if topic not in confirmed | _settled(services, known)]
    return {
        name: [topic for topic in left if may_be_table(fmt, name, topic)]
        for name, fmt in services.formats.items()
    }


def _settled(services: Services, known: Registry) -> set[str]:
    """Returns the topics that were found to be no tables a short while ago."""
    recent = services.clock() - LOOK_AGAIN_AFTER
    return {each.topic for each in known.others if each.looked_at > recent}


def _with_rows(
    services: Services, known: Registry, kinds: Mapping[str, TopicKind]
) -> tuple[str, ...]:
    """Returns topics whose tables are in the lake; they are tables whatever their records show."""
    return tuple(
        entry.topic for entry in known
        if kinds.get(entry.topic, TopicKind.EMPTY) not in OF_TABLES
        and services.lake.find_states([(entry.target, entry.shard_value)])[0] is not None
    )  # fmt: skip


def _named_by(known: Registry, topics: set[str]) -> list[TableName]:
    """Returns the tables that were registered by these topics' names."""
    return [entry.table for entry in known if entry.topic in topics]


def replicated(config: ReplicationConfig, registry: Registry) -> tuple[TableEntry, ...]:
    """Returns the registry's tables whose source is (still) configured."""
    return tuple(entry for entry in registry if entry.table.source in config.sources)


def why_no_tables(services: Services) -> ConfigError:
    """Returns why no table is known: nothing is configured, nothing matches, or nobody has looked.

    Raises:
        UnreachableError: if Kafka does not answer.
    """
    if not services.formats:
        what = "no table is known: no source is configured"
        return ConfigError(what, where="sources", remedy="add one; cdc-assets init writes them")
    topics = services.log.topics()
    names = [each.topics for each in services.formats.values()]
    matching = [topic for topic in topics if any(each.includes(topic) for each in names)]
    if matching:
        what = f"no table is known yet: {len(matching):,} of Kafka's {len(topics):,} topics match"
        return ConfigError(what, remedy="start Dagster with its sensors, or cdc-assets replicate")
    what = f"no table is known: none of Kafka's {len(topics):,} topics matches"
    where = ", ".join(f"sources.{name}.topics" for name in services.formats)
    remedy = "see that the connector writes, and that topics.include matches whole topic names"
    return ConfigError(what, where=where, remedy=remedy)


def as_registered(services: Services, entries: Sequence[TableEntry]) -> tuple[TableEntry, ...]:
    """Returns these tables' present entries; one that the registry lacks by now stays as it is.

    Definitions are loaded once; a table is renamed, or marked as dropped, afterwards.

    Raises:
        UnreachableError: if the registry does not answer.
    """
    known = {each.table: each for each in services.registry.load()}
    return tuple(known.get(each.table, each) for each in entries)


def not_tables(config: ReplicationConfig, registry: Registry) -> tuple[OtherTopic, ...]:
    """Returns the topics that the configuration still matches, and that are no tables."""
    formats = formats_of(config)
    return tuple(
        each for each in registry.others
        if any(is_shown(fmt, name, each) for name, fmt in formats.items())
    )  # fmt: skip


def find_table(config: ReplicationConfig, registry: Registry, text: str) -> TableEntry:
    """Finds a table by ``source.schema.table``, ``schema.table`` or ``table``.

    Raises:
        ConfigError: if no table has that name, or several do.
    """
    entries = replicated(config, registry)
    found = [entry for entry in entries if text in _spellings(entry.table)]
    if len(found) == 1:
        return found[0]
    what = f"{text!r} names {'more than one table' if found else 'no replicated table'}"
    raise ConfigError(what, remedy=_which_table(text, found or entries))


def _which_table(text: str, entries: Sequence[TableEntry]) -> str:
    """Returns the remedy for a name that is none: the tables that are meant, likeliest first."""
    if not entries:
        return "none is known yet: start cdc-assets replicate first"
    by_spelling = {each: entry for entry in entries for each in _spellings(entry.table)}
    close = get_close_matches(text, by_spelling, n=_NAMED)
    likely = dict.fromkeys(str(by_spelling[each].table) for each in close)
    names = dict.fromkeys([*likely, *(str(entry.table) for entry in entries)])
    return f"one of: {some_of(names, _NAMED)}"


def _spellings(table: TableName) -> tuple[str, ...]:
    return (str(table), table.qualified, table.name)


def _added(services: Services, known: Registry, new: tuple[TableEntry, ...]) -> Discovery:
    """Stores entries; ``added`` are those of tables that were not known."""
    if not new:
        return Discovery(known, ())
    first = known.hours_from or _first_hour(services, new)
    new = tuple(replace(each, hours_from=first) for each in new)
    fresh = tuple(each for each in new if each.table not in known.tables)
    try:
        return Discovery(services.registry.add(new), fresh)
    except TerminalError:
        return _one_by_one(services, new, fresh)


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


def _one_by_one(
    services: Services, new: tuple[TableEntry, ...], fresh: tuple[TableEntry, ...]
) -> Discovery:
    added: list[TableEntry] = []
    refused: list[TerminalError] = []
    for entry in new:
        try:
            services.registry.add([entry])
            added += [entry] if entry in fresh else []
        except TerminalError as error:
            refused.append(error)
    return Discovery(services.registry.load(), tuple(added), tuple(refused))
