"""Shows the progress of installing and starting.

In a terminal each part has a line that changes; elsewhere, in a file or a pipe, each change is a
line of its own, written at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from cdc_assets_devstack.jars import JarProgress, OnProgress
from cdc_assets_devstack.part import PartState, PartStatus
from cdc_assets_devstack.part import Progress as OnPart


@contextmanager
def install_progress() -> Iterator[OnProgress]:
    """Shows a bar per part while its jars are resolved; elsewhere a line for each tenth."""
    console = Console(stderr=True)
    if not console.is_terminal:
        tenths: dict[str, int] = {}
        yield lambda at: _say_jars(console, tenths, at)
        return
    columns = (TextColumn("{task.description:15}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        tasks: dict[str, TaskID] = {}

        def show(at: JarProgress) -> None:
            if at.part not in tasks:
                tasks[at.part] = bars.add_task(at.part, total=at.total)
            bars.update(tasks[at.part], completed=at.done)

        yield show


@contextmanager
def start_progress() -> Iterator[OnPart]:
    """Shows a line per part with its state and the time it took; elsewhere a line per state."""
    console = Console(stderr=True)
    if not console.is_terminal:
        told: dict[str, PartState] = {}
        yield lambda part: _say_state(console, told, part)
        return
    columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"))
    with Progress(*columns, TimeElapsedColumn(), console=console) as lines:
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


def _say_jars(console: Console, tenths: dict[str, int], at: JarProgress) -> None:
    tenth = 10 * at.done // max(at.total, 1)
    if tenths.get(at.part) != tenth:
        tenths[at.part] = tenth
        console.print(Text(f"{at.part}: installing, {10 * tenth} %"), soft_wrap=True)


def _say_state(console: Console, told: dict[str, PartState], part: PartStatus) -> None:
    if told.get(part.name) is not part.state:
        told[part.name] = part.state
        console.print(Text(f"{part.name}: {part.state}"), soft_wrap=True)
