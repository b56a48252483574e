"""Which topics may hold the changes of which tables, by their names.

Debezium names a table's topic ``<topic.prefix>.<schema>.<table>``. Beside these it writes
``<prefix>`` (schema changes), ``<prefix>.transaction``, ``<prefix>.message`` and heartbeats, whose
names may look alike: `cdc_assets.log.kinds` tells them by their records. Names decide only where
there are no records yet.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from cdc_assets.changes.names import TableName
from cdc_assets.config import SourceConfig
from cdc_assets.errors import ConfigError

_CONNECT: Final = re.compile(r"connect-(configs|offsets|status)")
_HEARTBEAT: Final = re.compile(r"[^.]*-heartbeat(\.|$)")
_SIDE_TOPICS: Final = (".transaction", ".message")


def match_topics(
    source: SourceConfig, name: str, topics: Iterable[str], not_tables: Collection[str] = ()
) -> tuple[tuple[TableName, str], ...]:
    """Finds the tables of a source and their topics, in order of the topics' names.

    Args:
        source: its patterns must match the whole topic name; ``exclude`` wins.
        name: of the source.
        topics: every topic of the cluster.
        not_tables: topics that are known to hold something else.

    Raises:
        ConfigError: if two topics would be one table; names both.
    """
    found: dict[TableName, str] = {}
    for topic in sorted(set(topics) - set(not_tables)):
        table = table_of(topic, source, name)
        if table is None:
            continue
        if table in found:
            raise _ambiguous(name, table, found[table], topic)
        found[table] = topic
    return tuple((table, topic) for table, topic in found.items())


def table_of(topic: str, source: SourceConfig, name: str) -> TableName | None:
    """The table of a topic by its name; None if it cannot be one of this source."""
    patterns = source.topics
    if is_internal(topic) or not _matches(topic, patterns.include):
        return None
    if _matches(topic, patterns.exclude):
        return None
    return _parse(topic, patterns.prefix, name)


def is_internal(topic: str) -> bool:
    """Whether a topic belongs to Kafka or Connect, or is Debezium's by a reserved name."""
    return topic.startswith("__") or _CONNECT.fullmatch(topic) is not None


def looks_like_side_topic(topic: str) -> bool:
    """Whether a topic without records is rather one that Debezium writes beside the tables'."""
    return topic.endswith(_SIDE_TOPICS) or _HEARTBEAT.match(topic) is not None


def transaction_topics(
    topic: str, qualified: str, source: SourceConfig, topics: Iterable[str]
) -> tuple[str, ...]:
    """Finds the topics that may hold the transaction metadata of a table's topic, best first.

    It is ``<prefix>.transaction``. Without a configured prefix that is whatever precedes the
    table's name, or less of it: SQL Server's topics have the database between the two.

    Args:
        topic: of the table.
        qualified: ``schema.table``.
        source: of the table.
        topics: every topic of the cluster.
    """
    present, suffix = frozenset(topics), f".{source.topics.transaction}"
    if source.topics.prefix is not None:
        prefixes = [source.topics.prefix]
    else:
        parts = topic.removesuffix(f".{qualified}").split(".")
        prefixes = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return tuple(prefix + suffix for prefix in prefixes if prefix + suffix in present)


def _parse(topic: str, prefix: str | None, source: str) -> TableName | None:
    """A topic's table; None if its name has too few parts (such as the schema-change topic)."""
    if prefix is not None:
        own, rest = topic.startswith(f"{prefix}."), topic.removeprefix(f"{prefix}.")
        schema, dot, table = rest.partition(".")
        return TableName(source, schema, table) if own and dot and schema and table else None
    parts = topic.rsplit(".", 2)
    return TableName(source, *parts[1:]) if len(parts) == 3 and all(parts) else None


def _matches(topic: str, patterns: Iterable[str]) -> bool:
    return any(re.fullmatch(pattern, topic) for pattern in patterns)


def _ambiguous(source: str, table: TableName, one: str, other: str) -> ConfigError:
    msg = f"two topics hold changes of {table}: {one} and {other}"
    remedy = "make them two sources, or exclude one of them"
    return ConfigError(msg, where=f"sources.{source}.topics", remedy=remedy)
