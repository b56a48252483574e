"""Defines assets from the registry: the replicated tables, and the lineage before them.

A partition is one UTC hour of the log, the same hours for every table of the replication: they
begin where its first table's records do (`TableEntry.hours_from`). Partition H of a table is, for
each Kafka partition, the offsets ``[f(H), f(H+1))`` where ``f(t)`` is the earliest offset with a
timestamp at or after ``t``. ``f`` is monotone, so the hours tile the log exactly, whatever order
the timestamps are in. Anything older than the first hour belongs to the first partition.

Tables in their databases, and topics, are external assets, which Dagster's runs do not make. They
complete the lineage: database table → Kafka topic → Iceberg table.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of the bodies below.

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.log.hours import KEY_FORMAT
from cdc_assets.orchestration import liveness
from cdc_assets.orchestration.checks import check_specs
from cdc_assets.orchestration.cuts import consistent_spec
from cdc_assets.orchestration.failing import RETRY_POLICY
from cdc_assets.orchestration.keys import (
    REPLICATED,
    TAG_TOPIC,
    database_key,
    default_key,
    op_name,
    pool_name,
    spark_key,
    topic_key,
    topic_tag,
)
from cdc_assets.orchestration.mount import mount_of
from cdc_assets.orchestration.table_run import Event, OnBatch, TableRun
from cdc_assets.registry import TableEntry

FRESH_FAIL: Final = timedelta(hours=2)
FRESH_WARN: Final = timedelta(minutes=90)
"""Freshness shows liveness: even an idle table is materialized once an hour. The promise about
latency is the check `replication_slo`, which counts changes; a freshness policy only sees the last
event."""


_DATABASE_KINDS: Final[Mapping[str, str]] = {"postgres": "postgresql"}


def hourly_partitions(first: datetime) -> dg.HourlyPartitionsDefinition:
    """Returns the partitions from this hour to the current one, which ``end_offset`` includes.

    All tables of a replication have the same: with different ones they could not share a run, and
    no job of a project could select them together.
    """
    return dg.HourlyPartitionsDefinition(
        start_date=first, end_offset=1, fmt=KEY_FORMAT, timezone="UTC"
    )


def table_spec(config: ReplicationConfig, entry: TableEntry) -> dg.AssetSpec:
    """Returns a table's asset spec: everything that Dagster shows before its first run."""
    mount = mount_of(config)
    spec = mount.spec_of(config, entry) if mount else default_spec(config, entry)
    return spec.merge_attributes(tags=dict([REPLICATED]))


def default_spec(config: ReplicationConfig, entry: TableEntry) -> dg.AssetSpec:
    """Returns a table's asset spec if no mount overrides it."""
    source = config.sources[entry.table.source]
    catalog = config.lake.catalog
    return dg.AssetSpec(
        default_key(entry.table),
        deps=[topic_key(config, entry.topic)],
        group_name=entry.table.source,
        kinds={"kafka", "spark", "iceberg"},
        freshness_policy=dg.FreshnessPolicy.time_window(FRESH_FAIL, FRESH_WARN),
        description=_description(entry, str(source.slo.target)),
        metadata={
            "dagster/table_name": f"{catalog.name}.{entry.target}",
            "dagster/storage_kind": "iceberg",
            "topic": entry.topic,
            "format": source.format,
            "catalog": f"{catalog.name} ({catalog.type})",
            "warehouse": config.lake.warehouse,
            "slo": str(source.slo.target),
            "discovered_at": dg.MetadataValue.timestamp(entry.discovered_at),
        },
    )


def table_asset(
    config: ReplicationConfig, entry: TableEntry, on_batch: OnBatch | None = None
) -> dg.AssetsDefinition:
    """Returns the asset that merges a table's next changes, or replays hours, when materialized."""
    spec, spark = table_spec(config, entry), spark_key(config)

    @dg.multi_asset(
        name=op_name(config, entry.table),
        specs=[spec],
        check_specs=check_specs(spec.key),
        partitions_def=hourly_partitions(entry.hours_from),
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=pool_name(config, entry),
        op_tags={TAG_TOPIC: topic_tag(entry)},
        retry_policy=RETRY_POLICY,
        required_resource_keys={spark},
    )
    def merge(
        context: dg.AssetExecutionContext,
    ) -> Iterator[Event]:
        session = getattr(context.resources, spark)
        mount = mount_of(config)
        with liveness.at_work(context, config, is_whole_run=session.is_side_by_side):
            events = TableRun(context, config, entry, session, on_batch).events()
            yield from mount.execute(context, events) if mount else events

    return merge


def _description(entry: TableEntry, slo: str) -> str:
    comment = f"{entry.comment}\n\n" if entry.comment else ""
    return (
        f"{comment}`{entry.target}` in the lake, kept equal to `{entry.at_source.qualified}` of "
        f"`{entry.table.source}`.\n\nA partition is one UTC hour of the topic `{entry.topic}`. "
        f"Materializing merges what is not merged yet; a backfill merges whole hours again, "
        f"which changes nothing unless the table differs from its log.\n\nSLO: {slo}."
    )


# ── external assets ──────────────────────────────────────────────────────────────────────


def external_specs(
    config: ReplicationConfig, entries: Sequence[TableEntry]
) -> Iterator[dg.AssetSpec]:
    """Yields the tables in their databases, and their topics, each of which may hold several."""
    by_topic: dict[str, list[TableEntry]] = defaultdict(list)
    for entry in entries:
        by_topic[entry.topic].append(entry)
        yield database_spec(config, entry)
    for mine in by_topic.values():
        yield topic_spec(config, mine)
    for name, source in config.sources.items():
        if source.consistent is not None:
            tables = (each for each in entries if each.table.source == name)
            yield consistent_spec(config, name, tables)


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
