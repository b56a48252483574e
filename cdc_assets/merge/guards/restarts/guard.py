"""The guard of a source whose positions went back."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace

from pyspark.sql import DataFrame

from cdc_assets.formats.order import Epochs
from cdc_assets.lake.carried import Carried
from cdc_assets.merge.fold.context import Pass, PlannedBatch
from cdc_assets.merge.guards.guard import Guard, Refold, Setting
from cdc_assets.merge.guards.restarts.overtaken import looked_at
from cdc_assets.merge.guards.restarts.watch import RestartWatch
from cdc_assets.merge.intake.observe import OptionalFigures


class RestartedSource(Guard):
    """Stops a table at a restart that nobody has accepted; gives accepted ones their epoch."""

    case = "the source's positions may have gone back"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._watch = RestartWatch.of(setting.batch.plan)

    def watch(self, batch: PlannedBatch, watched: OptionalFigures) -> OptionalFigures:
        """Has the pass tell whether a record contradicts what was merged before."""
        return replace(watched, before=self._watch.before()) if self._watch else watched

    def judge(self, this: Pass) -> Pass | Refold:
        """Completes the plan by the numbering that the batch's positions have.

        Returns:
            The pass under that plan; `Refold` if an accepted restart begins in the batch.

        Raises:
            RestartError: if positions went back, and nobody has accepted that.
        """
        watch, figures, folded = self._watch, this.figures, this.folded
        if watch is None:
            return this
        has_changed = False
        if watch.must_look(figures, folded):
            with self.look("look at positions"):
                has_changed = watch.look(lambda epochs: self._looked_at(this, epochs))
        numbering, epochs = watch.carried(figures, folded), watch.restarts.epochs
        plan = replace(this.plan, numbering=numbering, epochs=epochs)
        return Refold(plan) if has_changed else replace(this, batch=this.batch.replanned(plan))

    def carry(self, carried: Carried, last: Pass) -> Carried:
        """Adds the numbering."""
        return replace(carried, numbering=last.plan.numbering)

    def _looked_at(self, this: Pass, epochs: Epochs) -> AbstractContextManager[DataFrame]:
        """Yields the records to be examined in their order.

        Their positions have these epochs, and are lifted by the batch's own snapshots in them too.
        """
        figures, low_watermarks, known = this.figures, this.knowledge.low_watermarks, None
        is_same = epochs == this.plan.epochs
        batch = this.batch
        if not is_same:
            batch = batch.replanned(replace(this.plan, epochs=epochs))
        if this.may_rise:
            lifted = (
                batch.changes.low_watermarks if is_same else batch.changes.renumbered_watermarks
            )
            low_watermarks, known = lifted(low_watermarks, figures), self.means.lookups(this.batch)
        may_reject = figures.rejected > 0
        return looked_at(batch.decoder, low_watermarks, known, may_reject=may_reject)
