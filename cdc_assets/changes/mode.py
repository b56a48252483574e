"""The modes of a lake table: the form in which it stores its source's changes."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """A lake table's mode, fixed when the table is created."""

    MIRROR = "mirror"  # the source's rows
    CHANGELOG = "changelog"  # one row per change, never modified afterwards
    HISTORY = "history"  # each version of each row, with the times between which it was valid
