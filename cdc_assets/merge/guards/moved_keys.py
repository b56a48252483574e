"""Detects keys that moved between partitions: another partition may have older, unread changes.

They move where partitions are added, where a column of the key is renamed or retyped, and where the
key's schema becomes another one: producers hash the key's bytes.
"""

from __future__ import annotations

from dataclasses import replace

from cdc_assets.changes.mode import Mode
from cdc_assets.errors import CutShortError
from cdc_assets.lake.carried import Carried
from cdc_assets.merge.fold.context import Pass, PlannedBatch
from cdc_assets.merge.guards.guard import Guard
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.plan.table_steps import DescribeColumns, RenameColumn, WidenColumn


class MovedKeys(Guard):
    """Makes a batch wait that would leave older changes of a moved key to a later batch."""

    def require(self, batch: PlannedBatch) -> None:
        """Fails if older changes of a key that moves in the batch are left for a later batch.

        Raises:
            CutShortError: if one may be.
        """
        plan = batch.plan
        if moves_keys(plan) and plan.is_limited and not (plan.replay or plan.needs_keys_apart):
            what = "a column of the key was renamed or retyped, and keys are in other partitions"
            remedy = "older changes of theirs may follow: a longer batch is tried"
            raise CutShortError(what, where=plan.where, remedy=remedy)

    def settle(self, last: Pass) -> Pass:
        """Checks that no partial image is completed from a row with older changes unread.

        Keys may still move after the batch that notices a move: a producer learns of added
        partitions up to minutes later, a catalog shows a rename before the connector reaches it.

        Raises:
            CutShortError: if an image may be.
        """
        plan = last.plan
        may_miss = plan.is_limited and not plan.replay and plan.mode is not Mode.CHANGELOG
        was_settled = plan.published is not None and bool(plan.published.carried.settled_at)
        have_moved = not plan.keys_remain or (plan.has_other_keys and was_settled)
        if may_miss and plan.schema.key and last.folded.partial and have_moved:
            what = "keys have moved between partitions, and changes leave values alone"
            remedy = "older changes of theirs may follow: a longer batch is tried"
            raise CutShortError(what, where=plan.where, remedy=remedy)
        return last

    def carry(self, carried: Carried, last: Pass) -> Carried:
        """Adds the number of partitions among which no moved key has older changes left to merge.

        If it differs from the topic's number, the next batch takes all that there is.
        """
        return replace(carried, partitions_seen=_partitions_seen(last.plan))


def moves_keys(plan: BatchPlan) -> bool:
    """Whether keys have moved between partitions since the newest publish.

    A batch that finds a column of the key renamed or retyped may hold a change of which an older
    one is unread in another partition, and one that leaves a large value alone would take it from
    a row that is too old.
    """
    return plan.partitions > 1 and any(_is_other_at_head(plan, name) for name in plan.schema.key)


def _is_other_at_head(plan: BatchPlan, name: str) -> bool:
    column = plan.schema.column(name)
    for step in plan.steps:
        match step:
            case RenameColumn(_, named) if named == name:
                return True
            case WidenColumn(widened, None) if widened.name == name:
                return True
            case DescribeColumns(columns) if column in columns and column.identity.formerly:
                return True
            case _:
                pass
    there, type_ = plan.name_at_head(name), plan.type_at_head(name)
    return there not in {None, name} or type_ not in {None, column.type}


def _partitions_seen(plan: BatchPlan) -> int:
    before = plan.published
    if before is not None and (plan.replay or plan.is_behind):
        return before.carried.partitions_seen
    return plan.partitions
