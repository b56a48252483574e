"""Small batches of many tables, merged side by side as a run does it.

Each table has column names of its own, so that Spark's code for it is its own too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from queue import SimpleQueue
from statistics import median
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,  # pyright: ignore[reportPrivateImportUsage]
)

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.merge import BatchResult
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.orchestration.scheduler import WorkerSlot
from cdc_assets.registry import TableEntry
from cdc_assets_tests.bench.figures import Figures
from cdc_assets_tests.bench.world import World

SOURCE: Final = "many"
COLUMNS: Final = 8
PARTITIONS: Final = 4


def measure(world: World) -> Iterator[Figures]:
    """Rounds over all tables; the last half of them counts."""
    many = Many(world, world.scale.tables, world.scale.small_rows)
    try:
        yield from _figures(world, many)
    finally:
        many.close()


def _figures(world: World, many: Many) -> Iterator[Figures]:
    world.say(f"{many.count} tables of {many.rows:,} rows are made")
    many.fill()
    many.merge()
    rows, steps = [], []
    for number in range(world.scale.rounds):
        many.change(number)
        began: list[BatchResult] = []
        taken = world.meter.take(lambda began=began: began.extend(many.merge()))
        rows.append({
            "round": number,
            "s": round(taken.seconds, 2),
            "s a table": round(taken.seconds / many.count, 2),
            "CPU s a table (Spark)": round(taken.cpu_seconds / many.count, 2),
            "median batch s": round(median(each.duration_seconds for each in began), 2),
        })  # fmt: skip
        steps.append(began)
    what = f"{many.changes} updates in each of {many.count} tables, {many.at_once} at once"
    yield Figures(what, rows)
    last = [each for batches in steps[len(steps) // 2 :] for each in batches]
    names = dict.fromkeys(name for each in last for name in each.steps)
    yield Figures("Steps, median of the last rounds", [
        {"step": name, "s": round(median(each.steps.get(name, 0.0) for each in last), 3)}
        for name in names
    ])  # fmt: skip


class Many:
    """So many tables, whose changes are written to Kafka without a database.

    Attributes:
        changes: in each table, of one `change`.
        texts: by table and id, what all columns of a row but the key have.
    """

    def __init__(
        self, world: World, count: int, rows: int, source: str = SOURCE, **keys: Any
    ) -> None:
        self.count, self.rows, self._source = count, rows, source
        self.changes = world.scale.small_changes
        self.texts: dict[str, dict[int, str]] = {}
        self._names = [f"t{number:04}" for number in range(count)]
        tables: dict[str, Any] = {
            f"public.{name}": {"primary_key": ["id"], "columns": _types(name)}
            for name in self._names
        }
        self.config: ReplicationConfig = world.config(
            source, [r"t\d+"], database=None, tables=tables, **keys
        )
        self._servers = world.stack.kafka.address
        self._producer = Producer({
            "bootstrap.servers": self._servers, "linger.ms": 20, "log_level": 2,
            "queue.buffering.max.messages": 1_000_000,
        })  # fmt: skip
        self._position, self._log = 0, world.log
        self.at_once = self.config.spark.tables_at_once
        self._places: SimpleQueue[WorkerSlot] = SimpleQueue()
        self._made: list[WorkerSlot] = []
        spark = spark_resource(self.config)
        for _ in range(self.at_once):
            made = WorkerSlot(self.config, spark.new_session)
            self._made.append(made)
            self._places.put(made)

    def fill(self) -> None:
        """The topics, and the rows that each table begins with."""
        admin = AdminClient({"bootstrap.servers": self._servers})
        topics = [NewTopic(f"{self._source}.public.{name}", PARTITIONS, 1) for name in self._names]
        for future in admin.create_topics(topics).values():
            future.result(30)
        self._write(lambda name: range(self.rows), "c")

    def change(self, number: int) -> None:
        """Some rows of each table."""
        start = number * self.changes
        self._write(lambda name: ((start + n) * 7 % self.rows for n in range(self.changes)), "u")

    def merge(self) -> list[BatchResult]:
        """All tables, as many at once as there are places."""
        entries = self.entries
        with ThreadPoolExecutor(self.at_once) as pool:
            return [each for batches in pool.map(self._drain, entries) for each in batches]

    @property
    def entries(self) -> list[TableEntry]:
        """Of the tables."""
        return [self._entry(name) for name in self._names]

    @contextmanager
    def place(self) -> Iterator[WorkerSlot]:
        """One that nobody uses."""
        place = self._places.get()
        try:
            yield place
        finally:
            self._places.put(place)

    def close(self) -> None:
        """Give the sessions back."""
        for place in self._made:
            place.forget()

    def _drain(self, entry: TableEntry) -> list[BatchResult]:
        with self.place() as place:
            drained = place.replicator.drain(entry, window=None, run_id="bench", budget_seconds=600)
            return [each for each in drained if isinstance(each, BatchResult)]

    def _entry(self, name: str) -> TableEntry:
        table = TableName(self._source, "public", name)
        target = self.config.source(self._source).lake_name(table)
        return TableEntry(table, f"{self._source}.public.{name}", target, datetime.now(UTC))

    def _write(self, ids: Callable[[str], Iterable[int]], op: str) -> None:
        for name in self._names:
            topic, columns = f"{self._source}.public.{name}", _types(name)
            texts = self.texts.setdefault(name, {})
            for id_ in ids(name):
                self._position += 8
                texts[id_] = f"{op}{self._position}"
                row: dict[str, Any] = dict.fromkeys(columns, texts[id_])
                row["id"] = id_
                self._producer.produce(topic, *_event(name, op, row, self._position))
                self._producer.poll(0)
        self._producer.flush(120)


def _types(name: str) -> dict[str, str]:
    return {"id": "bigint"} | {f"{name}_{n}": "string" for n in range(COLUMNS - 1)}


def _event(table: str, op: str, row: dict[str, Any], position: int) -> tuple[bytes, bytes]:
    now = int(time.time() * 1000)
    value = {
        "before": None,
        "after": row,
        "source": {
            "connector": "postgresql", "db": "many", "schema": "public", "table": table,
            "lsn": position, "sequence": json.dumps([str(position - 8), str(position)]),
            "ts_ms": now, "ts_us": now * 1000, "snapshot": "false", "txId": position,
        },
        "op": op,
        "ts_ms": now,
    }  # fmt: skip
    return json.dumps(value).encode(), json.dumps({"id": row["id"]}).encode()  # value, then key
