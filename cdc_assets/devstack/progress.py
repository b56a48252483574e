"""Shows the progress of installing and starting in a terminal, with one line for each part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from cdc_assets.devstack.jars import JarProgress, OnProgress
from cdc_assets.devstack.part import PartState, PartStatus
from cdc_assets.devstack.part import Progress as OnPart


@contextmanager
def install_progress() -> Iterator[OnProgress]:
    """Shows a bar per part while its jars are resolved."""
    columns = (TextColumn("{task.description:15}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, TaskID] = {}

        def show(at: JarProgress) -> None:
            if at.part not in tasks:
                tasks[at.part] = bars.add_task(at.part, total=at.total)
            bars.update(tasks[at.part], completed=at.done)

        yield show


@contextmanager
def start_progress() -> Iterator[OnPart]:
    """Shows a line per part with its state and the time it took."""
    columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as lines:
        tasks: dict[str, TaskID] = {}

        def show(part: PartStatus) -> None:
            if part.name not in tasks:
                tasks[part.name] = lines.add_task(part.name, total=1)
            lines.update(
                tasks[part.name],
                description=f"{part.name:10}{part.state}",
                completed=int(part.state is PartState.READY),
            )

        yield show
