"""Reports on reading a table again: counts and names of columns, never a value of a row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc_assets.changes.names import TableName
from cdc_assets.merge.resnapshot.comparing import State
from cdc_assets.merge.resnapshot.progress import Progress
from cdc_assets.schema.comparing import Uncompared


@dataclass(frozen=True, slots=True)
class Report:
    """The report on one table.

    Attributes:
        table: which.
        progress: what its waves have found and done.
        looked_at: doubtful keys that were put right one by one.
        left: keys of which nothing was proven: they changed each time, or are too many.
        unable: rows that could not be put.
        left_out: columns that are not read.
        seconds: by step.
    """

    table: TableName
    progress: Progress
    looked_at: int = 0
    left: int = 0
    unable: int = 0
    left_out: tuple[Uncompared, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def is_whole(self) -> bool:
        """Whether each row is now what the source has."""
        return not (self.left or self.unable)

    @property
    def removed(self) -> int:
        """Rows that the source no longer had."""
        return self.progress.counts.get(State.VANISHED, 0)

    def words(self) -> Iterator[str]:
        """Tells it to people, most important first."""
        done, counts = self.progress, self.progress.counts
        yield (
            f"{done.rows:,} rows read in {done.waves} waves: {done.put:,} keys put right, "
            f"{self.removed:,} of them removed; {counts.get(State.EQUAL, 0):,} were equal, "
            f"{counts.get(State.NEWER, 0):,} had newer changes"
        )
        if self.looked_at:
            yield f"{self.looked_at:,} keys that changed meanwhile were put right one by one"
        if self.left:
            yield (
                f"{self.left:,} keys changed each time that they were looked at, and a column that "
                "no change has set may be as it was: run it again when they rest"
            )
        if self.unable:
            yield (
                f"{self.unable:,} rows could not be put: the lake cannot hold a value of them, or "
                "they are missing there and the table has columns that are not read"
            )
        for each in self.left_out:
            yield f"column {each.name} was not read: {each.why}"

    def to_dict(self) -> dict[str, Any]:
        """Returns it for machines."""
        done = self.progress
        return {
            "table": str(self.table),
            "via": "read",
            "whole": self.is_whole,
            "rows": done.rows,
            "waves": done.waves,
            "put_right": done.put + self.looked_at,
            "removed": self.removed,
            "keys": {each.value: done.counts.get(each, 0) for each in State},
            "left": self.left,
            "not_put": self.unable,
            "columns_not_read": {each.name: each.why for each in self.left_out},
            "seconds": {name: round(spent, 3) for name, spent in self.seconds.items()},
        }

    def to_json(self) -> str:
        """Returns the report as a JSON document."""
        return json.dumps(self.to_dict())
