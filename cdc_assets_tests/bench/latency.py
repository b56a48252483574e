"""From commit to visible, with the real daemon, while the shop is under load.

First with a turn of each table every six seconds, then as often as the default SLO asks: what the
difference costs is processor time for each change, of Spark and of all of Dagster's processes.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import psutil
from cdc_assets_devstack import environment
from cdc_assets_devstack.demo_parts import Dagster, ShopLoadProcess
from cdc_assets_devstack.layout import HOST
from cdc_assets_devstack.shop.connector import connector_config
from cdc_assets_devstack.shop.database import prepare_shop

from cdc_assets.changes.latency import RELATIVE_ERROR, LatencyHistogram
from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.slo import PublishPace
from cdc_assets.config import ReplicationConfig
from cdc_assets.lake import Lake
from cdc_assets.registry import TableEntry
from cdc_assets_tests.bench.figures import Figures
from cdc_assets_tests.bench.meter import MemoryPeaks
from cdc_assets_tests.bench.probe import LOOK_SECONDS, MARKERS, Probe
from cdc_assets_tests.bench.world import CHECKOUT, World
from cdc_assets_tests.configuration import beside
from cdc_assets_tests.waiting import until

SOURCE = "shop"
PACES: Mapping[float | str, str] = {
    6: "p95 ≤ 10 s, p50 ≤ 5 s, ≤ 2 ms a change",
    "auto": "95 % within 5 min, ≤ 1 ms a change",
}
WARM_UP_SECONDS = 180
TURNS = 3
"""Of each table, at least, while it is measured."""
MEMORY_GOALS = {"run process": "≤ 400", "Spark server": "heap 2,048"}
_ROLES = (
    ("run process", "execute_run"),
    ("run process", "execute_step"),
    ("run process", "spawn_main"),
    ("code server", "api grpc"),
    ("dagster daemon", "daemon"),
    ("dagster webserver", "webserver"),
    ("code server proxy", "code-server"),
)


def measure(world: World) -> Iterator[Figures]:
    """Latencies by the markers and as published, the rate, processor time, and memory."""
    prepare(world)
    for every, goal in PACES.items():
        config = configured(world, every)
        with daemon(world, config) as dagster:
            memory = MemoryPeaks(lambda part=dagster: {**world.roles(), **dagster_roles(part)})
            with memory.sampled():
                live = Live(world, config, dagster)
                live.wait_until_filled()
                with load(world):
                    live.warm_up()
                    found = live.measure(goal)
        yield found
        yield Figures(f"Peak memory, {found.title}", memory.rows(MEMORY_GOALS))


@dataclass
class Live:
    """The shop's tables while the daemon replicates them."""

    world: World
    config: ReplicationConfig
    dagster: Dagster

    def wait_until_filled(self) -> None:
        """Until the daemon has made each table and merged what the shop began with."""
        self.world.say("Dagster finds the tables and fills them")
        until(self._caught_up, "the daemon has filled all tables", within_seconds=240)

    def warm_up(self) -> None:
        """Unmeasured load, for as long as the server's JVM is busy compiling."""
        self.world.say(f"load of {self.world.scale.rate:g} changes/s; {WARM_UP_SECONDS} s warm-up")
        time.sleep(WARM_UP_SECONDS)

    def measure(self, goal: str) -> Figures:
        """Latencies, the rate at which changes came meanwhile, and what they cost."""
        pace = self._pace
        seconds = max(self.world.scale.seconds, TURNS * pace.seconds)
        self.world.say(f"measuring for {seconds:.0f} s")
        probe = Probe(self.world.dsn(SOURCE), self.config, self._targets)
        before, started, cpu = self.records(), time.monotonic(), self._cpu_seconds()
        published = self._published()
        probe.run(seconds)
        changes = self.records() - before
        rate = changes / (time.monotonic() - started)
        spark, dagster = (
            1000 * (now - then) / changes
            for now, then in zip(self._cpu_seconds(), cpu, strict=True)
        )
        notes = [
            f"{rate:.0f} changes/s over {len(MARKERS)} tables, goal: {goal}",
            f"processor time for each change: Spark {spark:.2f} ms, Dagster {dagster:.2f} ms",
            f"markers: looked for every {LOOK_SECONDS} s, {probe.missing} never seen; "
            f"published: percentiles within {100 * RELATIVE_ERROR:.0f} %",
        ]
        rows = [_row(f"markers in {table}", seen) for table, seen in probe.latencies.items()]
        together = [each for seen in probe.latencies.values() for each in seen]
        rows.append(_row("markers, all tables", together))
        rows.append(_published_row(_difference(self._published(), published)))
        return Figures(f"From commit to visible, {pace}", rows, notes)

    @property
    def _pace(self) -> PublishPace:
        return self.config.runs.pace(self.config.source(SOURCE).slo.target, 1)

    def _cpu_seconds(self) -> tuple[float, float]:
        """Of Spark, and of all of Dagster's processes, ended ones too."""
        running = self.dagster.running
        root = running.process() if running else None
        tree = [root, *root.children(recursive=True)] if root else []
        return self.world.meter.cpu_seconds(), sum(map(_with_ended_children, tree))

    @property
    def entries(self) -> list[TableEntry]:
        """The tables, their topics and lake tables."""
        at = datetime.now(UTC)
        return [
            TableEntry(TableName(SOURCE, "public", each), topic, target, at)
            for (each, target), topic in zip(self._targets.items(), self._topics, strict=True)
        ]

    @property
    def _targets(self) -> dict[str, LakeName]:
        source = self.config.source(SOURCE)
        return {each: source.lake_name(TableName(SOURCE, "public", each)) for each in MARKERS}

    @property
    def _topics(self) -> list[str]:
        return [f"{SOURCE}.public.{table}" for table in MARKERS]

    def records(self) -> int:
        """How many all topics hold."""
        return sum(self.world.records(topic) for topic in self._topics)

    def _caught_up(self) -> bool:
        lake, marks = Lake(self.config), self.world.log.watermarks(self._topics)
        for topic, target in zip(self._topics, self._targets.values(), strict=True):
            state = lake.state(target)
            if topic not in marks or state is None or state.published is None:
                return False
            if state.published.offsets.ranges_to(marks[topic].end):
                return False
        return True

    def _published(self) -> LatencyHistogram:
        lake, total = Lake(self.config), LatencyHistogram()
        for target in self._targets.values():
            state = lake.state(target)
            if state and state.published:
                total += state.published.slo.total()
        return total


def prepare(world: World) -> None:
    """The shop and its connector."""
    prepare_shop(world.dsn(SOURCE))
    world.stack.register_connector(SOURCE, connector_config(world.stack.layout))


def configured(world: World, every_seconds: float | str = 6) -> ReplicationConfig:
    """What is to be replicated of it, and how often."""
    config = world.config(SOURCE, list(MARKERS))
    runs = {"every_seconds": every_seconds}
    return beside(config, SOURCE, runs=runs)


@contextmanager
def daemon(world: World, config: ReplicationConfig) -> Iterator[Dagster]:
    """``dagster dev``, as the demo runs it."""
    assert config.path is not None
    env = {**environment.named_in(config.path), "CDC_ASSETS_CONFIG": str(config.path)}
    part = Dagster(world.stack.layout, _free_port(), CHECKOUT / "dagster.yaml", env)
    try:
        with world.console.status("starting Dagster"):
            part.bring_up(lambda _: None)
        yield part
    finally:
        part.stop()


@contextmanager
def load(world: World) -> Iterator[None]:
    """On the shop, until the block ends."""
    part = ShopLoadProcess(world.stack.layout, world.dsn(SOURCE), world.scale.rate)
    try:
        part.bring_up(lambda _: None)
        yield
    finally:
        part.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def dagster_roles(part: Dagster) -> dict[str, list[psutil.Process]]:
    """The daemon's processes by what they do, which their command lines tell."""
    root = part.running.process() if part.running else None
    found: dict[str, list[psutil.Process]] = {"dagster dev": [root] if root else []}
    for process in root.children(recursive=True) if root else []:
        try:
            line = " ".join(process.cmdline())
        except psutil.Error:
            continue
        role = next((role for role, sign in _ROLES if sign in line), None)
        if role:
            found.setdefault(role, []).append(process)
    return found


def _with_ended_children(process: psutil.Process) -> float:
    try:
        return sum(process.cpu_times()[:4])
    except psutil.Error:
        return 0.0


def _row(what: str, seconds: Sequence[float]) -> Mapping[str, object]:
    return {
        "what": what,
        "changes": len(seconds),
        **{f"p{q} s": round(_percentile(seconds, q), 2) for q in (50, 95, 99)},
        "max s": round(max(seconds, default=math.nan), 2),
    }


def _published_row(found: LatencyHistogram) -> Mapping[str, object]:
    percentiles = {f"p{q} s": round(found.percentile(q), 2) for q in (50, 95, 99)}
    return {"what": "all changes, as published", "changes": found.count, **percentiles}


def _difference(after: LatencyHistogram, before: LatencyHistogram) -> LatencyHistogram:
    """What came in between. Where neighbouring buckets were joined since, the later one has it."""
    left, earlier = dict(before.buckets), 0
    rest: dict[int, int] = {}
    for bucket, count in after.buckets:
        earlier += sum(left.pop(each) for each in [b for b in left if b <= bucket])
        rest[bucket] = max(0, count - earlier)
        earlier = max(0, earlier - count)
    return LatencyHistogram.from_counts(rest)


def _percentile(values: Sequence[float], q: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * q / 100) - 1)] if ordered else math.nan
