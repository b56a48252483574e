"""The first load of a table: read from its source, and through Kafka by a connector's snapshot."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg
from cdc_assets_devstack.shop.connector import connector_config

from cdc_assets.config import ReplicationConfig
from cdc_assets.lake import Lake
from cdc_assets.operate.services import Services
from cdc_assets.operations.rebuild.first_read import FirstRead
from cdc_assets.operations.session import Host, TableSession
from cdc_assets_tests.bench.accounts import TABLE, Accounts, fill
from cdc_assets_tests.bench.figures import Figures
from cdc_assets_tests.bench.world import World

LOGGED, READ = "firstlogged", "firstread"
SMALL = "pgbench_tellers"
GOAL = 5.0


@dataclass(frozen=True)
class Load:
    """Of one way."""

    seconds: float
    spark_cpu: float
    records: int


def measure(world: World) -> Iterator[Figures]:
    """Both ways, each from the registration of its connector to the last row in the lake."""
    world.say(f"pgbench fills {world.scale.rows:,} accounts, twice")
    fill(world, LOGGED)
    with psycopg.connect(world.stack.postgres.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {READ} TEMPLATE {LOGGED}".encode())
    world.say("reading from the source")
    read = _loaded(world, READ, "no_data", _read)
    world.say("loading through Kafka")
    logged = _loaded(world, LOGGED, "initial", _drain)
    rows = world.scale.rows
    figures = [
        {
            "way": way,
            "s": round(load.seconds, 1),
            "rows/s": round(rows / load.seconds),
            "CPU s of the Spark server": round(load.spark_cpu, 1),
            "records in Kafka": load.records,
        }
        for way, load in (("initial: read", read), ("snapshot through Kafka", logged))
    ]
    ratio = logged.seconds / read.seconds
    note = f"through Kafka it takes {ratio:.1f} times as long; goal: {GOAL:g} times"
    yield Figures(f"First load of {rows:,} rows", figures, [note])


def _loaded(
    world: World, source: str, mode: str, load: Callable[[World, ReplicationConfig, str], None]
) -> Load:
    topics = {"include": [rf"{source}\.public\..*"], "prefix": source}
    initial = "read" if mode == "no_data" else "log"
    verify = {"nudge": True, "wait_seconds": 120}
    config = world.config(source, [], topics=topics, initial=initial, verify=verify)
    settings = connector_config(world.stack.layout, database=source, prefix=source)
    began = time.perf_counter()

    def run() -> None:
        world.stack.register_connector(source, {**settings, "snapshot.mode": mode})
        load(world, config, SMALL)
        load(world, config, TABLE)

    taken = world.meter.take(run)
    seconds = time.perf_counter() - began
    world.stack.connect.unregister(source)
    return Load(seconds, taken.cpu_seconds, world.records(f"{source}.public.{TABLE}"))


def _read(world: World, config: ReplicationConfig, table: str) -> None:
    (name,) = config.sources
    entry = Accounts(world, config, name, table).entry("read")
    host = Host("bench", lambda: world.session)
    for progress in FirstRead(TableSession(Services(config), [entry], host)).steps():
        world.say(f"{progress.rows:,} rows, {progress.rows_per_second or 0:,.0f} rows/s")


def _drain(world: World, config: ReplicationConfig, table: str) -> None:
    """Merges what comes, until the table has all rows."""
    (name,) = config.sources
    accounts = Accounts(world, config, name, table)
    with psycopg.connect(world.dsn(name)) as connection:
        found = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
    wanted, entry, lake = int(found[0]) if found else 0, accounts.entry("logged"), Lake(config)
    while (state := lake.state(entry.target)) is None or state.total_records != wanted:
        if world.records(accounts.topic):
            accounts.drain("logged")
        else:
            time.sleep(0.2)
