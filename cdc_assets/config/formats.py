"""Which formats may be named: those that are installed, by their entry points."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

GROUP: Final = "cdc_assets.formats"


def installed() -> tuple[str, ...]:
    """The names of the installed formats, sorted; none of them is loaded."""
    return tuple(sorted({each.name for each in entry_points(group=GROUP)}))
