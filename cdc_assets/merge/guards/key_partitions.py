"""Proves that a key's changes are in one partition: partitions may have been added before.

Kafka does not record when partitions were added. If a topic grew from one to two partitions before
its table was begun or rebuilt, one partition may hold a key's older changes and the other its newer
ones. A batch that does not take all of the log then leaves some older changes unread.

1. From a table's first batch on, each publish stores the ends that the log had at the first batch:
   ``settles_at``. Until these are reached, a batch is compared with the highest position of all
   partitions.
2. The publish that reaches these ends stores the highest position applied: ``settled_at``. Later
   records were produced after the table was begun, with the same partitions; redelivered changes
   among them are not above ``settled_at``. From then on a batch above ``settled_at`` is compared
   with the highest position of its own partition.
3. A batch whose records' keys have another schema than before unsettles the table: the keys have
   other bytes, and so other partitions. Steps 1 and 2 start again with the log's ends at that time.

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
    """Stores the position from which on a key's changes are known to be in one partition."""

    def carry(self, carried: Carried, last: Pass) -> Carried:
        """Adds whether the log's first ends are reached; see `carried_on`."""
        return carried_on(carried, last.plan, frozenset(last.figures.signs["key_schemas"]))


def carried_on(carried: Carried, plan: BatchPlan, key_schemas: frozenset[int]) -> Carried:
    """Returns a table's state after a batch; settled if the log's first ends are reached.

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
