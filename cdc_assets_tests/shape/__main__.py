"""``python -m cdc_assets_tests.shape``: the structure's figures beside their goals.

Everything is read from the files; nothing of the package is imported or started.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cdc_assets_tests.shape.figures import Figure, Structure, measure

_CHECKOUT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; with ``--list`` also what was counted."""
    asked = argparse.ArgumentParser(prog="python -m cdc_assets_tests.shape", description=__doc__)
    asked.add_argument("--list", action="store_true", help="print what was counted")
    asked.add_argument("--project", type=Path, default=_CHECKOUT, help="folder of another checkout")
    given = asked.parse_args(arguments)
    structure = Structure.read(given.project)
    try:
        figures = list(measure(structure))
    except LookupError as error:
        print(f"error: {error.args[0]}: correct cdc_assets_tests/shape/goals.py", file=sys.stderr)
        return 1
    print("\n".join(table(figures)))
    for cut in structure.missing_cuts():
        print(f"warning: no module {cut}: correct the cuts in cdc_assets_tests/shape/goals.py")
    if given.list:
        print("\n".join(listed(figures)))
    return 0


def table(figures: Sequence[Figure]) -> list[str]:
    """Returns the figures as lines of a table."""
    rows = [("figure", "now", "goal"), *((e.name, e.now, e.goal) for e in figures)]
    first, second = (max(len(row[at]) for row in rows) for at in (0, 1))
    return [f"{a:<{first}}  {b:<{second}}  {c}".rstrip() for a, b, c in rows]


def listed(figures: Sequence[Figure]) -> list[str]:
    """Returns the lines of what was counted, figure by figure."""
    found = [each for each in figures if each.items]
    return [line for e in found for line in ("", f"{e.name}:", *(f"  {i}" for i in e.items))]


if __name__ == "__main__":
    sys.exit(main())
