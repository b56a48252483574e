"""Finds the formats that may be named: those that are installed, by their entry points."""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Final

GROUP: Final = "cdc_assets.formats"


def installed() -> tuple[str, ...]:
    """Returns the names of the installed formats, sorted; loads none of them."""
    return tuple(sorted(entry_points_of_formats().names))


def entry_points_of_formats() -> EntryPoints:
    """Returns the entry points of the installed formats; reads each package's list once."""
    return _entry_points(tuple(sys.path))


@cache
def _entry_points(_: tuple[str, ...]) -> EntryPoints:
    return entry_points(group=GROUP)
