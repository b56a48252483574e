"""Defines source tables and topics as external assets, which Dagster's runs do not make.

They complete the lineage: database table → Kafka topic → Iceberg table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.orchestration.keys import database_key, topic_key
from cdc_assets.registry import TableEntry

_DATABASE_KINDS: Mapping[str, str] = {"postgres": "postgresql"}


def external_specs(
    config: ReplicationConfig, entries: Iterable[TableEntry]
) -> Iterator[dg.AssetSpec]:
    """Yields the tables in their databases, and their topics, each of which may hold several."""
    by_topic: dict[str, list[TableEntry]] = defaultdict(list)
    for entry in entries:
        by_topic[entry.topic].append(entry)
        yield database_spec(config, entry)
    for mine in by_topic.values():
        yield topic_spec(config, mine)


def database_spec(config: ReplicationConfig, entry: TableEntry) -> dg.AssetSpec:
    """Returns the asset of the source table."""
    database = config.sources[entry.table.source].database
    kind = _DATABASE_KINDS.get(database.kind, database.kind) if database else None
    return dg.AssetSpec(
        database_key(config, entry.table),
        group_name=entry.table.source,
        kinds={kind} if kind else set(),
        description=f"Table `{entry.at_source.qualified}` in the source database.",
        metadata={"dagster/table_name": entry.at_source.qualified},
    )


def topic_spec(config: ReplicationConfig, entries: Sequence[TableEntry]) -> dg.AssetSpec:
    """Returns the asset of the topic that holds these tables' changes."""
    first = entries[0]
    source = config.sources[first.table.source]
    names = ", ".join(f"`{each.at_source.qualified}`" for each in entries)
    return dg.AssetSpec(
        topic_key(config, first.topic),
        deps=[database_key(config, each.table) for each in entries],
        group_name=first.table.source,
        kinds={"kafka"},
        description=f"Changes of {names} as {source.format}.",
        metadata={"format": source.format, "bootstrap_servers": config.kafka.bootstrap_servers},
    )
