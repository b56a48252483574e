"""Names in Dagster: asset keys, op names, pools, tags."""

from __future__ import annotations

import hashlib
import re
from typing import Final

import dagster as dg

from cdc_assets.changes.lake_names import stored_parts
from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.registry import TableEntry

CHECK_OFFSETS: Final = "offsets_contiguous"
CHECK_SLO: Final = "replication_slo"
CHECK_SCHEMA: Final = "schema_in_sync"

SPARK: Final = "pyspark"
"""The resource: dagster-pyspark's own key."""

TAG_TABLE: Final = "cdc/table"
"""On each run that a sensor or command starts: the tables, joined by spaces."""

TAG_MODE: Final = "cdc/mode"
"""``tail``, ``replay``, ``maintenance`` or ``housekeeping``, on runs whose intention is known."""

TAG_TOPIC: Final = "cdc/topic"
"""On each table's op: where its changes lie. Tables of one topic share its reading in a run."""

TAG_HAND_OVER: Final = "cdc/hand_over"
"""On a run that stays, once it has to make room for another."""

TAG_PROCESS: Final = "cdc/process"
"""On runs that live in a command's own process: see `cdc_assets.orchestration.liveness`."""

UNFINISHED: Final = (
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)

TAIL: Final = "tail"
REPLAY: Final = "replay"
MAINTENANCE: Final = "maintenance"
HOUSEKEEPING: Final = "housekeeping"

TAG_BACKLOG: Final = "cdc/backlog"
"""On runs that work off one table's backlog: they may not take all the slots."""


def table_key(table: TableName) -> dg.AssetKey:
    """The asset of a replicated table; odd names as `cdc_assets.changes.lake_names` has them."""
    return dg.AssetKey(stored_parts(table))


def maintenance_key(target: LakeName) -> dg.AssetKey:
    """The asset of a lake table's upkeep."""
    return dg.AssetKey([MAINTENANCE, target.namespace, target.name])


def maintenance_op(target: LakeName) -> str:
    """What does it."""
    return op_name(TableName(MAINTENANCE, target.namespace, target.name))


def topic_key(topic: str) -> dg.AssetKey:
    """The external asset of a topic."""
    return dg.AssetKey(["kafka", topic])


def database_key(config: ReplicationConfig, table: TableName) -> dg.AssetKey:
    """The external asset of the table in its source database."""
    database = config.sources[table.source].database
    kind = database.kind if database else "database"
    return dg.AssetKey([kind, *stored_parts(table)])


def op_name(table: TableName) -> str:
    """A Python identifier; names that need replacing get a suffix that keeps them apart."""
    parts = stored_parts(table)
    clean = "__".join(re.sub(r"[^A-Za-z0-9_]", "_", part) for part in parts)
    # Or else ``a__b`` with ``c`` and ``a`` with ``b__c`` would be one.
    are_apart = all("__" not in part and part == part.strip("_") for part in parts)
    if clean == "__".join(parts) and are_apart:
        return clean
    return f"{clean}_{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"


def pool_name(entry: TableEntry) -> str:
    """One writer at a time: merges and maintenance of a table share this pool, and its shards."""
    if entry.shard is None:
        return f"merge_{op_name(entry.table)}"
    target = TableName(entry.table.source, entry.target.namespace, entry.target.name)
    return f"merge_{op_name(target)}"


def topic_tag(entry: TableEntry) -> str:
    """The value of `TAG_TOPIC`: sources may read one topic in different ways."""
    return f"{entry.table.source}:{entry.topic}"


def tables_tag(entries: tuple[TableEntry, ...]) -> str:
    """The value of `TAG_TABLE`."""
    return " ".join(str(entry.table) for entry in entries)
