"""Mirrors: the newest change of each key is applied."""

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

        In this order:

        1. where deleted rows go, those older than the last truncate, and older changes;
        2. what to apply and how: older changes are left out, partial images completed, and those
           that cannot be completed refused;
        3. where deleted rows stay, those that the table has are marked by the truncates, after they
           were looked up: a change between a row and its truncate is not older than the row;
        4. deletes are remembered;
        5. the keys' rows are replaced by their new state, marked by the truncates as well.

        Args:
            it: the application.
            outcome: of the batch so far.

        Returns:
            The outcome; not published if a replay changes nothing.

        Raises:
            RejectedRecordError: if an update cannot be completed, and the table must stop.
            ConflictError: if another writer came between.
        """
        plan, means, branch, last = it.plan, it.means, it.branch, it.last
        table = KeyedTable(
            plan, means.lookups(last.batch), means.tombstones(plan.schema), means.steps,
            it.omittable, rekeyed=last.knowledge.rekeyed,
        )  # fmt: skip
        with table.newer(last.folded, it.barriers.after) as folded:
            if not plan.soft:
                _truncate(it)  # 1
            apply = table.choose(folded, branch)
            with table.resolved(folded, it.changes, apply, branch) as resolved:  # 2
                mine = resolved.counted(folded)
                incomplete = it.refusing.incomplete(resolved.incomplete, plan)
                stale = mine.keys - resolved.kept - incomplete
                outcome = outcome.after(mine, apply, stale, incomplete)
                if plan.soft:
                    _truncate(it)  # 3
                it.refusing.settle(partial(_applied, it, resolved))
                is_empty = not (resolved.kept or branch.identifier)
                if it.recorder.has_nothing_new(plan, is_empty=is_empty):
                    return outcome
                outcome = replace(outcome, side=table.remember(resolved, mine))  # 4
                outcome = it.recorded(outcome)
                table.write(resolved, it.barriers, apply, branch, outcome.properties)  # 5
        return outcome


def _truncate(it: Application) -> None:
    """Deletes or marks the rows that the batch's truncates remove, unless there are none."""
    truncates = it.barriers.truncates
    if truncates and (it.plan.head or it.branch.identifier):
        with it.means.steps.step("truncate"):
            it.branch.truncate(truncates, keep_deleted=it.plan.soft)


def _applied(it: Application, resolved: WholeChanges) -> DataFrame:
    """Returns all changes of the keys that are written."""
    changes = it.changes()
    kept = resolved.final.select(F.col("key").alias("kept"))
    return changes.join(F.broadcast(kept), changes["key"] == kept["kept"], "left_semi")
