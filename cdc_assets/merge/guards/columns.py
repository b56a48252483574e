"""Records without a schema that have a column unknown to the plan, or lack one that it expects."""

from __future__ import annotations

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.merge.fold.context import Pass
from cdc_assets.merge.guards.guard import Guard
from cdc_assets.merge.plan.outcome import Lacking, Wider
from cdc_assets.merge.plan.result import UnknownColumn


class UnplannedColumns(Guard):
    """Has the batch planned again, with the columns that its records have and lack."""

    def judge(self, this: Pass) -> Pass | Wider | Lacking:
        """Returns `Wider` or `Lacking` if the columns of a record are not those of the plan.

        Of the record that differs most from the table.
        """
        unlike = this.figures.signs.get("unlike")
        if unlike is None:
            return this
        at = Coordinate(this.plan.entry.topic, unlike["partition"], unlike["offset"])
        if unlike["unknown"]:
            return Wider(tuple(UnknownColumn(name, at) for name in unlike["unknown"]))
        return Lacking(tuple(unlike["absent"])) if unlike["absent"] else this
