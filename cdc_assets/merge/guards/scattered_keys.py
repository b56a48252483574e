"""Finds keys with changes in two partitions, where offsets alone order them.

Partitions that were added before a table was begun leave no other trace; nor does a producer that
does not choose them by key. See `cdc_assets.merge.plan.stable_partitions`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.merge.fold.context import Pass
from cdc_assets.merge.guards.guard import Guard
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.plan.stable_partitions import REMEDY, MovedKeysError


class ScatteredKeys(Guard):
    """Stops a table ordered by offsets alone, one of whose keys has changes in two partitions."""

    case = "only offsets order changes: keys must stay in their partition"

    def settle(self, last: Pass) -> Pass:
        """Fails if a key of the batch's changes is in two partitions.

        Before the first batch the own keys of all records are checked, as batches of a first load
        may end anywhere, and the log is complete only before them.

        Raises:
            MovedKeysError: see `require_gathered`.
        """
        plan, unread = last.plan, self.setting.unread
        if not plan.needs_keys_apart:
            return last
        with self.look("look for keys in two partitions"):
            if plan.published is None and unread is not None:
                require_gathered(unread, plan)
            if len(plan.ranges) > 1:
                require_gathered(last.batch.changes.decoded(last.knowledge), plan)
        return last


def require_gathered(records: DataFrame, plan: BatchPlan) -> None:
    """Fails if the records of a key are in two partitions.

    Args:
        records: with ``key``, ``partition`` and ``offset``; those without a key are ignored.
        plan: of the batch.

    Raises:
        MovedKeysError: names the first record of a key in each of two partitions.
    """
    places = records.select("key", F.struct("partition", "offset").alias("at"))
    lowest, highest = F.min("at").alias("lowest"), F.max("at").alias("highest")
    ends = places.where("key IS NOT NULL").groupBy("key").agg(lowest, highest)
    apart = ends.where("lowest.partition < highest.partition")
    found = apart.agg(F.min(F.struct("lowest", "highest")).alias("first")).collect()[0]["first"]
    if found is None:
        return
    topic = plan.entry.topic
    one, other = Coordinate(topic, *found["lowest"]), Coordinate(topic, *found["highest"])
    what = (
        "changes of one key are in two partitions, and are ordered by Kafka's offsets alone: it "
        "is unknown which are newer"
    )
    where = f"table={plan.entry.table} {one} and partition={other.partition} offset={other.offset}"
    raise MovedKeysError(what, where=where, remedy=REMEDY)
