"""Proves that a key's changes are in one partition: partitions may have been added before.

Kafka does not record when partitions were added. A topic that went from one to two before its table
was begun, or built anew, may hold a key's older changes in one partition and its newer ones in the
other, and a batch that does not take all of the log leaves some of the older ones unread.

1. From a table's first batch on, the ends that the log had then are carried: ``settles_at``. Until
   they are reached, a batch is compared with the highest position of all partitions.
2. The publish that reaches them carries the highest position applied: ``settled_at``. Changes that
   follow in the log were produced after the table was begun, with the partitions that it was begun
   with; those that are sent again are not above it. From then on a batch above it is compared with
   the highest position of its own partition.

3. A batch whose records' keys have another schema than before unsettles the table: their bytes are
   others, and so are their partitions. Steps 1 and 2 begin again with what the log holds then.

Not proven: that all producers knew of partitions that were added minutes before the beginning
(``metadata.max.age.ms``, five minutes by default). Partitions that are added later are another
rule's: `BatchPlan.keys_remain`.
"""

from __future__ import annotations

from dataclasses import replace

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.lake.carried import Carried
from cdc_assets.merge.fold.context import Pass
from cdc_assets.merge.guards.guard import Guard
from cdc_assets.merge.plan.plan import BatchPlan


class Settling(Guard):
    """Carries from which position on a key's changes are known to be in one partition."""

    def carry(self, carried: Carried, last: Pass) -> Carried:
        """Adds whether all that the table began with is merged; see `settled`."""
        return settled(carried, last.plan, frozenset(last.figures.signs["key_schemas"]))


def settled(carried: Carried, plan: BatchPlan, key_schemas: frozenset[int]) -> Carried:
    """Returns the state of a table after a batch, settled if all that it began with is merged.

    Args:
        carried: after the batch, with its highest positions.
        plan: of the batch.
        key_schemas: of its records.
    """
    if plan.partitions == 1 or plan.replay:
        return carried
    if key_schemas:
        # Offsets cannot settle: of such a table no schema is forgotten.
        kept = carried.key_schemas if plan.needs_keys_apart else ()
        carried = replace(carried, key_schemas=tuple(sorted({*kept, *key_schemas})))
    if plan.has_other_keys:
        carried = replace(carried, settles_at=None, settled_at="")
    if carried.settled_at:
        return carried
    ends = carried.settles_at or OffsetVector.of({each.partition: each.end for each in plan.unread})
    if any(plan.end.get(partition) < end for partition, end in ends):
        return replace(carried, settles_at=ends)
    highest = max(carried.applied.values(), default="")
    return replace(carried, settles_at=None, settled_at=highest)
