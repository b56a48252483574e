"""``python -m cdc_assets_tests.bench [SECTION]…``; see `SECTIONS`; all but `LONG` by default.

The environment sets the scale: see `cdc_assets_tests.bench.scale`.
"""

from __future__ import annotations

import os
import platform
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from types import FrameType

import click
import psutil
from rich.console import Console

from cdc_assets_tests.bench import (
    backlog,
    copies,
    cuts,
    first_read,
    formats,
    hours,
    idle,
    latency,
    months,
    partitions,
    requests,
    sizes,
    tables,
    updates,
    verify,
)
from cdc_assets_tests.bench.figures import Figures, Report
from cdc_assets_tests.bench.flink import measure as flink
from cdc_assets_tests.bench.scale import Scale
from cdc_assets_tests.bench.world import FOLDER, World, running_world

SECTIONS: Mapping[str, Callable[[World], Iterator[Figures]]] = {
    "drain": backlog.measure,
    "initial": first_read.measure,
    "formats": formats.measure,
    "updates": updates.measure,
    "sizes": sizes.measure,
    "copies": copies.measure,
    "cuts": cuts.measure,
    "tables": tables.measure,
    "months": months.measure,
    "partitions": partitions.measure,
    "verify": verify.measure,
    "idle": idle.measure,
    "requests": requests.measure,
    "latency": latency.measure,
    "hours": hours.measure,
    "flink": flink.measure,
}
LONG = frozenset({"hours", "flink"})
"""Only if they are named."""


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(SECTIONS)), metavar="[SECTION]...")
def main(names: Sequence[str]) -> None:
    """Measure on a stack of its own; print figures and keep them under .cdc/bench."""
    signal.signal(signal.SIGTERM, _leave)
    scale, console = Scale.of_environment(), Console()
    at = datetime.now(UTC)
    report = Report({"at": at.isoformat(), "scale": asdict(scale), **_machine()}, console)
    file = FOLDER / f"{at:%Y%m%dT%H%M%SZ}.json"
    with running_world(scale, console) as world:
        for name, measure in SECTIONS.items():
            if name in names or (not names and name not in LONG):
                console.rule(name)
                for figures in measure(world):
                    report.add(name, [figures])
                    report.write(file)
    console.print(f"figures: {file}", highlight=False, soft_wrap=True)


def _machine() -> dict[str, object]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "load average before": psutil.getloadavg()[0],
        "memory GiB": round(psutil.virtual_memory().total / 2**30, 1),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "pyspark": version("pyspark"),
    }


def _leave(_number: int, _frame: FrameType | None) -> None:
    """Unwind, so that everything that was started is stopped."""
    sys.exit("interrupted by SIGTERM")


if __name__ == "__main__":
    main()
