"""Records with a schema that the plan does not know, as a batch's first try samples some only."""

from __future__ import annotations

from cdc_assets.merge.fold.context import Pass
from cdc_assets.merge.guards.guard import Guard
from cdc_assets.merge.plan.outcome import NeedsSchemas


class UnknownSchemas(Guard):
    """Has the batch planned again, with all schemas of its records."""

    def judge(self, this: Pass) -> Pass | NeedsSchemas:
        """Returns `NeedsSchemas` if a record has a schema that the plan does not know."""
        return NeedsSchemas() if this.figures.signs["unwritten"] else this
