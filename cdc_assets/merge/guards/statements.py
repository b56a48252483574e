"""Statements on the table among its records: the plan has to know their effects."""

from __future__ import annotations

from cdc_assets.formats.spec import STATEMENT
from cdc_assets.merge.fold.context import Pass
from cdc_assets.merge.guards.guard import Guard
from cdc_assets.merge.intake.ddl_records import statements_among
from cdc_assets.merge.plan.outcome import NeedsDdl


class DdlStatements(Guard):
    """Has the batch planned again, with the statements that are among its records."""

    def judge(self, this: Pass) -> Pass | NeedsDdl:
        """Returns `NeedsDdl` if there are statements that the plan does not know."""
        if not this.figures.signs["by_op"].get(STATEMENT) or this.plan.statements_known:
            return this
        with self.means.steps.step("look for statements"):
            return NeedsDdl(statements_among(this.batch.decoder, this.knowledge.low_watermarks))
