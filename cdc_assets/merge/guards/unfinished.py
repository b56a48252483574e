"""Detects transactions, and redeliveries, whose rest may follow the end of the batch."""

from __future__ import annotations

from cdc_assets.merge.fold.context import Pass
from cdc_assets.merge.guards.guard import Guard


class UnfinishedTransactions(Guard):
    """Makes a batch wait whose newest changes may be of a transaction that continues after it."""

    def settle(self, last: Pass) -> Pass:
        """Checks for redelivery, if more than a tombstone follows a partition's newest change.

        Where a condition chooses rows, a delete may be an update, which no tombstone follows.

        Raises:
            CutShortError, UnfinishedError: see `Setting.require_whole`.
        """
        ends = {each.partition: each.end for each in last.plan.ranges}
        newest, tombstone = last.folded.newest.items(), last.plan.condition is None
        if any(
            offset + 1 + (is_delete and tombstone) < ends[p] for p, (offset, is_delete) in newest
        ):
            with self.means.steps.step("look at transactions"):
                self.setting.require_whole({p: offset for p, (offset, _) in newest})
        return last
