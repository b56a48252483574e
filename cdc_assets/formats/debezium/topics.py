"""Derives tables and side topics from Debezium's names of topics.

A table's topic is ``<topic.prefix>.<schema>.<table>``. Side topics that Debezium writes are
``<prefix>`` (schema changes), ``<prefix>.transaction``, ``<prefix>.message``, heartbeats and
notifications; it reads signals from ``<prefix>-signal`` or another topic. Names of both kinds may
look alike: topics are classified by their records (`cdc_assets.formats.debezium.kinds`), and by
name only as long as they have no records.
https://debezium.io/documentation/reference/3.6/configuration/signalling.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from cdc_assets.config.topics import TopicsConfig
from cdc_assets.formats.names import PlainTopics, spellings

_HEARTBEAT: Final = re.compile(r"[^.]*-heartbeat(\.|$)")
_SIDE_TOPICS: Final = (".transaction", ".message", "-signal")


class DebeziumTopics(PlainTopics):
    """The topics of one connector."""

    def __init__(self, topics: TopicsConfig) -> None:
        super().__init__(topics)
        self._prefix = topics.prefix
        self._transaction = topics.transaction
        self._schema_changes = topics.schema_changes

    def looks_like_side_topic(self, topic: str) -> bool:
        """Whether Debezium reserves the topic's name."""
        return topic.endswith(_SIDE_TOPICS) or _HEARTBEAT.match(topic) is not None

    def transaction_topics(
        self, topic: str, qualified: str, topics: Iterable[str]
    ) -> tuple[str, ...]:
        """Finds the topics that may hold a table topic's transaction metadata, best first.

        It is ``<prefix>.transaction``. Without a configured prefix, all that precedes the table's
        name is tried, then less of it: SQL Server's topics have the database between the two.

        Args:
            topic: of the table.
            qualified: ``schema.table``.
            topics: every topic of the cluster.
        """
        present, suffix = frozenset(topics), f".{self._transaction}"
        prefixes = self._prefixes(topic, qualified)
        return tuple(prefix + suffix for prefix in prefixes if prefix + suffix in present)

    def schema_change_topics(self, topic: str, qualified: str) -> tuple[str, ...]:
        """Returns the configured topic, else one candidate for each possible ``topic.prefix``."""
        if self._schema_changes is not None:
            return (self._schema_changes,)
        return tuple(each for each in self._prefixes(topic, qualified) if each != topic)

    def _prefixes(self, topic: str, qualified: str) -> list[str]:
        if self._prefix is not None:
            return [self._prefix]
        own = (each for each in spellings(qualified) if topic.endswith(f".{each}"))
        parts = topic.removesuffix(f".{next(own, qualified)}").split(".")
        return [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
