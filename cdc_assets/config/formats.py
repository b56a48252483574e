"""Finds the formats that may be named: those that are installed, by their entry points."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

GROUP: Final = "cdc_assets.formats"


def installed() -> tuple[str, ...]:
    """Returns the names of the installed formats, sorted; loads none of them."""
    return tuple(sorted({each.name for each in entry_points(group=GROUP)}))
