"""What a lake table holds of its source's changes."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """Settled when a table is made."""

    MIRROR = "mirror"  # the source's rows
    CHANGELOG = "changelog"  # each change, a row that nothing changes any more
    HISTORY = "history"  # each version of each row, and from when to when it was valid
