"""`cdc-assets status` for people."""

from __future__ import annotations

import sys
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cdc_assets.operate.status import Status, TableStatus, finite
from cdc_assets.operate.survey import Condition

_STYLES: Final = {
    Condition.NEW: "cyan",
    Condition.CURRENT: "green",
    Condition.LAGGING: "yellow",
    Condition.FAILING: "bold red",
    Condition.UNKNOWN: "magenta",
}

PIPE_WIDTH: Final = 200

_COLUMNS: Final = ("lake table", "offsets", "behind", "by", "in time", "p95")


def render_status(status: Status, console: Console | None = None) -> None:
    """Print a table, and below it what fails."""
    out = console or _console()
    if not status.tables:
        out.print("No tables yet: no topic matched so far, or `discover` has not run.")
        return
    out.print(_table(status))
    for each in status.failing:
        out.print(_failure(each))


def _console() -> Console:
    """As wide as the terminal; wide enough for a line per table where there is none."""
    return Console() if sys.stdout.isatty() else Console(width=PIPE_WIDTH)


def _table(status: Status) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("table", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name in {"lake table", "offsets"} else "right")
    for each in status.tables:
        state = Text(each.condition.value, style=_STYLES[each.condition])
        table.add_row(Text(str(each.table)), state, *map(Text, _cells(each)))
    return table


def _cells(each: TableStatus) -> tuple[str, ...]:
    return (
        str(each.survey.entry.target),
        _offsets(each),
        _changes(each.survey.lag_changes),
        seconds_text(each.survey.lag_seconds(each.at)),
        _in_time(each),
        seconds_text(finite(each.slo.p95) if each.slo else None),
    )


def _failure(each: TableStatus) -> Text:
    failure = each.survey.failure
    if failure is None:
        return Text()
    when = (
        f"{failure.kind} since {failure.attempts} attempts, again at {failure.retry_at:%H:%M:%S}Z"
    )
    return Text.assemble((f"{each.table} ", "bold red"), f"({when}): {failure.message}")


def _offsets(each: TableStatus) -> str:
    vector = each.survey.committed
    if len(vector.offsets) > 4:
        return f"{sum(offset for _, offset in vector):,} in {len(vector.offsets)} partitions"
    return " ".join(f"{partition}:{offset}" for partition, offset in vector) or "-"


def _changes(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def _in_time(each: TableStatus) -> str:
    if each.slo is None:
        return "?"
    if not each.slo.changes:
        return "-"
    return f"{each.slo.percent_within:.2f} % ({each.slo.state.value})"


def seconds_text(seconds: float | None) -> str:
    """``0.4 s``, ``12 s``, ``3 min``, ``5.2 h``; ``-`` if unknown."""
    if seconds is None:
        return "-"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
