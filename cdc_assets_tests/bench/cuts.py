"""Batches of three tables whose changes are of the same transactions, with cuts and without.

Each round of transfers is merged by three sources of the same topics in turn: one takes no cuts,
one takes a cut after each round, one takes a cut a minute, as by default.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from statistics import median
from typing import Any, Final

import psycopg
from cdc_assets_devstack.shop.connector import connector_config

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.lake.cuts import CutLake
from cdc_assets.merge.attempt import Connections
from cdc_assets.merge.plan.result import BatchResult
from cdc_assets.merge.replicate import Replicator
from cdc_assets.operate.cuts import ConsistentCuts
from cdc_assets.registry import RegistryFile, TableEntry
from cdc_assets_tests.bench.figures import Figures
from cdc_assets_tests.bench.world import World
from cdc_assets_tests.stack.bank import MAKE, TABLES, Transfers
from cdc_assets_tests.stack.postgres_side import PostgresSide

BANK: Final = "bank"
WAYS: Final[Mapping[str, str | None]] = {"bank": None, "bankoften": "1s", "bankusual": "1m"}
"""The sources, and how often they take cuts."""
WARM_UP: Final = 2
"""Rounds before those that are measured."""


@dataclass
class Way:
    """One of the sources.

    Attributes:
        world: where it is.
        config: its configuration.
        every: how often it takes a cut; None for never.
        seconds, own, spark: of each round, those of the processors included.
    """

    world: World
    config: ReplicationConfig
    every: str | None
    seconds: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    spark: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self._name,) = self.config.sources
        source, at = self.config.source(self._name), datetime.now(UTC)
        names = [TableName(self._name, "public", each) for each in TABLES]
        self._entries = [
            TableEntry(each, f"{BANK}.{each.qualified}", source.lake_name(each), at)
            for each in names
        ]
        RegistryFile(self.config.registry).add(self._entries)
        self._cuts = ConsistentCuts(self.config)
        connections = replace(Connections.of(self.config), boundaries=self._cuts or None)
        session = self.world.session
        self._replicator = Replicator(self.config, lambda: session, connections=connections)

    def merge(self) -> None:
        """What waits; with the cut that it completes."""
        begun, own, spark = time.monotonic(), time.process_time(), self.world.meter.cpu_seconds()
        for entry in self._entries:
            done = self._replicator.drain(entry, window=None, run_id="bench", budget_seconds=600)
            for each in done:
                if isinstance(each, BatchResult) and self._cuts:
                    self._cuts.advance(entry)
        list(self._cuts.advance_all())
        self.seconds.append(time.monotonic() - begun)
        self.own.append(time.process_time() - own)
        self.spark.append(self.world.meter.cpu_seconds() - spark)

    def row(self, plain: Way) -> dict[str, Any]:
        """The figures of the measured rounds."""
        cuts = len(CutLake(self.config).cuts(self._name)) if self.every else 0
        totals = {name: sum(getattr(self, name)[WARM_UP:]) for name in ("seconds", "own", "spark")}
        others = {name: sum(getattr(plain, name)[WARM_UP:]) for name in totals}
        cpu = (totals["own"] + totals["spark"]) / (others["own"] + others["spark"])
        return {
            "a cut every": self.every or "never",
            "cuts": cuts,
            "median round s": round(median(self.seconds[WARM_UP:]), 2),
            "time ×": round(totals["seconds"] / others["seconds"], 2),
            "own CPU s": round(totals["own"], 2),
            "Spark CPU s": round(totals["spark"], 2),
            "CPU ×": round(cpu, 2),
        }


def measure(world: World) -> Iterator[Figures]:
    """Some rounds, each merged by all of the sources, in another order each time."""
    with psycopg.connect(world.stack.postgres.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {BANK}".encode())
    side = PostgresSide(world.dsn(BANK))
    side.execute(*MAKE)
    world.stack.register_connector(BANK, connector_config(world.stack.layout, database=BANK,
                                                          prefix=BANK))  # fmt: skip
    ways, work = [*_ways(world)], Transfers(side, 1)
    rounds = WARM_UP + world.scale.rounds
    for number in range(rounds):
        for _ in range(world.scale.small_changes):
            work.transfer()
        side.wait_until_delivered(world.stack, BANK)
        for at in range(len(ways)):
            ways[(number + at) % len(ways)].merge()
        world.say(f"round {number + 1} of {rounds}: {ways[0].seconds[-1]:.1f} s without cuts")
    notes = [f"{world.scale.small_changes} transactions of 4 changes over 3 tables in each of "
             f"{world.scale.rounds} rounds"]  # fmt: skip
    yield Figures("Batches with cuts", [each.row(ways[0]) for each in ways], notes)


def _ways(world: World) -> Iterator[Way]:
    topics = {"include": [rf"{BANK}\.public\.{table}" for table in TABLES]}
    for name, every in WAYS.items():
        taken = {"every": every, "keep": "1d"} if every else None
        config = world.config(name, TABLES, topics=topics, consistent=taken)
        os.environ[f"{name.upper()}_DSN"] = world.dsn(BANK)
        yield Way(world, config, every)
