"""Applies a batch to its table at once: to a keyless one, a changelog, a history."""

from __future__ import annotations

from dataclasses import replace

from cdc_assets.changes.position import without_offset
from cdc_assets.formats.order import order_of
from cdc_assets.merge.apply.changelog import ChangeLogTable
from cdc_assets.merge.apply.history import HistoryTable
from cdc_assets.merge.apply.multiset import CountedTable
from cdc_assets.merge.apply.record import Outcome
from cdc_assets.merge.batch.application import Application
from cdc_assets.merge.fold.rekeyed import everywhere
from cdc_assets.merge.plan.plan import Apply
from cdc_assets.merge.tables.ends import Ends
from cdc_assets.merge.tables.ledger import Ledger


def apply_keyless(it: Application, outcome: Outcome) -> Outcome:
    """Deletes surplus rows and appends missing ones, with the record of the batch.

    Only what follows the last truncate is a part of it, as nothing before can leave a trace.

    Args:
        it: the application.
        outcome: of the batch so far.

    Raises:
        RejectedRecordError: if an event that came twice cannot be told from two.
        MissingRowError: if a row to be deleted does not exist.
        ConflictError: if another writer came between.
    """
    part, plan, means, folded = it.parts[-1], it.plan, it.means, it.last.folded
    ledger = Ledger(means.side, order_of(plan.layout.scheme))
    table = CountedTable(means.spark, means.catalog, plan, means.steps, ledger)
    counted = table.counted(folded.frame, part.floor, may_repeat=_may_repeat(it, outcome))
    with means.steps.step("count events"):
        stale = folded.keys - counted.count()
    if part.truncate is not None and plan.published is not None:
        with means.steps.step("truncate"):
            it.branch.truncate(part.truncate, keep_deleted=False)
    it.refusing.settle(lambda: counted)
    outcome = replace(outcome, side=table.remember(counted))
    outcome = outcome.after(folded, Apply.COUNT, stale, 0)
    with table.surplus_deleted(counted, it.branch) as missing:
        outcome = it.recorded(outcome)
        table.append(missing, it.branch, outcome.properties)
    return outcome


def _may_repeat(it: Application, outcome: Outcome) -> bool:
    """Returns whether the table may have counted an event of the batch before."""
    before = it.plan.published
    highest = max(before.carried.applied.values(), default="") if before else ""
    lowest = min(it.last.folded.lowest.values(), default="")
    floats = outcome.figures.min_floating is not None  # at another position each time
    return floats or without_offset(lowest) <= without_offset(highest)


def apply_to_changelog(it: Application, outcome: Outcome) -> Outcome:
    """Appends the changes that the table lacks, with the record of the batch.

    Args:
        it: the application.
        outcome: of the batch so far.

    Returns:
        The outcome; not published if a replay changes nothing.

    Raises:
        RejectedRecordError: if a change that came twice cannot be told from two.
    """
    means, folded = it.means, it.last.folded
    table = ChangeLogTable(means.spark, means.catalog, it.plan, means.steps, it.unset_able)
    new = table.new(folded.frame, outcome.figures, folded.keys)
    with means.steps.step("look for changes that are there"):
        count = new.count()
    it.refusing.settle(lambda: new)
    none_remembered = replace(folded, highest_delete="")
    outcome = outcome.after(none_remembered, Apply.RECORD, folded.keys - count, 0)
    if it.recorder.has_nothing_new(it.plan, is_empty=not count):
        return outcome
    outcome = it.recorded(outcome)
    table.write(new, it.branch, outcome.properties)
    return outcome


def apply_to_history(it: Application, outcome: Outcome) -> Outcome:
    """Writes new versions and those that have changed, with the record of the batch.

    Args:
        it: the application.
        outcome: of the batch so far.

    Returns:
        The outcome; not published if a replay changes nothing.

    Raises:
        RejectedRecordError: if a change that came twice cannot be told from two, or an update
            cannot be completed, and the table must stop.
        ConflictError: if another writer came between.
    """
    plan, means, branch, folded = it.plan, it.means, it.branch, it.last.folded
    rekeyed, ends = it.last.knowledge.rekeyed, Ends(means.side, plan.schema)
    table = HistoryTable(means.spark, means.catalog, plan, means.steps, it.unset_able, ends)
    resolved = table.resolve(folded, outcome.figures, branch, rekeyed=rekeyed)
    incomplete = it.refusing.incomplete(resolved.incomplete, plan)
    it.refusing.settle(lambda: resolved.applied)
    highest = everywhere(folded.highest, plan.partitions) if rekeyed else folded.highest
    part = replace(folded, highest=highest, highest_delete=resolved.highest_lone)
    stale = folded.keys - resolved.changes - incomplete
    outcome = outcome.after(part, Apply.VERSIONS, stale, incomplete)
    if it.recorder.has_nothing_new(plan, is_empty=resolved.is_empty):
        return outcome
    outcome = replace(outcome, side=table.remember(resolved))
    table.delete(resolved, branch)
    outcome = it.recorded(outcome)
    table.append(resolved, branch, outcome.properties)
    return outcome
