"""What lies outside of Dagster's runs: source tables and topics, as external assets.

They make the lineage complete: database table → Kafka topic → Iceberg table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.orchestration.keys import database_key, topic_key
from cdc_assets.registry import TableEntry

_DATABASE_KINDS: Mapping[str, str] = {"postgres": "postgresql"}


def external_specs(config: ReplicationConfig, entry: TableEntry) -> Iterator[dg.AssetSpec]:
    """The table in its database, and its topic."""
    yield database_spec(config, entry)
    yield topic_spec(config, entry)


def database_spec(config: ReplicationConfig, entry: TableEntry) -> dg.AssetSpec:
    """The table that the changes come from."""
    database = config.sources[entry.table.source].database
    kind = _DATABASE_KINDS.get(database.kind, database.kind) if database else None
    return dg.AssetSpec(
        database_key(config, entry.table),
        group_name=entry.table.source,
        kinds={kind} if kind else set(),
        description=f"Table `{entry.table.qualified}` in the source database.",
        metadata={"dagster/table_name": entry.table.qualified},
    )


def topic_spec(config: ReplicationConfig, entry: TableEntry) -> dg.AssetSpec:
    """The topic that the changes arrive in."""
    source = config.sources[entry.table.source]
    return dg.AssetSpec(
        topic_key(entry.topic),
        deps=[database_key(config, entry.table)],
        group_name=entry.table.source,
        kinds={"kafka"},
        description=f"Changes of `{entry.table.qualified}` as {source.format}.",
        metadata={"format": source.format, "bootstrap_servers": config.kafka.bootstrap_servers},
    )
