"""Hours under load: whether memory and CPU stay what they are, with the real daemon.

``make soak HOURS=2`` runs this alone. Slopes are printed, not judged. What is judged is that the
tables equal their source at the end.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import psutil

from cdc_assets.lake import Lake
from cdc_assets.merge.attempt import Attempts, Connections
from cdc_assets.merge.plan.plan import OWN_BRANCH
from cdc_assets.merge.verifying.verification import Verification
from cdc_assets.operate.services import utc_now
from cdc_assets_tests.bench.figures import Figures, of_table
from cdc_assets_tests.bench.latency import (
    Live,
    configured,
    daemon,
    dagster_roles,
    load,
    prepare,
)
from cdc_assets_tests.bench.meter import Roles
from cdc_assets_tests.bench.world import World

SAMPLE_SECONDS: Final = 30.0
SAID_EVERY: Final = 20
"""Samples: a run that is stopped before its end has shown something."""
SLICES: Final = 8
RUNS: Final = "run process"
"""These come and go: of their memory only the peak of one says something."""
SHOWN: Final = ("Spark server", RUNS, "Kafka", "Connect")


def measure(world: World) -> Iterator[Figures]:
    """Samples, then slopes over all of them but the first eighth."""
    prepare(world)
    config = configured(world)
    with daemon(world, config) as dagster:
        live = Live(world, config, dagster)
        live.wait_until_filled()
        with load(world):
            live.warm_up()
            samples = Samples(lambda: {**world.roles(), **dagster_roles(dagster)}, live, world.say)
            world.say(f"sampling for {world.scale.hours:g} hours")
            samples.take(world.scale.hours * 3600)
        yield from samples.figures()
        live.wait_until_filled()
        yield _tables(world, live)


@dataclass(frozen=True)
class Sample:
    """One look.

    Attributes:
        at: monotonic seconds.
        changes: in the topics, up to then.
        memory: bytes by role: of all its processes, of a role that comes and goes of the largest.
        cpu: seconds by role, of processes that have ended too.
    """

    at: float
    changes: int
    memory: Mapping[str, int]
    cpu: Mapping[str, float]


@dataclass
class Samples:
    """What was seen."""

    roles: Roles
    live: Live
    say: Callable[[str], None]
    taken: list[Sample] = field(default_factory=list[Sample])
    _spent: dict[tuple[str, int, float], float] = field(
        default_factory=dict[tuple[str, int, float], float]
    )

    def take(self, seconds: float) -> None:
        """Look now and then, for so long, and say at times what is seen."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self.taken.append(self._sample())
            if len(self.taken) % SAID_EVERY == 1:
                self._say_last()
            time.sleep(SAMPLE_SECONDS)  # the distance of samples, not a wait for anything

    def _say_last(self) -> None:
        first, last = self.taken[0], self.taken[-1]
        sizes = [f"{role} {size / 2**20:.0f}" for role, size in last.memory.items()]
        spent = sum(last.cpu.values()) - sum(first.cpu.values())
        minutes = (last.at - first.at) / 60
        busy = f"{spent:.0f} CPU s, {last.changes - first.changes} changes"
        self.say(f"after {minutes:.0f} min: {busy}; MiB: {', '.join(sizes)}")

    def _sample(self) -> Sample:
        memory = dict[str, int]()
        for role, processes in self.roles().items():
            sizes = [self._look(role, each) for each in processes]
            memory[role] = max(sizes, default=0) if role == RUNS else sum(sizes)
        cpu = dict[str, float]()
        for (role, _, _), seconds in self._spent.items():
            cpu[role] = cpu.get(role, 0.0) + seconds
        return Sample(time.monotonic(), self.live.records(), memory, cpu)

    def _look(self, role: str, process: psutil.Process) -> int:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            self._spent[role, process.pid, process.create_time()] = times.user + times.system
            return process.memory_info().rss
        return 0

    def figures(self) -> Iterator[Figures]:
        """By role; then CPU per change, by time."""
        kept = self.taken[len(self.taken) // 8 :]
        roles = sorted({role for each in kept for role in each.memory})
        yield Figures("Memory under load", [_memory(role, kept) for role in roles])
        size = max(1, (len(self.taken) - 1) // SLICES)
        parts = [self.taken[n : n + size + 1] for n in range(0, len(self.taken) - 1, size)]
        yield Figures("CPU under load", [_cpu(part) for part in parts if len(part) > size // 2])


def _tables(world: World, live: Live) -> Figures:
    """The size of each table's history, once it is known to equal its source.

    Raises:
        RuntimeError: a table does not.
    """
    lake, rows = Lake(live.config), list[dict[str, object]]()
    verification = Verification(
        Attempts(live.config, Connections.of(live.config), lambda: world.session, utc_now), "bench"
    )
    for entry in live.entries:
        report = verification.of(entry)
        found = lake.figures(entry.target, OWN_BRANCH)
        if found is None or not report.is_proven:
            msg = f"{entry.table}: {report.words(keys=False)}"
            raise RuntimeError(msg)
        rows.append({"table": entry.table.name, "rows, all equal": report.rows, **of_table(found)})
    return Figures("Tables after it, compared with their source", rows)


def _memory(role: str, samples: Sequence[Sample]) -> dict[str, object]:
    points = [
        (each.at / 3600, each.memory[role] / 2**20) for each in samples if role in each.memory
    ]
    quarter = max(1, len(points) // 4)
    return {
        "process": role,
        "first quarter MiB": round(_mean([y for _, y in points[:quarter]])),
        "last quarter MiB": round(_mean([y for _, y in points[-quarter:]])),
        "peak MiB": round(max(y for _, y in points)),
        "slope MiB/h": round(_slope(points), 1),
        "of the second half": round(_slope(points[len(points) // 2 :]), 1),
    }


def _cpu(samples: Sequence[Sample]) -> dict[str, object]:
    first, last = samples[0], samples[-1]
    changes = max(1, last.changes - first.changes)
    seconds = last.at - first.at
    spent = {role: last.cpu[role] - first.cpu.get(role, 0.0) for role in last.cpu}
    return {
        "minutes": round(seconds / 60, 1),
        "changes/s": round(changes / seconds),
        "busy cores": round(sum(spent.values()) / seconds, 2),
        "CPU ms a change": round(1000 * sum(spent.values()) / changes, 2),
        **{role: round(1000 * spent.get(role, 0.0) / changes, 2) for role in SHOWN},
        "others": round(1000 * sum(spent[each] for each in spent.keys() - set(SHOWN)) / changes, 2),
    }


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the line with the least squares."""
    x, y = _mean([p[0] for p in points]), _mean([p[1] for p in points])
    over = sum((a - x) * (b - y) for a, b in points)
    return over / (sum((a - x) ** 2 for a, _ in points) or 1.0)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
