"""pgbench's accounts: a million rows that Debezium turns into events."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from statistics import fmean
from typing import Any

import psycopg
from cdc_assets_devstack.postgres import bin_folder
from cdc_assets_devstack.shop.connector import connector_config
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from psycopg import pq

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.log.values import Watermarks
from cdc_assets.merge import BatchResult, Replicator
from cdc_assets.registry import TableEntry
from cdc_assets_tests.bench.world import World
from cdc_assets_tests.waiting import until

SOURCE = "bench"
TABLE = "pgbench_accounts"
_PER_SCALE = 100_000

Event = dict[str, Any]


@dataclass
class Accounts:
    """The table in PostgreSQL, its topic, and as many copies in the lake as are wanted."""

    world: World
    config: ReplicationConfig
    source: str = SOURCE
    table: str = TABLE

    @property
    def topic(self) -> str:
        """Where its changes are."""
        return f"{self.source}.public.{self.table}"

    def entry(self, copy: str) -> TableEntry:
        """The same table and topic with a lake table of its own."""
        name = TableName(self.source, "public", self.table)
        return TableEntry(
            name, self.topic, LakeName(f"{self.source}_{copy}", self.table), datetime.now(UTC)
        )

    def drain(self, copy: str) -> list[BatchResult]:
        """Merge all that the topic holds and the copy has not."""
        return drain(self.world, self.config, self.entry(copy))

    def in_batches(self, size: int) -> ReplicationConfig:
        """The configuration with batches of so many records at most."""
        (source,) = self.config.sources.values()
        batch = source.batch.model_copy(update={"max_records": size})
        smaller = source.model_copy(update={"batch": batch})
        return self.config.model_copy(update={"sources": {self.source: smaller}})

    def warm_up(self) -> None:
        """Merge a part of the topic, so that Spark has compiled what will be measured."""
        size = max(1, self.world.scale.rows // 10)
        replicator = Replicator(self.in_batches(size), lambda: self.world.session)
        batches = replicator.drain(
            self.entry("warm_up"), window=None, run_id="bench", budget_seconds=600
        )
        for _ in zip(range(3), batches, strict=False):
            pass

    def update(self, number: int) -> None:
        """Change a fifth of the rows, scattered, in one transaction; wait for the events."""
        self.change(f"WHERE aid % 5 = {number % 5}")

    def captured_update(self) -> Event:
        """An update of one row as Debezium writes it."""
        self.change("WHERE aid = 1")
        place = (Place(self.topic, p, end - 1) for p, end in self._marks.end if end)
        consumer = Consumer({"bootstrap.servers": self.world.stack.kafka.address, "group.id": "-"})
        try:
            consumer.assign(list(place))
            while message := consumer.poll(20):
                event = json.loads(message.value() or b"{}")
                if event.get("op") == "u":
                    return event
        finally:
            consumer.close()
        msg = f"no update at the end of {self.topic}"
        raise LookupError(msg)

    def change(self, where: str) -> None:
        """Change the rows of a condition in one transaction; wait for the events."""
        before = self.world.records(self.topic)
        with psycopg.connect(self.world.dsn(SOURCE)) as connection:
            statement = f"UPDATE {TABLE} SET abalance = abalance + 1 {where}"
            changed = connection.execute(statement.encode()).rowcount
        self.wait_for(before + changed)

    @property
    def _marks(self) -> Watermarks:
        return self.world.log.watermarks([self.topic])[self.topic]

    def wait_for(self, records: int) -> None:
        """Until the topic holds so many."""
        until(
            lambda: self.world.records(self.topic) >= records,
            f"Debezium writes {records:,} events",
            within_seconds=600,
        )

    def mean_bytes(self) -> int:
        """Of an event's value."""
        sample = self.world.log.sample(self.topic, 1_000)
        return round(fmean(len(each.value or b"") for each in sample))


def drain(world: World, config: ReplicationConfig, entry: TableEntry) -> list[BatchResult]:
    """Merge all that the entry's topic holds and its table has not, in this process."""
    replicator = Replicator(config, lambda: world.session)
    drained = replicator.drain(entry, window=None, run_id="bench", budget_seconds=600)
    return [each for each in drained if isinstance(each, BatchResult)]


def prepare_accounts(world: World) -> Accounts:
    """Fill the database, capture it, and wait until the topic holds the snapshot."""
    config = world.config(SOURCE, [TABLE])
    accounts = Accounts(world, config)
    if world.records(accounts.topic):
        return accounts
    world.say(f"pgbench fills {world.scale.rows:,} accounts, Debezium reads them")
    fill(world)
    settings = connector_config(world.stack.layout, database=SOURCE, prefix=SOURCE)
    world.stack.register_connector(SOURCE, settings)
    accounts.wait_for(world.scale.rows)
    return accounts


def fill(world: World, database: str = SOURCE) -> None:
    """Make a database with the table."""
    with psycopg.connect(world.stack.postgres.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}".encode())
    dsn = world.dsn(database)
    factor = ceil(world.scale.rows / _PER_SCALE)
    _pgbench(dsn, ["-i", "-q", "-s", str(factor)])
    with psycopg.connect(dsn) as connection:
        connection.execute(f"DELETE FROM {TABLE} WHERE aid > {world.scale.rows}".encode())


def _pgbench(dsn: str, arguments: Sequence[str]) -> None:
    """pgbench with its connection in the environment: a command line would show the password."""
    env = {**os.environ, **connection_variables(dsn)}
    argv = [str(bin_folder() / "pgbench"), *arguments]
    subprocess.run(argv, env=env, check=True, capture_output=True, timeout=300)


def connection_variables(dsn: str) -> dict[str, str]:
    """All that a connection string says, as libpq's environment variables."""
    said = pq.Conninfo.parse(dsn.encode())
    return {each.envvar.decode(): each.val.decode() for each in said if each.envvar and each.val}
