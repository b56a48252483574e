"""Splits updates that change the key into a delete of the old key and a create of the new one.

For its own record key a connector sends these two itself. It sends an update if the key is
configured otherwise, and some connectors always do.

The old key's other changes may be in another partition: see `everywhere`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.formats.record_keys import has_moved


def with_old_keys_deleted(changes: DataFrame, omittable: tuple[str, ...]) -> DataFrame:
    """Adds a delete at the same position for each change that has another ``old_key``.

    The update itself becomes a create: what it leaves out is not a value of the new key's row.
    """
    moved = has_moved()
    twice = F.when(moved, F.array(F.lit(True), F.lit(False))).otherwise(F.array(F.lit(False)))
    each, old = changes.withColumn("is_old", F.explode(twice)), F.col("is_old")
    flags = ((F.col("unset").getField(name) & ~old).alias(name) for name in omittable)
    columns = {
        "op": F.when(old, "d").when(moved, "c").otherwise(F.col("op")),
        "key": F.when(old, F.col("old_key")).otherwise(F.col("key")),
        "row": F.when(~old, F.col("row")),
        "in_doubt": F.col("in_doubt") & ~old,
    }
    if omittable:
        columns["unset"] = F.struct(*flags)
    return each.withColumns(columns).drop("is_old")


def everywhere(highest: Mapping[int, str], partitions: int) -> dict[int, str]:
    """Returns, for all partitions, the highest position of a batch that changes keys.

    Changes of an old key that are still to come from its partition may be older than the delete,
    though newer than whatever was applied there: the next batch has to look rows up.
    """
    return dict.fromkeys([*range(partitions), *highest], max(highest.values(), default=""))
