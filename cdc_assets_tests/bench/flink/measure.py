"""Has Flink write the log events of `drain` into an Iceberg table, and then this project.

Flink's job is as simple as it can be: it keeps the rows as they come, by Iceberg's upsert sink.
It folds nothing, and looks at no position, delete or schema. Each update becomes an equality
delete, which is cheap to write: what it costs readers is not measured here.

The section is measured only if it is named: Flink is 300 MB, put below ``.cdc/bench`` once. A JDK
is needed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from cdc_assets_devstack import ivy
from cdc_assets_devstack.java import find_java, pyspark_jars

from cdc_assets_tests.bench.backlog import FLOOR, Stages, consume
from cdc_assets_tests.bench.figures import Figures, spread
from cdc_assets_tests.bench.log_events import prepare_log_events
from cdc_assets_tests.bench.meter import Taken
from cdc_assets_tests.bench.world import FOLDER, World

VERSION: Final = "2.1.3"
GOAL: Final = "≤ 0.75"
_HERE: Final = Path(__file__).parent
_OPENED: Final = ("lang", "lang.invoke", "lang.reflect", "net", "nio", "time", "util")
_CONFIGURATION: Final = """
execution: {target: local, checkpointing: {interval: 30 s}}
parallelism: {default: 2}
taskmanager: {numberOfTaskSlots: 2}
rest: {bind-address: 127.0.0.1, address: 127.0.0.1, bind-port: 28000-28999}
"""
_LOGGING: Final = "rootLogger.level = OFF\n"


def measure(world: World) -> Iterator[Figures]:
    """Flink's turns, and beside them the floor and the drain."""
    accounts = prepare_log_events(world)
    accounts.warm_up()
    events = world.records(accounts.topic)
    taken: dict[str, list[Taken]] = {"Flink": [], FLOOR: [], "drain into an empty table": []}
    world.say(f"Flink {VERSION} writes {events:,} events, {world.scale.repeats + 1} times")
    _, *taken["Flink"] = _turns(world, accounts.topic, world.scale.repeats + 1)
    require_rows(world, world.scale.rows)
    floor = Stages(accounts).all[FLOOR]
    for number in range(world.scale.repeats):
        world.say(f"this project, repetition {number + 1} of {world.scale.repeats}")
        taken[FLOOR].append(world.meter.take(lambda: consume(floor())))
        copy = f"beside_flink_{number}"
        taken["drain into an empty table"].append(
            world.meter.take(lambda copy=copy: accounts.drain(copy))
        )
    flink = median(each.seconds for each in taken["Flink"])
    yield Figures(
        "Backlog of log events, beside Flink",
        [
            {
                "what": what,
                **spread([one.seconds for one in each]),
                "CPU s": round(median(one.cpu_seconds for one in each), 2),
                "events/s": round(events / median(one.seconds for one in each)),
                "× Flink": round(median(one.seconds for one in each) / flink, 2),
                "goal": GOAL if what.startswith("drain") else "",
            }
            for what, each in taken.items()
        ],
        [f"{events:,} events; Flink's first turn, in which its code is compiled, is left out"],
    )


def _turns(world: World, topic: str, count: int) -> list[Taken]:
    folder = world.home / "flink"
    folder.mkdir()
    said = {
        "WAREHOUSE": (folder / "warehouse").as_uri(),
        "TOPIC": topic,
        "SERVERS": world.stack.kafka.address,
    }
    statements = (_HERE / "job.sql").read_text()
    for name, value in said.items():
        statements = statements.replace(f"${name}", value)
    files = {"job.sql": statements, "config.yaml": _CONFIGURATION, "log4j.properties": _LOGGING}
    for name, text in files.items():
        (folder / name).write_text(text)
    done = subprocess.run(
        [
            str(find_java().program),
            "-Xmx2g",
            *(f"--add-opens=java.base/java.{each}=ALL-UNNAMED" for each in _OPENED),
            f"-Dlog4j.configurationFile={folder / 'log4j.properties'}",
            "-cp",
            os.pathsep.join(_class_path()),
            str(_HERE / "Job.java"),
            str(folder),
            str(folder / "job.sql"),
            str(count),
        ],
        env={**os.environ, "FLINK_CONF_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    turns = [line.split() for line in done.stdout.splitlines() if line.startswith("turn ")]
    if done.returncode or len(turns) != count:
        msg = f"Flink failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        raise RuntimeError(msg)
    return [Taken(float(seconds), float(cpu)) for _, seconds, cpu in turns]


def require_rows(world: World, rows: int) -> None:
    """Requires that Flink's first table has so many rows, its deletes applied."""
    table = world.home / "flink" / "warehouse" / "flink" / "turn_0"
    found = world.session.read.format("iceberg").load(table.as_uri()).count()
    if found != rows:
        msg = f"Flink's table has {found:,} rows instead of {rows:,}"
        raise RuntimeError(msg)


def _class_path() -> Iterator[str]:
    flink, jars = FOLDER / f"flink-{VERSION}", FOLDER / "flink-jars"
    if not flink.exists():
        _install(flink)
    if not jars.exists():
        ivy.retrieve(_HERE / "jars.xml", jars, FOLDER / "ivy")
    yield f"{flink / 'pyflink' / 'lib'}/*"
    yield f"{jars}/*"
    yield from map(str, Path(pyspark_jars()).glob("hadoop-client-*.jar"))
    yield from map(str, Path(pyspark_jars()).glob("commons-logging*.jar"))


def _install(into: Path) -> None:
    """Puts Flink's distribution into a folder, by the uv that this project was installed with."""
    uv = Path(sys.prefix).parent / ".uv" / "bin" / "uv"
    subprocess.run(
        [
            str(uv), "pip", "install", "--quiet", "--no-deps", "--python", sys.executable,
            "--target", str(into), f"apache-flink-libraries=={VERSION}",
        ],
        check=True,
    )  # fmt: skip
