"""What it costs to compare a table that is equal, beside reading all of it from its source."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median

import psutil
import psycopg
from psycopg.conninfo import make_conninfo

from cdc_assets.merge.attempt import Attempts, Connections
from cdc_assets.merge.verifying.report import ComparisonReport
from cdc_assets.merge.verifying.verification import Verification
from cdc_assets.operate.services import utc_now
from cdc_assets_tests.bench.accounts import SOURCE, TABLE, Accounts, prepare_accounts
from cdc_assets_tests.bench.figures import Figures
from cdc_assets_tests.bench.relay import Left, relayed
from cdc_assets_tests.bench.world import World

COPY = "compared"
GOAL = "≤ 5 %"
MEASURED = (
    ("MB from the source", "left_bytes", 1e6),
    ("rows from the source", "left_rows", 1),
    ("CPU s of the source", "source_cpu", 1),
    ("CPU s of the Spark server", "spark_cpu", 1),
    ("CPU s of this process", "own_cpu", 1),
    ("s", "seconds", 1),
)


@dataclass(frozen=True)
class Cost:
    """Of one way to look at a table."""

    seconds: float
    left_bytes: int
    left_rows: int
    source_cpu: float
    spark_cpu: float
    own_cpu: float


def measure(world: World) -> Iterator[Figures]:
    """A full read, and a comparison of what is equal."""
    accounts = prepare_accounts(world)
    world.say("merging the table that is compared")
    accounts.drain(COPY)
    host, port = world.stack.postgres.address.split(":")
    with relayed(host, int(port)) as (relay, left):
        os.environ[f"{SOURCE.upper()}_DSN"] = make_conninfo(world.dsn(SOURCE), port=relay)
        try:
            yield from _measured(world, accounts, left)
        finally:
            os.environ[f"{SOURCE.upper()}_DSN"] = world.dsn(SOURCE)


def _measured(world: World, accounts: Accounts, left: Left) -> Iterator[Figures]:
    dsn = os.environ[f"{SOURCE.upper()}_DSN"]
    reports: list[ComparisonReport] = []

    def compare() -> None:
        connections = Connections.of(accounts.config)
        attempts = Attempts(accounts.config, connections, lambda: world.session, utc_now)
        reports.append(Verification(attempts, "bench").of(accounts.entry(COPY)))

    ways: Mapping[str, Callable[[], object]] = {
        "full read": lambda: _read(dsn),
        "compare, equal": compare,
    }
    found: dict[str, list[Cost]] = {name: [] for name in ways}
    for name, way in ways.items():  # warms up
        world.say(f"warming up: {name}")
        way()
    for number in range(world.scale.repeats):
        world.say(f"repetition {number + 1} of {world.scale.repeats}")
        for name, way in ways.items():
            found[name].append(_cost(world, left, way))
    if not all(each.is_proven for each in reports):
        msg = f"not equal: {reports[-1].words(keys=False)}"
        raise RuntimeError(msg)
    yield _figures(world, found)
    yield _steps(reports)


def _read(dsn: str) -> None:
    """All rows, as a comparison row by row would have to."""
    with psycopg.connect(dsn) as connection, connection.cursor("full") as cursor:
        cursor.itersize = 10_000
        cursor.execute(f"SELECT * FROM {TABLE}".encode())
        for _ in cursor:
            pass


def _cost(world: World, left: Left, way: Callable[[], object]) -> Cost:
    source, own = _source_cpu(world), psutil.Process().cpu_times()
    before, began = (left.bytes, left.rows), time.perf_counter()
    taken = world.meter.take(way)
    seconds = time.perf_counter() - began
    after = psutil.Process().cpu_times()
    return Cost(
        seconds, left.bytes - before[0], left.rows - before[1], _source_cpu(world) - source,
        taken.cpu_seconds, after.user + after.system - own.user - own.system,
    )  # fmt: skip


def _source_cpu(world: World) -> float:
    """Of PostgreSQL's processes, those that have ended included."""
    pid = world.stack.status()["postgres"].pid
    first = psutil.Process(pid)
    ended = first.cpu_times()
    total = ended.user + ended.system + ended.children_user + ended.children_system
    for each in first.children(recursive=True):
        times = each.cpu_times()
        total += times.user + times.system
    return total


def _figures(world: World, found: Mapping[str, list[Cost]]) -> Figures:
    whole, compared = found["full read"], found["compare, equal"]
    rows = [
        {
            "what": what,
            "full read": round(_of(whole, name) / scale, 3),
            "compare, equal": round(_of(compared, name) / scale, 3),
            "share": _share(compared, whole, name),
            "goal": GOAL if name in {"left_bytes", "left_rows"} else "",
        }
        for what, name, scale in MEASURED
    ]
    note = "its own CPU includes the relay that counts what leaves the source"
    return Figures(f"Comparing {world.scale.rows:,} rows with their source", rows, [note])


def _steps(reports: list[ComparisonReport]) -> Figures:
    rows = [{"step": name, "s": round(s, 3)} for name, s in reports[-1].seconds.items()]
    return Figures("Steps of the last comparison of equal tables", rows)


def _of(costs: list[Cost], name: str) -> float:
    return round(median(getattr(each, name) for each in costs), 3)


def _share(costs: list[Cost], base: list[Cost], name: str) -> str:
    whole = _of(base, name)
    return f"{_of(costs, name) / whole:.2%}" if whole else ""
