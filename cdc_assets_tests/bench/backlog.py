"""A backlog of a million events into an empty table, and what reading them alone takes.

Once as a snapshot's records, and once as log events: see `cdc_assets_tests.bench.log_events`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from statistics import median

import psutil
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc_assets.changes.offsets import total_length
from cdc_assets.changes.position import Scheme
from cdc_assets.decode import read_json
from cdc_assets.formats.changes import Reading, decode
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.order import NUMBERS
from cdc_assets.formats.registered import format_of
from cdc_assets.formats.spec import ReadSpec
from cdc_assets.merge.fold.newest import newest_by_key
from cdc_assets.merge.intake.describe import TypeSource
from cdc_assets.merge.intake.observe import BatchObserver
from cdc_assets.merge.intake.read import read_ranges
from cdc_assets.merge.replicate import utc_now
from cdc_assets.schema.types import TableSchema
from cdc_assets_tests.bench.accounts import Accounts, prepare_accounts
from cdc_assets_tests.bench.figures import Figures, spread
from cdc_assets_tests.bench.log_events import prepare_log_events
from cdc_assets_tests.bench.meter import MemoryPeaks, Taken
from cdc_assets_tests.bench.world import CHECKOUT, World

MEMORY_GOALS = {"run process": "≤ 400", "Spark server": "heap 2,048"}
FLOOR = "floor: read, one function, newest"
FLOOR_GOAL = "≤ 1.4"
_NEEDED = """
op STRING, before STRUCT<aid: INT>,
after STRUCT<aid: INT, bid: INT, abalance: INT, filler: STRING>,
source STRUCT<ts_us: BIGINT, lsn: BIGINT, sequence: STRING, snapshot: STRING>
"""


def measure(world: World) -> Iterator[Figures]:
    """The drains, the stages they consist of, their steps, and memory."""
    snapshot = prepare_accounts(world)
    for name, accounts in {"log events": prepare_log_events(world), "snapshot": snapshot}.items():
        with (memory := MemoryPeaks(world.roles)).sampled():
            world.say(f"warming up {name}")
            accounts.warm_up()
            stages = Stages(accounts)
            taken: dict[str, list[Taken]] = {each: [] for each in (*stages.all, "drain")}
            steps: list[Mapping[str, float]] = []
            for number in range(world.scale.repeats):
                world.say(f"repetition {number + 1} of {world.scale.repeats}")
                for stage, made in stages.all.items():
                    taken[stage].append(world.meter.take(lambda made=made: consume(made())))
                steps.append(_drain_measured(accounts, f"drain_{number}", taken["drain"]))
        yield _rates(name, accounts, taken)
        yield _steps(name, steps)
        yield Figures(f"Peak memory, {name} in this process", memory.rows(MEMORY_GOALS))
    yield _by_command(snapshot)


class Stages:
    """The same records, a step further each time; each is read anew and thrown away."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        world, config = accounts.world, accounts.config
        marks = world.log.watermarks([accounts.topic])[accounts.topic]
        self._ranges = marks.begin.ranges_to(marks.end)
        self.records = total_length(self._ranges)
        source = config.source(accounts.source)
        types = TypeSource(source, world.log, format_of(source))
        self._format = format_of(source)
        self._schema: TableSchema = types.first_schema(accounts.entry("stages")).schema

    @property
    def all(self) -> dict[str, Callable[[], DataFrame]]:
        """By name, in order."""
        return {
            "read": self._read,
            "read, from_json": self._parse,
            FLOOR: self._floor,
            "read, decode": self._decode,
            "read, decode, observe": self._observe,
            "read, decode, observe, fold": self._fold,
        }

    def _read(self) -> DataFrame:
        options = self._accounts.config.kafka.spark_options()
        session = self._accounts.world.session
        return read_ranges(session, self._accounts.topic, self._ranges, options)

    def _parse(self) -> DataFrame:
        return self._read().select(F.from_json(F.col("value").cast("string"), _NEEDED))

    def _floor(self) -> DataFrame:
        """What no drain can do without, as Flink's does it: the newest event of each key."""
        kind = self._accounts.world.session.createDataFrame([], _NEEDED).schema
        document = self._read().withColumn("d", read_json(F.col("value"), kind)["payload"])
        events = document.select("partition", "offset", "d.op", "d.source.*", "d.after.*")
        newest = Window.partitionBy("aid").orderBy(F.desc("lsn"), F.desc("offset"))
        return events.withColumn("nth", F.row_number().over(newest)).where("nth = 1")

    def _decode(self) -> DataFrame:
        layout = Layout("bare", scheme=Scheme.POSTGRES)
        table = self._accounts.entry("stages").table
        spec = ReadSpec(schema=self._schema, layout=layout, target=self._schema, table=table)
        return decode(self._read(), Reading(self._format, (spec,)))

    def _observe(self) -> DataFrame:
        observer = BatchObserver(self._ranges, utc_now())
        return observer.attach(self._decode()).where("reject IS NULL")

    def _fold(self) -> DataFrame:
        return newest_by_key(
            self._observe(), self._schema.key, NUMBERS[: Scheme.POSTGRES.numbers], ()
        )


def consume(frame: DataFrame) -> None:
    """Evaluates a frame and throws its rows away."""
    frame.write.format("noop").mode("overwrite").save()


def _drain_measured(accounts: Accounts, copy: str, taken: list[Taken]) -> Mapping[str, float]:
    batches = []
    taken.append(accounts.world.meter.take(lambda: batches.extend(accounts.drain(copy))))
    steps: dict[str, float] = {}
    for batch in batches:
        for name, seconds in batch.steps.items():
            steps[name] = steps.get(name, 0.0) + seconds
    return {**steps, "all else": sum(b.duration_seconds for b in batches) - sum(steps.values())}


def _rates(name: str, accounts: Accounts, taken: Mapping[str, list[Taken]]) -> Figures:
    records = accounts.world.records(accounts.topic)
    rows, floors = [], [one.seconds for one in taken[FLOOR]]
    for what, each in taken.items():
        seconds = [one.seconds for one in each]
        rows.append(
            {
                "what": "drain into an empty table" if what == "drain" else what,
                **spread(seconds),
                "CPU s": round(median(one.cpu_seconds for one in each), 2),
                "events/s": round(records / median(seconds)),
                "× floor": round(
                    median(mine / floor for mine, floor in zip(seconds, floors, strict=True)), 2
                ),
                "goal": FLOOR_GOAL if what == "drain" else "",
            }
        )
    size = accounts.mean_bytes()
    note = f"{records:,} events of {size} bytes; CPU seconds are those of the Spark server"
    return Figures(f"Backlog of {name}, without schemas in the records", rows, [note])


def _steps(name: str, steps: list[Mapping[str, float]]) -> Figures:
    names = dict.fromkeys(step for each in steps for step in each)
    rows = [{"step": n, **spread([each.get(n, 0.0) for each in steps])} for n in names]
    return Figures(f"Steps of the drain of {name}", rows)


def _by_command(accounts: Accounts) -> Figures:
    """Once more as a user runs it: a process of its own, whose memory is looked at."""
    world = accounts.world
    argv = [sys.executable, "-m", "cdc_assets.cli", "replicate", "--until-caught-up"]
    instance = world.home / "instance"
    instance.mkdir()
    shutil.copy(CHECKOUT / "dagster.yaml", instance)
    env = {
        **os.environ,
        "CDC_ASSETS_CONFIG": str(accounts.config.path),
        "DAGSTER_HOME": str(instance),
    }
    world.say("the same backlog by `cdc-assets replicate`")
    started: list[psutil.Process] = []
    memory = MemoryPeaks(lambda: {**world.roles(), "run process": started})
    with (world.home / "replicate.log").open("wb") as out, memory.sampled():

        def run() -> None:
            process = subprocess.Popen(argv, env=env, stdout=out, stderr=subprocess.STDOUT)
            started.append(psutil.Process(process.pid))
            if process.wait(600):
                msg = f"cdc-assets replicate failed: {out.name}"
                raise RuntimeError(msg)

        taken = world.meter.take(run)
    note = f"all of it, from the start of the process to its end: {taken.seconds:.1f} s"
    return Figures("Peak memory, backlog by a run process", memory.rows(MEMORY_GOALS), [note])
