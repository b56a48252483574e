"""Finds the sources, formats and databases in a Kafka cluster, for a first configuration."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig, SourceConfig
from cdc_assets.config.formats import installed
from cdc_assets.config.starter import StarterSource
from cdc_assets.errors import ConfigError
from cdc_assets.formats.registered import format_of
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.values import RawRecord
from cdc_assets.operate.services import Services

if TYPE_CHECKING:
    from cdc_assets.formats.format import Format

FIRST: Final = ("debezium-json", "debezium-avro")
"""The formats preferred for records that several formats can read, most common first."""

KINDS: Final[Mapping[str, str]] = {
    "postgresql": "postgres", "mysql": "mysql", "mariadb": "mariadb",
}  # fmt: skip
"""Databases whose catalog can be read, by the connectors' own names."""


@dataclass(frozen=True, slots=True)
class ClusterTopics:
    """The contents of a cluster.

    Attributes:
        sources: the sources, by name.
        others: topics that no installed format reads as changes.
        unread: formats that could not be tried, with the reason.
    """

    sources: tuple[StarterSource, ...]
    others: tuple[str, ...]
    unread: Mapping[str, str]


def provisional(kafka: str, properties: Mapping[str, object]) -> ReplicationConfig:
    """Returns a configuration with this cluster and no source.

    Raises:
        ValidationError: if the brokers are no addresses.
    """
    return ReplicationConfig.model_validate({
        "kafka": {"bootstrap_servers": kafka, "properties": dict(properties)},
        "lake": {"catalog": {"type": "sql", "uri": "sqlite:///:memory:"}, "warehouse": "."},
    })  # fmt: skip


def look_around(services: Services, wanted: Sequence[str]) -> ClusterTopics:
    """Finds the topics that hold changes, their formats and their databases. Changes nothing.

    Args:
        services: the services of a `provisional` configuration.
        wanted: names of sources, which are prefixes of topics; empty for all.

    Raises:
        UnreachableError: if Kafka does not answer.
    """
    topics = [each for each in services.log.topics() if not each.startswith("_")]
    topics = [each for each in topics if not wanted or _prefix(each) in wanted]
    look = _TopicSampler(services)
    read = {name: look.changes(name, topics) for name in _names()}
    by_prefix: dict[str, list[str]] = defaultdict(list)
    for topic in {each for mine in read.values() for each in mine}:
        by_prefix[_prefix(topic)].append(topic)
    sources = tuple(
        look.source(prefix, sorted(mine), _likeliest(mine, read))
        for prefix, mine in sorted(by_prefix.items())
    )
    changes = {topic for mine in by_prefix.values() for topic in mine}
    return ClusterTopics(
        sources, tuple(each for each in topics if each not in changes), look.unread
    )


@dataclass
class _TopicSampler:
    services: Services
    unread: dict[str, str] = field(default_factory=dict[str, str])

    def changes(self, name: str, topics: Sequence[str]) -> frozenset[str]:
        """Returns the topics whose first or last records are changes, as a format reads them."""
        try:
            kinds = self.services.log.kinds(topics, _format(name).kind)
        except ConfigError as error:  # it needs further settings, such as the schema registry
            self.unread[name] = str(error)
            return frozenset()
        return frozenset(t for t, kind in kinds.items() if kind is TopicKind.CHANGES)

    def source(self, prefix: str, topics: Sequence[str], name: str) -> StarterSource:
        """Returns a source, described from its records."""
        fmt, edges = _format(name), self.services.log.edges(topics)
        tables, connectors = set[TableName](), Counter[str]()
        for topic, records in edges.items():
            mine = _tables(fmt, topic, records, prefix)
            with_value = [record for record in records if record.value is not None]
            for each in mine:
                tables.add(each)
                said = fmt.look(with_value, each).sources
                connectors.update(str(s["connector"]) for s in said if "connector" in s)
        kind = KINDS.get(connectors.most_common(1)[0][0], "") if connectors else ""
        return StarterSource(
            _identifier(prefix), name, _patterns(prefix, topics),
            tuple(sorted(each.qualified for each in tables)), kind,
        )  # fmt: skip


def _tables(
    fmt: Format, topic: str, records: Sequence[RawRecord], prefix: str
) -> Collection[TableName]:
    """Returns the tables that records name, else the one that their topic's name tells."""
    if fmt.has_many_tables:
        return fmt.tables(records, prefix)
    named = {table for each in records if (table := fmt.named(each, prefix))}
    guess = fmt.topics.table_of(topic, prefix)
    return named or ({guess} if guess else ())


def _names() -> tuple[str, ...]:
    names = set(installed())
    return (*(each for each in FIRST if each in names), *sorted(names - {*FIRST}))


def _format(name: str) -> Format:
    return format_of(SourceConfig.model_validate({"format": name, "topics": {"include": [".*"]}}))


def _likeliest(topics: Iterable[str], read: Mapping[str, frozenset[str]]) -> str:
    """Returns the format that reads most of the topics; the first one if several read as many."""
    mine = frozenset(topics)
    return max(read, key=lambda name: len(mine & read[name]))


def _prefix(topic: str) -> str:
    """Returns the common part of a source's topic names: all but schema and table."""
    parts = topic.rsplit(".", 2)
    return parts[0]


def _identifier(prefix: str) -> str:
    clean = "".join(each if each.isascii() and each.isalnum() else "_" for each in prefix)
    return clean if clean[:1].isalpha() else f"source_{clean}"


def _patterns(prefix: str, topics: Sequence[str]) -> tuple[str, ...]:
    if all(each.startswith(f"{prefix}.") for each in topics):
        return (rf"{re.escape(prefix)}\..*",)
    return tuple(re.escape(each) for each in topics)
