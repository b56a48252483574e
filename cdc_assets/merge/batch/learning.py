"""Finds out what the first pass over a batch shows that its fold needs to know.

These are a snapshot in the batch, keys that an update changes, deletes without an event, and
creates that may be changed keys. The batch is then folded again.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.position import Floors
from cdc_assets.merge.batch.means import Means
from cdc_assets.merge.batch.passes import Pass
from cdc_assets.merge.fold.changeset import Knowledge
from cdc_assets.merge.fold.moved import moves, told_moves
from cdc_assets.merge.fold.orphans import as_deletes, by_name, orphans, unpaired
from cdc_assets.merge.statements.pinning import pinned


def learned(this: Pass, context: DataFrame | None, means: Means) -> Knowledge:
    """Adds the findings of a first pass; returns the same object if there are none.

    Args:
        this: the pass.
        context: the record before each range, raw; None if there are none.
        means: of the batch's execution.
    """
    knowledge, figures, plan = _with_snapshot(this, means), this.figures, this.plan
    if figures.rekeyed and not plan.layout.split_keys:
        knowledge = replace(knowledge, rekeyed=True)
    if figures.lone_tombstones and plan.schema.key:
        knowledge = _with_lone_deletes(knowledge, this, context, means)
    if figures.in_doubt and len(plan.numbers) > 1:
        knowledge = _with_moves(knowledge, this, means)
    return knowledge


def floors_after(this: Pass, means: Means) -> Floors:
    """Returns the read floors with those of the complete snapshots that a batch has rows of."""
    known = this.knowledge.floors
    if this.figures.max_read is None:
        return known
    with means.steps.step("look at snapshot"):
        return this.batch.changes.floors(known, this.figures)


def may_rise(this: Pass) -> bool:
    """Returns whether a snapshot in the batch may give changes other positions, once learned."""
    return this.figures.min_floating is not None


def floors_of(last: Pass, means: Means) -> Floors:
    """Returns `floors_after` of the last pass, without reading what has been learned again."""
    return last.knowledge.floors if may_rise(last) else floors_after(last, means)


def _with_snapshot(this: Pass, means: Means) -> Knowledge:
    """Adds where a snapshot begins, if that decides on the position of a change."""
    if not may_rise(this):
        return this.knowledge
    floors = floors_after(this, means)
    changed = floors != this.knowledge.floors
    return replace(this.knowledge, floors=floors) if changed else this.knowledge


def _with_lone_deletes(
    knowledge: Knowledge, this: Pass, context: DataFrame | None, means: Means
) -> Knowledge:
    """Adds deletes that are only a record without a value, which are few."""
    decoder, key, numbers = this.batch.decoder, this.plan.schema.key, this.plan.numbers
    with means.steps.step("look up"):
        decoded = decoder.decode(knowledge.floors, tombstone_keys=True)
        before = None
        if context is not None:
            before = decoder.decode(knowledge.floors, context, tombstone_keys=True)
        found = pinned(orphans(decoded, before, key, numbers))
        named, unread = by_name(found, key)
        if not unread.isEmpty():
            refused = pinned(unpaired(unread, decoded, before))
            knowledge = replace(knowledge, nameless=refused)
        known = means.known(this.batch)
        deletes = as_deletes(named, known.newest(named, known.rows(named)), numbers)
        return replace(knowledge, lone_deletes=pinned(deletes))


def _with_moves(knowledge: Knowledge, this: Pass, means: Means) -> Knowledge:
    """Adds which creates with a placeholder are changed keys."""
    plan, unset_able = this.plan, this.batch.decoder.unset_able
    known = means.known(this.batch, unset_able)
    with means.steps.step("look up"):
        decoded = this.batch.changes.decoded(knowledge)
        if plan.mode is Mode.CHANGELOG:  # a left-out value is not looked up
            found = pinned(told_moves(decoded, plan, known))
        else:
            found = moves(decoded, plan, known, unset_able)
    return replace(knowledge, moves=found)
