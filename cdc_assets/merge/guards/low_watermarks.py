"""Complete snapshots among a batch's records, which lift changes above their rows (low watermarks).

Where one begins within the batch, the pass that finds its rows did not know that yet.
"""

from __future__ import annotations

from dataclasses import replace

from cdc_assets.changes.position import LowWatermarks
from cdc_assets.lake.carried import Carried
from cdc_assets.merge.fold.changeset import Knowledge
from cdc_assets.merge.fold.context import Pass
from cdc_assets.merge.guards.guard import Guard, Setting


class Snapshots(Guard):
    """Finds where complete snapshots begin, and carries that."""

    case = "a snapshot begins in the batch"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._low_watermarks: LowWatermarks = {}

    def learn(self, this: Pass, known: Knowledge) -> Knowledge:
        """Adds where a snapshot begins, if that decides on the position of a change."""
        if not this.may_rise:
            return known
        found = self._after(this)
        return known if found == known.low_watermarks else replace(known, low_watermarks=found)

    def settle(self, last: Pass) -> Pass:
        """Finds the low watermarks after the batch, unless they were learned."""
        self._low_watermarks = last.knowledge.low_watermarks if last.may_rise else self._after(last)
        return last

    def carry(self, carried: Carried, last: Pass) -> Carried:
        """Adds the low watermarks."""
        return replace(carried, snapshot_starts=self._low_watermarks)

    def _after(self, this: Pass) -> LowWatermarks:
        known = this.knowledge.low_watermarks
        if this.figures.max_read is None:
            return known
        is_known = this.figures.begun_at_start is not None
        with (self.means.steps.step if is_known else self.look)("look at snapshot"):
            return this.batch.changes.low_watermarks(known, this.figures)
