"""Defines names in Dagster: asset keys, op names, pools, tags."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final

import dagster as dg

from cdc_assets.changes.names import LakeName, TableName, digest_of, stored_parts
from cdc_assets.config import ReplicationConfig
from cdc_assets.orchestration.mount import mount_of
from cdc_assets.registry import TableEntry

CHECK_OFFSETS: Final = "offsets_contiguous"
CHECK_SLO: Final = "replication_slo"
CHECK_SCHEMA: Final = "schema_in_sync"
CHECKS: Final = (CHECK_OFFSETS, CHECK_SLO, CHECK_SCHEMA)
"""The checks of every table."""

CHECK_ASSESSED: Final = "assessed"
CHECK_MATCHES: Final = "matches_source"

SPARK: Final = "pyspark"
"""The resource key of a replication without a name: dagster-pyspark's own. See `spark_key`."""

TAG_TABLE: Final = "cdc/table"
"""On each run that a sensor or command starts: the tables, joined by spaces. Those of many tables
have further tags of this name with a number."""

_TAG_BYTES: Final = 2_000
"""The most bytes of one such tag: Dagster's storage in PostgreSQL has an index on tags, which takes
2,704 bytes, and refuses a run with more."""

TAG_MODE: Final = "cdc/mode"
"""``tail``, ``replay``, ``maintenance``, ``housekeeping`` or ``verify``, on runs whose intention is
known."""

TAG_TOPIC: Final = "cdc/topic"
"""On each table's op: its topic. Tables of one topic share its records in a run."""

TAG_REPLICATION: Final = "cdc/replication"
"""On each run that a sensor or command starts: the replication's name, if it has one."""

TAG_SOURCE: Final = "cdc/source"
"""On a run that compares tables of one source."""

TAG_HAND_OVER: Final = "cdc/hand_over"
"""On a run that stays, once it has to make room for another: its id, as a run that is started again
has the tags of the former one."""

TAG_PROCESS: Final = "cdc/process"
"""On runs that live in a command's own process: see `cdc_assets.orchestration.liveness`."""

TAG_ALIVE: Final = "cdc/alive"
"""On each run: changes while a step works, see `cdc_assets.orchestration.liveness`."""

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
VERIFY: Final = "verify"
CONSISTENT: Final = "consistent"

REPLICATED: Final = ("cdc/replicated", "true")
"""The tag of each replicated table's asset, by which `when_changed` knows it."""

_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")

TAG_BACKLOG: Final = "cdc/backlog"
"""On runs that merge a backlog: they may not take all the slots."""


def named(config: ReplicationConfig, name: str) -> str:
    """Returns a job's, sensor's, schedule's, resource's, op's or pool's name in this replication.

    A replication without a name uses it unchanged.
    """
    return f"{config.name}_{name}" if config.name else name


def spark_key(config: ReplicationConfig) -> str:
    """Returns the key of the resource with the Spark sessions."""
    return named(config, SPARK)


def run_tags(config: ReplicationConfig, mode: str, entries: Sequence[TableEntry]) -> dict[str, str]:
    """Returns the tags of a run of tables that a sensor or a command starts.

    Dagster does not start it again by itself: sensors do, once a table's back-off is over.
    """
    return {**_tables_tags(entries), **mode_tags(config, mode), "dagster/max_retries": "0"}


def mode_tags(config: ReplicationConfig, mode: str) -> dict[str, str]:
    """Returns the tags of a run without tables."""
    return {TAG_MODE: mode, **({TAG_REPLICATION: config.name} if config.name else {})}


def is_of(config: ReplicationConfig, run: dg.DagsterRun) -> bool:
    """Returns whether a sensor, command or schedule of this replication started a run."""
    return TAG_MODE in run.tags and run.tags.get(TAG_REPLICATION, "") == config.name


def table_key(config: ReplicationConfig, entry: TableEntry) -> dg.AssetKey:
    """Returns a replicated table's asset key, which a translator may decide."""
    mount = mount_of(config)
    return mount.key(config, entry) if mount else default_key(entry.table)


def default_key(table: TableName) -> dg.AssetKey:
    """Returns the key without a translator; `cdc_assets.changes.names` encodes odd names."""
    return dg.AssetKey([_in_ascii(each) for each in stored_parts(table)])


def maintenance_key(config: ReplicationConfig, target: LakeName) -> dg.AssetKey:
    """Returns the asset key of a lake table's upkeep."""
    return _named_key(config, MAINTENANCE, _in_ascii(target.namespace), _in_ascii(target.name))


def consistent_key(config: ReplicationConfig, source: str) -> dg.AssetKey:
    """Returns the key of the asset that stands for the cuts of a source."""
    return _named_key(config, CONSISTENT, stored_parts(TableName(source, "", ""))[0])


def maintenance_op(config: ReplicationConfig, target: LakeName) -> str:
    """Returns the name of the op that maintains a lake table."""
    return op_name(config, TableName(MAINTENANCE, target.namespace, target.name))


def _in_ascii(part: str) -> str:
    """Returns a part of a key; Dagster names outputs by keys, in ASCII."""
    return part if part.isascii() else f"{_OTHER.sub('_', part)}_{digest_of(part)}"


def topic_key(config: ReplicationConfig, topic: str) -> dg.AssetKey:
    """Returns the key of a topic's external asset."""
    return _named_key(config, "kafka", topic)


def _named_key(config: ReplicationConfig, first: str, *parts: str) -> dg.AssetKey:
    """Returns a key that is no table's, with the replication's name, as names may occur in both."""
    return dg.AssetKey([first, *([config.name] if config.name else []), *parts])


def database_key(config: ReplicationConfig, table: TableName) -> dg.AssetKey:
    """Returns the key of the external asset of a table in its source database."""
    database = config.sources[table.source].database
    kind = database.kind if database else "database"
    return _named_key(config, kind, *stored_parts(table))


def op_name(config: ReplicationConfig, table: TableName) -> str:
    """Returns a table's op name: a Python identifier that is unique to this replication."""
    return named(config, _identifier(table))


def _identifier(table: TableName) -> str:
    """Returns a Python identifier; if characters are replaced, a suffix keeps it unique."""
    parts = stored_parts(table)
    clean = "__".join(re.sub(r"[^A-Za-z0-9_]", "_", part) for part in parts)
    # Otherwise ``a__b`` with ``c`` and ``a`` with ``b__c`` would be the same.
    are_apart = all("__" not in part and part == part.strip("_") for part in parts)
    if clean == "__".join(parts) and are_apart:
        return clean
    return f"{clean}_{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"


def pool_name(config: ReplicationConfig, entry: TableEntry) -> str:
    """Returns the pool that a table's merges, upkeep and shards share: one writer at a time."""
    target = TableName(entry.table.source, entry.target.namespace, entry.target.name)
    return named(config, f"merge_{_identifier(target if entry.shard else entry.table)}")


def topic_tag(entry: TableEntry) -> str:
    """Returns the value of `TAG_TOPIC`, with the source: sources may read one topic differently."""
    return f"{entry.table.source}:{entry.topic}"


def _tables_tags(entries: Sequence[TableEntry]) -> dict[str, str]:
    """Returns `TAG_TABLE`, and as many further tags as the tables' names need."""
    texts = [""]
    for name in (str(each.table) for each in entries):
        text = f"{texts[-1]} {name}".lstrip()
        if len(text.encode()) <= _TAG_BYTES:
            texts[-1] = text
        else:
            texts.append(name)
    return {f"{TAG_TABLE}_{n}" if n else TAG_TABLE: text for n, text in enumerate(texts)}


def ask_to_end(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Asks a run to make room for another, unless it was asked before."""
    if not is_asked_to_end(run):
        instance.add_run_tags(run.run_id, {TAG_HAND_OVER: run.run_id})


def is_asked_to_end(run: dg.DagsterRun) -> bool:
    """Returns whether a run was asked to make room for another."""
    return run.tags.get(TAG_HAND_OVER) == run.run_id


def pools_of(run: dg.DagsterRun) -> frozenset[str] | None:
    """Returns the pools of the steps that a run executes; None if none of them has one.

    They say more than its selection: a job's run selects no assets, and a run that repeats failed
    steps selects those of all.
    """
    known = run.run_op_concurrency
    return frozenset(known.all_pools or ()) if known else None


def names_in(run: dg.DagsterRun) -> frozenset[str]:
    """Returns the names in the tags of `TAG_TABLE`; one with spaces is there in parts."""
    said = (text for tag, text in run.tags.items() if tag.startswith(TAG_TABLE))
    return frozenset(name for text in said for name in text.split())


def steps_apart(
    config: ReplicationConfig, entries: Sequence[TableEntry], check: str
) -> list[tuple[TableEntry, ...]]:
    """Groups tables by the step that runs their checks: nearly always one step for all.

    Dagster derives the names of a step's outputs from asset keys, and some keys give the same name.
    """
    steps = list[dict[str, TableEntry]]()
    for entry in entries:
        name = dg.AssetCheckSpec(check, asset=table_key(config, entry)).get_python_identifier()
        step = next((each for each in steps if name not in each), None)
        if step is None:
            steps.append(step := {})
        step[name] = entry
    return [tuple(each.values()) for each in steps]
