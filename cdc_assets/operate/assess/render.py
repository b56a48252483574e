"""Prints an assessment for people."""

from __future__ import annotations

import sys
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cdc_assets.operate.assess.finding import Assessment, Subject, Verdict
from cdc_assets.reference import finding_page

_STYLES: Final = {Verdict.YES: "green", Verdict.PARTIAL: "yellow", Verdict.NO: "bold red"}
_PIPE_WIDTH: Final = 200


def render(found: Assessment, console: Console | None = None) -> None:
    """Prints a line per source, table and column, with the findings; then their pages."""
    out = console or (Console() if sys.stdout.isatty() else Console(width=_PIPE_WIDTH))
    if not found.sources:
        out.print("No source is configured.")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("where", "exact", "problem", "impact", "what to do"):
        table.add_column(name, overflow="fold", no_wrap=name == "exact")
    for at, verdict in found.lines():
        mine = [each for each in found.findings if each.at == at]
        if not mine:
            table.add_row(_where(at), Text(verdict.value, style=_STYLES[verdict]))
        for number, each in enumerate(mine):
            cells = (each.problem, f"{each.impact} ({each.name})", each.remedy)
            where = _where(at) if not number else Text()
            said = Text(each.verdict.value, style=_STYLES[each.verdict])
            table.add_row(where, said, *map(Text, cells))
    out.print(table)
    for name in dict.fromkeys(each.name for each in found.findings):
        out.print(Text(f"{name}: {finding_page(name)}"), soft_wrap=True)
    for note in found.notes:
        out.print(Text(f"not judged: {note}", style="dim"))


def _where(at: Subject) -> Text:
    indent = {"source": "", "table": "  ", "column": "    "}[at.scope]
    return Text(f"{indent}{at.column or at}", style="bold" if at.scope == "source" else "")
