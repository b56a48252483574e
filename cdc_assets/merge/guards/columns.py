"""Records without a schema that have a column unknown to the plan, or lack one that it expects."""

from __future__ import annotations

from cdc_assets.merge.fold.passes import Pass
from cdc_assets.merge.guards.guard import Guard
from cdc_assets.merge.plan.outcome import Lacking, Wider


class UnplannedColumns(Guard):
    """Has the batch planned again, with the columns that its records have and lack."""

    case = Wider.case

    def judge(self, this: Pass) -> Pass | Wider | Lacking:
        """Returns `Wider` or `Lacking` if the columns of a record are not those of the plan."""
        figures = this.figures
        if figures.unknown_columns:
            return Wider(figures.unknown_columns)
        return Lacking(figures.absent_columns) if figures.absent_columns else this
