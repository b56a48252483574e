"""Reports on a snapshot that a signal has asked for: counts, never a value of a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc_assets.changes.names import TableName


@dataclass(frozen=True, slots=True)
class SignalReport:
    """The report on one table.

    Attributes:
        table: which.
        rows: that the connector has read of it.
        is_joined: it was under way already.
        unshown: rows of the lake that the snapshot has not shown; ``partial`` those of which large
            values were not; None if they were not looked for.
        put: of these that were put right, or removed; ``removed`` that the source does not have.
        left: of these of which nothing was proven.
        why: rows were left, or not looked for; empty if none were.
        seconds: by step.
    """

    table: TableName
    rows: int
    is_joined: bool = False
    unshown: int | None = None
    partial: int = 0
    put: int = 0
    removed: int = 0
    left: int = 0
    why: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def is_whole(self) -> bool:
        """Whether each row is now what the source has."""
        return self.unshown is not None and not self.left

    def words(self) -> Iterator[str]:
        """Tells it to people, most important first."""
        begun = "a snapshot that was under way" if self.is_joined else "the snapshot"
        yield f"{begun} is complete, and merged: {self.rows:,} rows read by the connector"
        if self.unshown is None:
            yield f"rows that vanished from the source were not looked for: {self.why}"
            return
        if not (self.unshown or self.partial):
            yield "each row of the lake was shown by it"
            return
        yield (
            f"{self.unshown + self.partial:,} rows of the lake were not wholly shown by it: "
            f"{self.put:,} put right, {self.removed:,} of them removed"
        )
        if self.left:
            yield f"{self.left:,} of them are as they were: {self.why}"

    def to_dict(self) -> dict[str, Any]:
        """Returns it for machines."""
        return {
            "table": str(self.table),
            "via": "signal",
            "whole": self.is_whole,
            "rows": self.rows,
            "joined": self.is_joined,
            "not_shown": self.unshown,
            "partly_shown": self.partial,
            "put_right": self.put,
            "removed": self.removed,
            "left": self.left,
            "why": self.why,
            "seconds": {name: round(spent, 3) for name, spent in self.seconds.items()},
        }
