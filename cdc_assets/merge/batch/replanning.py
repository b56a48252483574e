"""Finds out what a pass over a batch shows that its plan did not know.

It may need a plan that is made anew (`unlike`). Otherwise the present plan is completed: no column
stays in doubt (`without_doubt`), positions have their epochs (`renumbered`), and keys that have
moved are known (`with_keys`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace

from pyspark.sql import DataFrame

from cdc_assets.changes.mode import Mode
from cdc_assets.formats.order import Epochs
from cdc_assets.merge.batch.means import Means
from cdc_assets.merge.batch.passes import Pass, PlannedBatch
from cdc_assets.merge.fold.lost import look_through, require_none_lost
from cdc_assets.merge.fold.newest import FOLDED
from cdc_assets.merge.fold.overtaken import looked_at
from cdc_assets.merge.fold.restarts import RestartWatch
from cdc_assets.merge.intake.told import statements_among
from cdc_assets.merge.plan.outcome import Lacking, Mixed, Told, Unlike, Unwritten, Wider
from cdc_assets.merge.statements.steps import Steps


def unlike(this: Pass, steps: Steps) -> Unlike | None:
    """Returns what the plan must be made anew for; None if it knows all that the records hold."""
    figures = this.figures
    if figures.has_strays:
        return Mixed()
    if figures.has_unwritten:
        return Unwritten()
    if figures.statements and not this.plan.is_told:  # may rename columns to be added
        with steps.step("look for statements"):
            return Told(statements_among(this.batch.decoder, this.knowledge.floors))
    if figures.unknown_columns:
        return Wider(figures.unknown_columns)
    if figures.absent_columns:
        return Lacking(figures.absent_columns)
    return None


def without_doubt(this: Pass, means: Means) -> Pass:
    """Checks that columns which records lack lose no value, and returns the pass without doubt.

    Args:
        this: the pass; its positions must be those that the batch is merged by.
        means: of the batch's execution.

    Raises:
        TerminalError: if one would be lost.
    """
    decoder, plan, folded = this.batch.decoder, this.plan, this.folded
    if decoder.doubt is None:
        return this
    is_folded = plan.mode is not Mode.HISTORY
    with means.steps.step("look for values that would be lost"):
        if is_folded:
            require_none_lost(means.spark, means.catalog, plan, decoder.doubt, folded.frame)
        else:
            look_through(means.spark, means.catalog, decoder, this.knowledge)
    if is_folded:
        folded = replace(folded, frame=folded.frame.select(*FOLDED))
    return replace(this, batch=PlannedBatch.of(replace(decoder, doubt=None)), folded=folded)


def renumbered(this: Pass, watch: RestartWatch | None, means: Means) -> tuple[Pass, bool]:
    """Completes the plan by the numbering that the batch's positions have.

    Args:
        this: the pass.
        watch: searches for restarts; None if none is looked for.
        means: of the batch's execution.

    Returns:
        The pass under that plan, and whether positions have changed since the fold.

    Raises:
        RestartError: if they went back, and nobody has accepted that.
    """
    if watch is None:
        return this, False
    figures, folded, has_changed = this.figures, this.folded, False
    if watch.must_look(figures, folded):
        with means.steps.step("look at positions"):
            has_changed = watch.look(lambda epochs: _looked_at(this, epochs, means))
    numbering, epochs = watch.carried(figures, folded), watch.restarts.epochs
    batch = this.batch.replanned(replace(this.plan, numbering=numbering, epochs=epochs))
    return replace(this, batch=batch), has_changed


def with_keys(this: Pass) -> Pass:
    """Completes the plan by the schemas of its records' keys."""
    plan = this.plan.with_keys_of(this.figures.key_schemas)
    return this if plan is this.plan else replace(this, batch=this.batch.replanned(plan))


def _looked_at(this: Pass, epochs: Epochs, means: Means) -> AbstractContextManager[DataFrame]:
    """Yields the records to be examined in their order.

    Their positions have these epochs, and are lifted by the batch's own snapshots in them too.
    """
    figures, floors, known = this.figures, this.knowledge.floors, None
    is_same = epochs == this.plan.epochs
    batch = this.batch if is_same else this.batch.replanned(replace(this.plan, epochs=epochs))
    if figures.min_floating is not None:
        lifted = batch.changes.floors if is_same else batch.changes.renumbered_floors
        floors, known = lifted(floors, figures), means.known(this.batch)
    may_reject = figures.rejected > 0
    return looked_at(batch.decoder, floors, known, may_reject=may_reject)
