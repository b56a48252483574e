"""Updates that change a configured key: a delete of the old key beside each.

For its own record key the connector sends a delete and a create itself.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def with_old_keys_deleted(changes: DataFrame, unset_able: tuple[str, ...]) -> DataFrame:
    """The changes, and for each that has another ``old_key`` a delete at the same position."""
    moved = F.coalesce(F.col("old_key") != F.col("key"), F.lit(False))
    twice = F.when(moved, F.array(F.lit(True), F.lit(False))).otherwise(F.array(F.lit(False)))
    each, old = changes.withColumn("is_old", F.explode(twice)), F.col("is_old")
    flags = ((F.col("unset").getField(name) & ~old).alias(name) for name in unset_able)
    columns = {
        "op": F.when(old, "d").otherwise(F.col("op")),
        "key": F.when(old, F.col("old_key")).otherwise(F.col("key")),
        "row": F.when(~old, F.col("row")),
    }
    if unset_able:
        columns["unset"] = F.struct(*flags)
    return each.withColumns(columns).drop("is_old")
