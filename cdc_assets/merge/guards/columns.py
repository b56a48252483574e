"""Records without a schema that have a column unknown to the plan, or lack one that it expects."""

from __future__ import annotations

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.merge.fold.context import Pass
from cdc_assets.merge.guards.guard import Guard
from cdc_assets.merge.plan.outcome import MissesColumns, NeedsColumns
from cdc_assets.merge.plan.result import UnknownColumn


class UnplannedColumns(Guard):
    """Has the batch planned again, with the columns that its records have and lack."""

    def judge(self, this: Pass) -> Pass | NeedsColumns | MissesColumns:
        """Returns `NeedsColumns` or `MissesColumns` if a record has other columns than the plan.

        Of the record that differs most from the table.
        """
        unlike = this.figures.signs.get("unlike")
        if unlike is None:
            return this
        at = Coordinate(this.plan.entry.topic, unlike["partition"], unlike["offset"])
        if unlike["unknown"]:
            return NeedsColumns(tuple(UnknownColumn(name, at) for name in unlike["unknown"]))
        return MissesColumns(tuple(unlike["absent"])) if unlike["absent"] else this
