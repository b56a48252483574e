"""Records of other tables in a topic that was read as one table's own.

The next try tells the topic's tables apart, and reads the table's own records only.
"""

from __future__ import annotations

from cdc_assets.merge.fold.context import Pass, PlannedBatch
from cdc_assets.merge.guards.guard import Guard
from cdc_assets.merge.plan.outcome import NeedsAllSchemas
from cdc_assets.registry import Taken


class OtherTables(Guard):
    """Has the batch planned again, once a record names another table."""

    def judge(self, this: Pass) -> Pass | NeedsAllSchemas:
        """Returns `NeedsAllSchemas` if a record names another table, and is read as if none did."""
        return (
            NeedsAllSchemas()
            if this.figures.signs["has_strays"] and _takes_all(this.batch)
            else this
        )


def _takes_all(batch: PlannedBatch) -> bool:
    """Returns whether records may name another table, and are read as if none did."""
    entry = batch.plan.entry
    return (
        batch.decoder.format.names_tables and entry.taken is not Taken.ALL and not entry.is_shared
    )
