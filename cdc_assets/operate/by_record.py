"""Finds the tables of topics by the records that name them, where a topic's name is a guess.

Concerns formats that `names_tables`. A topic is looked into until its table is registered as one
that its records name (`Taken.NAMED`), or has rows in the lake: whatever its topic is called, such
a table continues as it is registered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cdc_assets.changes.names import TableName
from cdc_assets.errors import ConfigError, UnreachableError
from cdc_assets.formats.format import Format
from cdc_assets.formats.names import two_topics
from cdc_assets.log.kinds import TopicKind, kind_of_topic
from cdc_assets.log.values import RawRecord
from cdc_assets.naming import some_of
from cdc_assets.operate.services import Services
from cdc_assets.registry import UNTAKEN, OtherTopic, Registry, TableEntry, Taken

_NAMED: Final = 3
_LONGEST: Final = 100


@dataclass(frozen=True, slots=True)
class Named:
    """The tables that records name.

    Attributes:
        entries: of topics that were looked into; also of known tables, which they then confirm.
        mistaken: tables that were taken from names of topics whose records name others.
        problems: errors of topics with changes of a table that has another topic.
    """

    entries: tuple[TableEntry, ...] = ()
    mistaken: tuple[TableName, ...] = ()
    problems: tuple[ConfigError, ...] = ()


def without_rows(services: Services, known: Registry) -> tuple[TableEntry, ...]:
    """Returns the tables that may yet turn out to be called otherwise than their topics.

    A lake that does not answer shows none.
    """
    from cdc_assets.lake import TableState  # definitions are loaded without the lake's libraries

    seen = services.with_rows  # not looked at again: some catalogs are asked for each table
    open_ = [e for e in known if _is_guess(services, e) and e.table not in seen]
    try:
        wanted = [(e.target, e.shard_value) for e in open_]
        looked = services.lake.find_states(wanted) if wanted else []
    except UnreachableError:
        return ()
    empty = tuple(
        each
        for each, found in zip(open_, looked, strict=True)
        if found is None or (isinstance(found, TableState) and found.published is None)
    )
    seen |= {each.table for each in open_} - {each.table for each in empty}
    return empty


def named_by_records(
    known: Registry, guesses: Iterable[TableEntry], found: Iterable[TableEntry]
) -> Named:
    """Returns what the records of topics say about their tables.

    Args:
        known: the registered tables.
        guesses: those of them that are of `without_rows`.
        found: an entry for each table that the records of a topic name.
    """
    named = [*found]
    names = {(each.topic, each.table) for each in named}
    topics = {(each.topic, each.table.source) for each in named}
    mistaken = tuple(
        each.table
        for each in guesses
        if (each.topic, each.table.source) in topics and (each.topic, each.at_source) not in names
    )
    owners = {each.at_source: each.topic for each in known if each.table not in mistaken}
    owners |= {each.table: each.topic for each in known if each.table not in mistaken}
    open_ = {each.table for each in guesses}
    entries: list[TableEntry] = []
    problems: list[ConfigError] = []
    for each in named:
        owner = owners.setdefault(each.table, each.topic)
        if owner != each.topic:
            problems.append(two_topics(each.table, owner, each.topic))
        elif each.table in open_ or each.table not in known.tables:
            entries.append(each)
    return Named(tuple(entries), mistaken, tuple(problems))


def elsewhere(
    known: Registry, named: Mapping[str, Collection[TableName]]
) -> tuple[ConfigError, ...]:
    """Returns an error for each topic with changes of a known table that has another topic.

    Nothing would ever merge them.

    Args:
        known: the tables.
        named: by shared topic, the tables that its first and last records change.
    """
    entries = {each.table: each for each in known}
    return tuple(
        two_topics(table, entries[table].topic, topic)
        for topic, tables in named.items()
        for table in sorted(tables)
        if table in entries and entries[table].topic != topic
    )


def untaken_topics(
    fmt: Format, topics: Mapping[str, Sequence[RawRecord]], at: datetime
) -> tuple[OtherTopic, ...]:
    """Returns those of these topics that have records, with what they hold.

    Args:
        fmt: a format that `has_many_tables`.
        topics: the first and last records of topics in which no record names a table.
        at: the time of the look.
    """
    kinds = {topic: kind_of_topic(records, fmt.kind) for topic, records in topics.items()}
    return tuple(
        OtherTopic(
            topic, _nameless(fmt, topics[topic]) if kind is TopicKind.CHANGES else str(kind), at
        )
        for topic, kind in kinds.items()
        if kind is not TopicKind.EMPTY
    )


def _nameless(fmt: Format, records: Sequence[RawRecord]) -> str:
    """Returns how many of a topic's records are changes that name no table, and what they say."""
    with_value = [each for each in records if each.value is not None]
    changes = [each for each in with_value if fmt.kind(each) is TopicKind.CHANGES]
    said = dict.fromkeys(name[:_LONGEST] for each in changes if (name := fmt.half_named(each)))
    named = f" ({some_of(map(repr, said), _NAMED)} is no schema and table)" if said else ""
    return (
        f"{UNTAKEN}: {len(changes)} of the {len(with_value)} records looked at name no table{named}"
    )


def _is_guess(services: Services, entry: TableEntry) -> bool:
    fmt = services.formats.get(entry.table.source)
    return fmt is not None and fmt.names_tables and entry.taken is not Taken.NAMED
