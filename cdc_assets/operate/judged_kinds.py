"""Classifies topics one by one: a record that cannot be judged stops no other topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from cdc_assets.changes.names import TableName
from cdc_assets.errors import CdcError, TerminalError
from cdc_assets.formats.format import Format
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.values import RawRecord
from cdc_assets.registry import UNTAKEN, OtherTopic

OF_TABLES: Final = frozenset({TopicKind.CHANGES, TopicKind.EMPTY})
_NAMELESS: Final = "they name none, and the topic's name tells none"


@dataclass(frozen=True, slots=True)
class JudgedKinds:
    """The kinds of topics.

    Attributes:
        kinds: by topic.
        problems: why no kind is known of the other topics.
        tables: by topic, the tables that some of its records name; see `Format.named`.
    """

    kinds: dict[str, TopicKind]
    problems: dict[str, CdcError]
    tables: dict[str, frozenset[TableName]] = field(default_factory=dict[str, frozenset[TableName]])


@dataclass(slots=True)
class Judge:
    """Classifies records by a format.

    Attributes:
        fmt: the format.
        source: the source's name.
        problems: by topic, the first error that a record raised.
        tables: by topic, the tables that records name.
    """

    fmt: Format
    source: str = ""
    tables: dict[str, set[TableName]] = field(default_factory=dict[str, set[TableName]])
    problems: dict[str, CdcError] = field(default_factory=dict[str, CdcError])

    def kind(self, record: RawRecord) -> TopicKind:
        """Classifies a record; UNREADABLE if that raises a terminal error, which is remembered."""
        try:
            kind = self.fmt.kind(record)
            named = self.fmt.named(record, self.source) if kind is TopicKind.CHANGES else None
        except TerminalError as error:
            self.problems.setdefault(record.coordinate.topic, error)
            return TopicKind.UNREADABLE
        if named is not None:
            self.tables.setdefault(record.coordinate.topic, set()).add(named)
        return kind


def judged_kinds(
    log: KafkaLog, topics: Iterable[str], fmt: Format, source: str = ""
) -> JudgedKinds:
    """Returns the kinds of topics, and the tables that their records name.

    No kind is known of a topic of which a partition has no leader, nor of one without a readable
    record if the reason is an error, such as a schema that a registry does not know.

    Raises:
        UnreachableError: if Kafka or a registry does not answer.
    """
    judge, bounds = Judge(fmt, source), log.bounds(topics)
    kinds = log.kinds(bounds.marks, judge.kind) if bounds.marks else {}
    unread = {topic for topic, kind in kinds.items() if kind is TopicKind.UNREADABLE}
    problems = {topic: each for topic, each in judge.problems.items() if topic in unread}
    judged = {topic: kind for topic, kind in kinds.items() if topic not in problems}
    named = {topic: frozenset(tables) for topic, tables in judge.tables.items()}
    return JudgedKinds(judged, {**bounds.problems, **problems}, named)


def others_of(
    formats: Mapping[str, Format], judged: JudgedKinds, now: datetime
) -> tuple[OtherTopic, ...]:
    """Returns the topics that are no tables: by their records, and by their names."""
    kinds, tables = judged.kinds, judged.tables
    listed = {topic for topic in kinds if is_listed(formats, topic)}
    found = {t: str(k) for t, k in kinds.items() if k not in OF_TABLES and t not in listed}
    changes = (t for t, kind in kinds.items() if kind is TopicKind.CHANGES and t not in tables)
    found |= {t: f"{UNTAKEN}: {_NAMELESS}" for t in changes if not _is_named(formats, t)}
    return tuple(OtherTopic(topic, holds, now) for topic, holds in found.items())


def may_be_table(fmt: Format, source: str, topic: str) -> bool:
    """Returns whether the records of a topic decide whether it is a table's, and of which."""
    return fmt.topics.may_be_named(topic) if fmt.names_tables else is_doubtful(fmt, source, topic)


def _is_named(formats: Mapping[str, Format], topic: str) -> bool:
    return any(each.topics.table_of(topic, name) for name, each in formats.items())


def is_listed(formats: Mapping[str, Format], topic: str) -> bool:
    """Returns whether a source lists the table that has the topic's name."""
    named = ((each, each.topics.table_of(topic, name)) for name, each in formats.items())
    return any(table and table.qualified in fmt.source.tables for fmt, table in named)


def is_doubtful(fmt: Format, source: str, topic: str) -> bool:
    """Returns whether a topic has a table's name, and the configuration does not list the table."""
    table = None if fmt.has_many_tables else fmt.topics.table_of(topic, source)
    return table is not None and table.qualified not in fmt.source.tables


def is_shown(fmt: Format, source: str, other: OtherTopic) -> bool:
    """Returns whether a topic is one that people may take for a table's."""
    if fmt.has_many_tables or other.is_untaken:
        return fmt.topics.includes(other.topic)
    return is_doubtful(fmt, source, other.topic)
