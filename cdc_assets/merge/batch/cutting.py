"""Cuts a batch into the parts that are applied one after the other."""

from __future__ import annotations

from cdc_assets.changes.mode import Mode
from cdc_assets.merge.apply.multiset import highest_read, snapshot_start
from cdc_assets.merge.batch.passes import Pass
from cdc_assets.merge.plan.parts import Part, Truncate, split
from cdc_assets.merge.statements.steps import Steps


def parts_of(this: Pass, steps: Steps) -> tuple[Part, ...]:
    """Returns the parts of a batch in their order; at least one.

    Cuts it at its truncates, at the plan's barrier, and where a snapshot of a keyless table begins.

    Raises:
        TerminalError: if it is unknown which changes of other partitions a truncate precedes.
    """
    plan, figures = this.plan, this.figures
    if plan.mode is Mode.CHANGELOG:  # a truncate is a row, and older rows stay
        return (Part(),)
    truncates: tuple[Truncate, ...] = ()
    if plan.barrier and not plan.replay:
        truncates = (Truncate(plan.barrier, None),)
    if figures.by_op["t"]:
        with steps.step("read barriers"):
            truncates = (*truncates, *this.batch.changes.truncates(this.knowledge))
    if not plan.schema.key and figures.by_op["r"]:
        with steps.step("read barriers"):
            read = highest_read(this.folded.frame)
        truncates = (*truncates, Truncate(snapshot_start(read), None)) if read else truncates
    keeps = plan.soft or plan.mode is Mode.HISTORY
    return split(truncates, plan.floor, keep_deleted=keeps)
