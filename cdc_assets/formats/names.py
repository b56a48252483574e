"""Derives tables from the names of topics, before any record is read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final, Protocol

from cdc_assets.changes.names import TableName
from cdc_assets.config.topics import TopicsConfig
from cdc_assets.errors import ConfigError

_UNUSABLE: Final = re.compile(r"[^A-Za-z0-9._-]")
_CONNECT: Final = re.compile(r"connect-(configs|offsets|status)")


class TopicNames(Protocol):
    """The names of one source's topics."""

    def includes(self, topic: str) -> bool:
        """Whether a topic is the source's, by the configured patterns."""
        ...

    def table_of(self, topic: str, source: str) -> TableName | None:
        """Returns a topic's table by the topic's name; None if it cannot be this source's."""
        ...

    def may_be_named(self, topic: str) -> bool:
        """Whether a topic may belong to the source, with a table that only its records name."""
        ...

    def looks_like_side_topic(self, topic: str) -> bool:
        """Whether a topic without records is likely a side topic, not a table's."""
        ...

    def transaction_topics(
        self, topic: str, qualified: str, topics: Iterable[str]
    ) -> tuple[str, ...]:
        """Returns the topics that may hold a table topic's transaction metadata, best first."""
        ...

    def schema_change_topics(self, topic: str, qualified: str) -> tuple[str, ...]:
        """Returns the topics that may hold statements on a topic's table, existing or not."""
        ...


class PlainTopics:
    """Topics whose last two parts are schema and table, without side topics."""

    def __init__(self, topics: TopicsConfig) -> None:
        self._topics = topics

    def includes(self, topic: str) -> bool:
        """Whether a topic matches the patterns; Kafka's and Connect's own topics never do."""
        return not is_internal(topic) and self._topics.matches(topic)

    def table_of(self, topic: str, source: str) -> TableName | None:
        """Takes the table from the name's last two parts, or from the parts after the prefix."""
        return _parse(topic, self._topics.prefix, source) if self.includes(topic) else None

    def may_be_named(self, topic: str) -> bool:
        """Whether a topic matches the patterns, and begins with the prefix if one is configured."""
        prefix = self._topics.prefix
        return self.includes(topic) and (prefix is None or topic.startswith(f"{prefix}."))

    def looks_like_side_topic(self, topic: str) -> bool:
        """Returns false."""
        return False

    def transaction_topics(
        self, topic: str, qualified: str, topics: Iterable[str]
    ) -> tuple[str, ...]:
        """Returns none."""
        return ()

    def schema_change_topics(self, topic: str, qualified: str) -> tuple[str, ...]:
        """Returns none."""
        return ()


def match_topics(
    names: TopicNames, source: str, topics: Iterable[str], not_tables: Collection[str] = ()
) -> tuple[tuple[TableName, str], ...]:
    """Finds the tables of a source and their topics, in order of the topics' names.

    Args:
        names: of the source's topics.
        source: its name.
        topics: every topic of the cluster.
        not_tables: topics that are known to hold something else.

    Raises:
        ConfigError: if two topics belong to one table; names both.
    """
    found: dict[TableName, str] = {}
    for topic in sorted(set(topics) - set(not_tables)):
        table = names.table_of(topic, source)
        if table is None:
            continue
        if table in found:
            raise two_topics(table, found[table], topic)
        found[table] = topic
    return tuple((table, topic) for table, topic in found.items())


def is_internal(topic: str) -> bool:
    """Whether a topic belongs to Kafka or Connect."""
    return topic.startswith("__") or _CONNECT.fullmatch(topic) is not None


def _parse(topic: str, prefix: str | None, source: str) -> TableName | None:
    """Returns a topic's table; None if the name has too few parts (the schema-change topic)."""
    if prefix is not None:
        own, rest = topic.startswith(f"{prefix}."), topic.removeprefix(f"{prefix}.")
        schema, dot, table = rest.partition(".")
        return TableName(source, schema, table) if own and dot and schema and table else None
    parts = topic.rsplit(".", 2)
    return TableName(source, *parts[1:]) if len(parts) == 3 and all(parts) else None


def spellings(name: str) -> tuple[str, ...]:
    """Returns a name, and its spelling by connectors where Kafka does not allow the name."""
    return tuple(dict.fromkeys((name, _UNUSABLE.sub("_", name))))


def two_topics(table: TableName, one: str, other: str) -> ConfigError:
    """Returns the error of a table with changes in two topics, only one of which is merged."""
    msg = f"two topics hold changes of {table}: {one} and {other}"
    remedy = "make them two sources, or exclude one of them"
    return ConfigError(msg, where=f"sources.{table.source}.topics", remedy=remedy)
