"""What many tables cost that have nothing new: a look at them, `status`, loading definitions.

The tables are one table's metadata under many names, with as many snapshots as a busy table keeps.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import dagster as dg
import psutil
import pyarrow as pa
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,  # pyright: ignore[reportPrivateImportUsage]
)
from pyiceberg.catalog import Catalog

from cdc_assets.changes.latency import LatencyHistogram
from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.slo import SloWindow
from cdc_assets.config import CONFIG_VARIABLE, ReplicationConfig
from cdc_assets.lake.properties import Published
from cdc_assets.orchestration.sensors.replicate import INTERVAL_SECONDS, replicate_sensor
from cdc_assets.orchestration.sensors.slo import slo_sensor
from cdc_assets.registry import RegistryFile, TableEntry
from cdc_assets_tests.bench.figures import Figures
from cdc_assets_tests.bench.world import World
from cdc_assets_tests.lake_view import open_catalog

SOURCE: Final = "idle"
COLUMNS: Final = 20
TOPICS_AT_ONCE: Final = 100
LOAD: Final = "from cdc_assets.definitions import defs; defs().get_repository_def()"
Row = dict[str, object]


def measure(world: World) -> Iterator[Figures]:
    """Ticks, the first of which knows of no table; commands."""
    idle = Idle.made(world, world.scale.idle_tables, world.scale.idle_snapshots)
    with dg.instance_for_test() as instance:
        ticks, checks = list(idle.ticks(instance)), list(idle.checks(instance))
    warm = ticks[-1]["CPU s"]
    assert isinstance(warm, float)
    each_hour = 3600 / INTERVAL_SECONDS * warm
    count = len(idle.entries)
    notes = [
        f"{count:,} tables of {world.scale.idle_snapshots:,} snapshots and {COLUMNS} columns",
        f"ticks each {INTERVAL_SECONDS} s: {each_hour:.0f} CPU s an hour; for 100 tables, in "
        f"proportion, {each_hour / count * 100:.0f}, goal: ≤ 60",
    ]
    yield Figures("Tables with nothing new", [*ticks, *checks, *idle.commands()], notes)


@dataclass
class Idle:
    """The tables."""

    config: ReplicationConfig
    entries: list[TableEntry]

    @classmethod
    def made(cls, world: World, count: int, snapshots: int) -> Idle:
        """Each with a topic of its own, empty and merged."""
        world.say(f"{count:,} tables of {snapshots:,} snapshots are written")
        config = world.config(SOURCE, [r"t\d+"], database=None)
        entries = [_entry(config, f"t{number:04}") for number in range(count)]
        _make_topics(world.stack.kafka.address, [each.topic for each in entries])
        catalog = open_catalog(config)
        pattern = _pattern(catalog, snapshots)
        for each in entries:
            catalog.create_namespace_if_not_exists((each.target.namespace,))
            name = (each.target.namespace, each.target.name)
            catalog.register_table(name, _copied(pattern, each))
        RegistryFile(config.registry).add(entries)
        return cls(config, entries)

    def ticks(self, instance: dg.DagsterInstance) -> Iterator[Row]:
        """Of the sensor `replicate`."""
        sensor = replicate_sensor(self.config, RegistryFile(self.config.registry).load())

        def tick() -> None:
            result = sensor(dg.build_sensor_context(instance=instance))
            if not isinstance(result, dg.SensorResult) or result.run_requests:
                msg = "a table is due that has nothing new"
                raise RuntimeError(msg)

        for what in ("first", "second", "third"):
            yield _taken(f"{what} tick of `replicate`", tick, "≤ 2 s")

    def checks(self, instance: dg.DagsterInstance) -> Iterator[Row]:
        """Ticks of the sensor `replication_slo`, the first of which reads all publishes."""
        sensor = slo_sensor(self.config, RegistryFile(self.config.registry).load())
        cursor: str | None = None

        def tick() -> None:
            nonlocal cursor
            result = sensor(dg.build_sensor_context(instance=instance, cursor=cursor))
            if not isinstance(result, dg.SensorResult) or not result.cursor:
                msg = "the checks of tables with nothing new were not evaluated"
                raise RuntimeError(msg)
            cursor = result.cursor

        for what, goal in (("first", "≤ 60 s"), ("second", "≤ 5 s"), ("third", "≤ 5 s")):
            yield _taken(f"{what} tick of `replication_slo`", tick, goal)

    def commands(self) -> Iterator[Row]:
        """In processes of their own."""
        status = [str(Path(sys.executable).with_name("cdc-assets")), "status", "--json"]
        load = [sys.executable, "-c", LOAD]
        for what, argv in (("first `status`", status), ("second `status`", status),
                           ("loading definitions", load)):  # fmt: skip
            yield _taken(what, lambda argv=argv: self._run(argv), "≤ 5 s")

    def _run(self, argv: list[str]) -> None:
        env = {**os.environ, CONFIG_VARIABLE: str(self.config.path)}
        subprocess.run(argv, env=env, check=True, stdout=subprocess.DEVNULL)


def _entry(config: ReplicationConfig, name: str) -> TableEntry:
    table = TableName(SOURCE, "public", name)
    target = config.source(SOURCE).lake_name(table)
    return TableEntry(table, f"{SOURCE}.public.{name}", target, datetime.now(UTC))


def _make_topics(servers: str, topics: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for begin in range(0, len(topics), TOPICS_AT_ONCE):
        some = [NewTopic(each, 1, 1) for each in topics[begin : begin + TOPICS_AT_ONCE]]
        for future in admin.create_topics(some).values():
            future.result(60)


def _pattern(catalog: Catalog, snapshots: int) -> Mapping[str, Any]:
    """Metadata of a table with one snapshot, as if it had been published so often."""
    schema = pa.schema([("id", pa.int64()), *((f"c{n}", pa.string()) for n in range(COLUMNS - 1))])
    catalog.create_namespace_if_not_exists(("pattern",))
    table = catalog.create_table(("pattern", "t"), schema)
    table.append(pa.table({n: pa.array([1 if n == "id" else "x"], schema.field(n).type)
                           for n in schema.names}, schema=schema))  # fmt: skip
    said = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    (one,) = said["snapshots"]
    ids = [one["snapshot-id"] + n for n in range(snapshots)]
    said["snapshots"] = [
        {**one, "snapshot-id": id_, "sequence-number": n + 1,
         **({"parent-snapshot-id": ids[n - 1]} if n else {})}
        for n, id_ in enumerate(ids)
    ]  # fmt: skip
    log = {"timestamp-ms": one["timestamp-ms"]}
    said["snapshot-log"] = [{**log, "snapshot-id": id_} for id_ in ids]
    said["current-snapshot-id"] = said["refs"]["main"]["snapshot-id"] = ids[-1]
    said["last-sequence-number"] = snapshots
    return said


def _copied(pattern: Mapping[str, Any], entry: TableEntry) -> str:
    """The pattern's metadata as a table's own; where it is."""
    location = f"{pattern['location']}_{entry.target.name}"
    properties = _published(entry).to_properties()
    snapshots = [
        {**each, "summary": {**each["summary"], **properties}} for each in pattern["snapshots"]
    ]
    said = {**pattern, "location": location, "table-uuid": str(uuid.uuid4()),
            "snapshots": snapshots}  # fmt: skip
    file = (
        Path(location.removeprefix("file://")) / "metadata" / f"00000-{uuid.uuid4()}.metadata.json"
    )
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(said))
    return f"file://{file}"


def _published(entry: TableEntry) -> Published:
    none, now = OffsetVector.of({0: 0}), datetime.now(UTC)
    return Published(
        offsets=none, start=none, topic=entry.topic, topic_id="", cluster_id="",
        attempt=uuid.uuid4().hex, run="", kind="tail", published_at=now,
        slo=SloWindow().add(now, LatencyHistogram.of([1.0, 2.0, 5.0])),
    )  # fmt: skip


def _taken(what: str, work: Callable[[], None], goal: str) -> Row:
    """Of this process and of those that it has waited for."""
    cpu, began = _cpu_seconds(), time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    cpu = _cpu_seconds() - cpu
    return {"what": what, "s": round(seconds, 2), "CPU s": round(cpu, 3), "goal": goal}


def _cpu_seconds() -> float:
    times = psutil.Process().cpu_times()
    return times.user + times.system + times.children_user + times.children_system
