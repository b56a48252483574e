"""What a benchmark found: rows of named values, printed as a table and kept as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from cdc_assets.lake import figures as lake_figures

Row = Mapping[str, object]


def of_table(found: lake_figures.Figures) -> Row:
    """How much a lake table's history has grown."""
    return {
        "files": found.files,
        "deleted %": round(100 * found.marked_share, 1),
        "manifests": found.manifests,
        "snapshots": len(found.history.snapshots),
        "metadata KB": round(found.metadata_bytes / 1000),
    }


@dataclass(frozen=True)
class Figures:
    """One table. Rows may have different columns; the order is that of first appearance."""

    title: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()

    def show(self, console: Console) -> None:
        """Print it."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        table = Table(title=self.title, title_justify="left", title_style="bold")
        for name in names:
            is_text = all(isinstance(row.get(name, ""), str) for row in self.rows)
            table.add_column(name, justify="left" if is_text else "right", overflow="fold")
        for row in self.rows:
            table.add_row(*(_shown(row.get(name, "")) for name in names))
        console.print(table)
        for note in self.notes:
            console.print(f"[dim]{note}[/]", highlight=False)
        console.print()


@dataclass
class Report:
    """All of one run."""

    about: Mapping[str, object]
    console: Console
    found: dict[str, list[Figures]] = field(default_factory=dict)

    def add(self, section: str, figures: Iterable[Figures]) -> None:
        """Print and keep."""
        for each in figures:
            each.show(self.console)
            self.found.setdefault(section, []).append(each)

    def write(self, file: Path) -> None:
        """As JSON, for programs."""
        sections = {
            name: [{"title": f.title, "rows": list(f.rows), "notes": list(f.notes)} for f in found]
            for name, found in self.found.items()
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({**self.about, "sections": sections}, indent=1))


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Median, lowest and highest of repeated measurements."""
    return {
        "median s": round(median(seconds), 3),
        "min s": round(min(seconds), 3),
        "max s": round(max(seconds), 3),
    }


def _shown(value: object) -> str:
    match value:
        case bool() | str():
            return str(value)
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"
        case _:
            return "" if value is None else str(value)
