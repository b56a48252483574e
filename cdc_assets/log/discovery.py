"""Which topics hold the changes of which tables.

Debezium names a table's topic ``<topic.prefix>.<schema>.<table>``. Beside these it writes
``<prefix>`` (schema changes), ``<prefix>.transaction`` (transaction metadata) and
``__debezium-heartbeat.<prefix>``; Kafka and Connect keep topics of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from cdc_assets.changes.names import TableName
from cdc_assets.config import SourceConfig
from cdc_assets.errors import ConfigError

_CONNECT = re.compile(r"connect-(configs|offsets|status)\b")
_HEARTBEAT = re.compile(r"[^.]*-heartbeat(\.|$)")
_TRANSACTION = ".transaction"


def match_topics(
    source: SourceConfig, name: str, topics: Iterable[str]
) -> tuple[tuple[TableName, str], ...]:
    """The tables of a source and their topics, in order of the topics' names.

    Args:
        source: its patterns must match the whole topic name; ``exclude`` wins.
        name: of the source.
        topics: every topic of the cluster.

    Raises:
        ConfigError: if two topics would be one table; names both.
    """
    present = frozenset(topics)
    found: dict[TableName, str] = {}
    for topic in sorted(present):
        table = _table_of(topic, source, name, present)
        if table is None:
            continue
        if table in found:
            raise _ambiguous(name, table, found[table], topic)
        found[table] = topic
    return tuple((table, topic) for table, topic in found.items())


def is_internal(topic: str, present: frozenset[str] = frozenset()) -> bool:
    """Whether a topic belongs to Kafka, Connect or Debezium itself.

    ``<prefix>.transaction`` is told from a table of that name by its neighbours: it is
    metadata if another topic is named ``<prefix>.<schema>.<table>``.
    """
    if topic.startswith("__") or _CONNECT.match(topic) or _HEARTBEAT.match(topic):
        return True
    if not topic.endswith(_TRANSACTION):
        return False
    prefix = topic.removesuffix(_TRANSACTION)
    tables = re.compile(re.escape(prefix) + r"\.[^.]+\.[^.]+")
    return "." not in prefix or any(tables.fullmatch(other) for other in present)


def _table_of(
    topic: str, source: SourceConfig, name: str, present: frozenset[str]
) -> TableName | None:
    patterns = source.topics
    if is_internal(topic, present) or not _matches(topic, patterns.include):
        return None
    if _matches(topic, patterns.exclude):
        return None
    return _parse(topic, patterns.prefix, name)


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
