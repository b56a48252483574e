"""Mirrors: the newest change of each key is applied, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.merge.apply.keyed import KeyedTable, WholeChanges
from cdc_assets.merge.apply.snapshot_properties import BatchOutcome
from cdc_assets.merge.fold.context import PlannedBatch
from cdc_assets.merge.fold.newest import matching_alone, newest_by_key
from cdc_assets.merge.modes.application import Application
from cdc_assets.merge.modes.mode import TableMode
from cdc_assets.merge.plan.parts import Part


class Mirror(TableMode):
    """A table that equals the source's, with deleted rows marked or gone."""

    def fold(
        self, changes: DataFrame, batch: PlannedBatch, aggregates: Mapping[str, Expression]
    ) -> DataFrame:
        """Returns the newest change of each key."""
        plan, omittable = batch.plan, batch.changes.omittable
        newest = newest_by_key(changes, plan.schema.key, plan.numbers, omittable, aggregates)
        return matching_alone(newest, plan, omittable)

    def apply(self, it: Application, outcome: BatchOutcome) -> BatchOutcome:
        """Writes the newest change of each key, with the record of the batch in the last write.

        Of each part, in this order:

        1. its truncate;
        2. what to apply and how: older changes are left out, partial images completed, and those
           that cannot be completed refused;
        3. of the last part: deletes are remembered;
        4. the keys' rows are replaced by their new state.

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
        table = KeyedTable(
            plan, means.lookups(last.batch), means.tombstones(plan.schema), means.steps,
            it.omittable, rekeyed=last.knowledge.rekeyed,
        )  # fmt: skip
        for part in it.parts:
            changes = partial(it.changes_of, part)
            with table.part(last.folded, changes, part) as folded:
                _truncate(it, part)  # 1
                apply = table.choose(folded, branch)
                with table.resolved(folded, changes, apply, branch) as resolved:  # 2
                    mine = resolved.counted(folded)
                    incomplete = it.refusing.incomplete(resolved.incomplete, plan)
                    stale = mine.keys - resolved.kept - incomplete
                    outcome = outcome.after(mine, apply, stale, incomplete)
                    if part is it.parts[-1]:
                        it.refusing.settle(partial(_applied, it, part, resolved))
                        is_empty = not (resolved.kept or branch.identifier)
                        if it.recorder.has_nothing_new(plan, is_empty=is_empty):
                            return outcome
                        outcome = replace(outcome, side=table.remember(resolved, mine))  # 3
                        outcome = it.recorded(outcome)
                    table.write(resolved, apply, branch, outcome.properties)  # 4
        return outcome


def _truncate(it: Application, part: Part) -> None:
    """Deletes or marks the rows older than the part, unless there are none."""
    if part.truncate is not None and (it.plan.head or it.branch.identifier):
        with it.means.steps.step("truncate"):
            it.branch.truncate(part.truncate, keep_deleted=it.plan.soft)


def _applied(it: Application, part: Part, resolved: WholeChanges) -> DataFrame:
    """Returns all changes of the keys that the last part writes."""
    changes = it.changes_of(part)
    kept = resolved.final.select(F.col("key").alias("kept"))
    return changes.join(F.broadcast(kept), changes["key"] == kept["kept"], "left_semi")
