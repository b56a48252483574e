"""Applies a batch to a table with a key, part by part."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.merge.apply.keyed import KeyedTable, Resolved
from cdc_assets.merge.apply.record import Outcome
from cdc_assets.merge.batch.application import Application
from cdc_assets.merge.plan.parts import Part


def apply_keyed(it: Application, outcome: Outcome) -> Outcome:
    """Writes the newest change of each key, with the record of the batch in the last write.

    Of each part, in this order:

    1. its truncate;
    2. what to apply and how: older changes are left out, partial images completed, and those that
       cannot be completed refused;
    3. of the last part: deletes are remembered;
    4. the keys' rows are deleted, and appended in their new state.

    Args:
        it: the application.
        outcome: of the batch so far.

    Returns:
        The outcome after the last part; not published if a replay changes nothing.

    Raises:
        RejectedRecordError: if an update cannot be completed, and the table must stop.
        ConflictError: if another writer came between.
    """
    plan, means, branch, last = it.plan, it.means, it.branch, it.last
    table = KeyedTable(plan, means.known(last.batch), means.tombstones(plan.schema), means.steps,
                       it.unset_able, rekeyed=last.knowledge.rekeyed)  # fmt: skip
    for part in it.parts:
        changes = partial(it.reader.changes_of, last.batch, last.knowledge, part)
        with table.part(last.folded, changes, part) as mine:
            _truncate(it, part)  # 1
            apply = table.choose(mine, branch)
            with table.resolved(mine, changes, apply, branch) as resolved:  # 2
                incomplete = it.refusing.incomplete(resolved.incomplete, plan)
                stale = mine.keys - resolved.kept - incomplete
                outcome = outcome.after(mine, apply, stale, incomplete)
                if part is it.parts[-1]:
                    it.refusing.settle(partial(_applied, it, part, resolved))
                    is_empty = not (resolved.kept or branch.identifier)
                    if it.recorder.has_nothing_new(plan, is_empty=is_empty):
                        return outcome
                    outcome = replace(outcome, side=table.remember(resolved, mine))  # 3
                table.delete(resolved, apply, branch)  # 4
                if part is it.parts[-1]:
                    outcome = it.recorded(outcome)
                table.append(resolved, branch, outcome.properties)
    return outcome


def _truncate(it: Application, part: Part) -> None:
    """Deletes or marks the rows older than the part, unless there are none."""
    if part.truncate is not None and (it.plan.head or it.branch.identifier):
        with it.means.steps.step("truncate"):
            it.branch.truncate(part.truncate, keep_deleted=it.plan.soft)


def _applied(it: Application, part: Part, resolved: Resolved) -> DataFrame:
    """Returns all changes of the keys that the last part writes."""
    changes = it.reader.changes_of(it.last.batch, it.last.knowledge, part)
    kept = resolved.final.select(F.col("key").alias("kept"))
    return changes.join(F.broadcast(kept), changes["key"] == kept["kept"], "left_semi")
