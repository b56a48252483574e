"""What few changes cost in tables of different sizes.

A table is made by the product: it merges the first events of a topic. The rest of its rows
is appended by Spark, which takes seconds where a million events take ten: a snapshot between
two of ours, in which the product finds its offsets by looking at the one before. The rows are
scattered over the files, as hashing by key leaves them.

The changes are real update events with other keys, positions and times.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import functions as F

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.formats.order import position_bytes
from cdc_assets.merge import BatchResult
from cdc_assets.merge.statements import sql
from cdc_assets.registry import TableEntry
from cdc_assets_tests.bench.accounts import (
    SOURCE,
    TABLE,
    Accounts,
    Event,
    drain,
    prepare_accounts,
)
from cdc_assets_tests.bench.figures import Figures, spread
from cdc_assets_tests.bench.meter import MemoryPeaks, Taken
from cdc_assets_tests.bench.world import World

PARTITIONS = 4
FIRST = 1_000
WARM_UPS = 20
"""Batches before anything is measured: a new server compiles its code in them."""
_STRIDE = 7_919  # a prime that divides no size: multiplying by it scatters the keys
_ROWS_PER_FILE = 1_000_000


def measure(world: World) -> Iterator[Figures]:
    """Seconds for each number of changed keys and each size, and how they compare."""
    accounts = prepare_accounts(world)
    tables = [GrownTable(accounts, rows) for rows in world.scale.table_rows]
    found: dict[tuple[int, int], list[Taken]] = {}
    warm_ups = WARM_UPS
    with (memory := MemoryPeaks(world.roles)).sampled():
        for table in tables:
            world.say(f"growing a table to {table.rows:,} rows")
            table.create()
            for _ in range(warm_ups):
                table.merge(FIRST)
            warm_ups = 1
            for keys in world.scale.changed_keys:
                found[table.rows, keys] = [
                    table.merge(keys) for _ in range(world.scale.repeats)
                ]  # fmt: skip
    yield _figures(world, found)
    for table in tables:
        yield table.last_steps()
    yield Figures("Peak memory, few changes", memory.rows({}))


@dataclass
class GrownTable:
    """A table of so many rows, and changes of it."""

    accounts: Accounts
    rows: int
    _random: random.Random = field(default_factory=lambda: random.Random(7))
    _last: dict[int, BatchResult] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._world = self.accounts.world
        self._topic = f"{SOURCE}.public.{TABLE}_{self.rows}"
        name = TableName(SOURCE, "public", TABLE)
        lake_name = LakeName(f"grown_{self.rows}", TABLE)
        self._entry = TableEntry(name, self._topic, lake_name, datetime.now(UTC))
        self._kafka = {"bootstrap.servers": self._world.stack.kafka.address, "log_level": 2}
        self._producer = Producer({**self._kafka, "enable.idempotence": True, "linger.ms": 20})
        self._template = self.accounts.captured_update()
        self._lsn = int(self._template["source"]["lsn"]) + 1

    def create(self) -> None:
        """Merge the first rows, append the others."""
        admin = AdminClient(self._kafka)
        for future in admin.create_topics([NewTopic(self._topic, PARTITIONS, 1)]).values():
            future.result(30)
        self._produce(range(FIRST))
        drain(self._world, self.accounts.config, self._entry)
        self._append_rest()

    def merge(self, keys: int) -> Taken:
        """Change so many keys, chosen at random, and merge them."""
        self._produce(self._random.sample(range(self.rows), keys))
        batches: list[BatchResult] = []
        taken = self._world.meter.take(
            lambda: batches.extend(drain(self._world, self.accounts.config, self._entry))
        )
        (self._last[keys],) = batches
        return taken

    def last_steps(self) -> Figures:
        """Seconds per step of the last merge of each number of keys."""
        rows = [
            {"keys": keys, **{name: round(s, 3) for name, s in batch.steps.items()},
             "whole": round(batch.duration_seconds, 3)}
            for keys, batch in self._last.items()
        ]  # fmt: skip
        return Figures(f"Steps, table of {self.rows:,} rows, last repetition", rows)

    def _append_rest(self) -> None:
        """By rows that are older than every change to come."""
        before = F.lit(self._lsn - 1)
        count = self.rows - FIRST
        files = max(2, count // _ROWS_PER_FILE)
        scattered = F.pmod(F.col("id") * _STRIDE, F.lit(count)) + FIRST
        numbered = self._world.session.range(0, count, 1, files).withColumns(
            {"commit": before, "lsn": before, "offset": F.col("id")}
        )
        rows = numbered.select(
            scattered.cast("int").alias("aid"),
            F.pmod(scattered, F.lit(10)).cast("int").alias("bid"),
            F.lit(0).alias("abalance"),
            F.rpad(F.lit(""), 84, " ").alias("filler"),
            position_bytes(("commit", "lsn", "offset")).alias(sql.POSITION),
            F.lit(None).cast("timestamp").alias(sql.COMMIT_TIME),
        )
        rows.writeTo(sql.table(self.accounts.config.lake.catalog.name, self._entry.target)).append()

    def _produce(self, keys: Iterable[int]) -> None:
        for key in keys:
            self._lsn += 100
            self._producer.produce(
                self._topic,
                key=json.dumps({"aid": key}),
                value=_event(self._template, key, self._lsn),
                partition=key % PARTITIONS,
            )
            self._producer.poll(0)
        if self._producer.flush(60):
            msg = "not all changes reached Kafka"
            raise TimeoutError(msg)


def _event(template: Event, key: int, lsn: int) -> str:
    """The template with another key and position, of now."""
    now = time.time_ns()
    source = {
        **template["source"],
        "lsn": lsn,
        "sequence": json.dumps([str(lsn - 50), str(lsn)]),
        "ts_ms": now // 1_000_000,
        "ts_us": now // 1_000,
        "ts_ns": now,
    }
    after = {**template["after"], "aid": key, "abalance": lsn % 1_000}
    # Each is a transaction of its own, whose end nobody announces.
    event = {**template, "after": after, "source": source, "transaction": None}
    return json.dumps(event, separators=(",", ":"))


def _figures(world: World, found: Mapping[tuple[int, int], list[Taken]]) -> Figures:
    smallest = min(rows for rows, _ in found)
    base = {keys: _median(taken) for (rows, keys), taken in found.items() if rows == smallest}
    rows = [
        {
            "rows in the table": size,
            "changed keys": keys,
            **spread([each.seconds for each in taken]),
            "CPU s": round(median(each.cpu_seconds for each in taken), 2),
            "times the smallest table": round(_median(taken) / base[keys], 2),
            "goal": "≤ 2 ×" if (size, keys) == (10 * world.scale.rows, 10_000) else "",
        }
        for (size, keys), taken in found.items()
    ]
    return Figures("Few changes, by the size of the table", rows)


def _median(taken: list[Taken]) -> float:
    return median(each.seconds for each in taken)
