"""Adds a table's shard to its decoded changes, as records do not hold it."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.names import Shard


def in_shard(decoded: DataFrame, shard: Shard | None) -> DataFrame:
    """Adds the shard to the keys and rows of changes, in first place, as in the lake table.

    Args:
        decoded: of `cdc_assets.formats.changes.decode`, of a table with a key.
        shard: of the table; None if it has a lake table of its own.
    """
    if shard is None:
        return decoded
    value = F.lit(shard.value).alias(shard.column)

    def of_shard(name: str) -> Expression:
        fields = F.struct(value, F.col(f"{name}.*"))
        return F.when(F.col(name).isNotNull(), fields)

    return decoded.withColumns({name: of_shard(name) for name in ("key", "old_key", "row")})
