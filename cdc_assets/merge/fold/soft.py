"""Soft deletes: updates that set only the key.

The fold then carries the last values of a row over its delete, and the row's own position
remembers the delete: no tombstone is needed.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.schema.types import TableSchema


def unset_by_deletes(schema: TableSchema) -> tuple[str, ...]:
    """Returns the columns that a delete leaves alone."""
    return tuple(name for name in schema.names if name not in schema.key)


def keeping_rows(changes: DataFrame, schema: TableSchema, marked: tuple[str, ...]) -> DataFrame:
    """Adds a row image to each delete.

    Args:
        changes: decoded ones.
        schema: the table's.
        marked: columns that ``unset`` has so far; afterwards `unset_by_deletes`.
    """
    is_delete = F.col("op") == "d"

    def value(name: str) -> Expression:
        column = schema.column(name)
        if name in schema.key:
            return F.col("key").getField(name).alias(name)
        return F.lit(None).cast(str(column.type)).alias(name)

    def unset(name: str) -> Expression:
        before = F.col("unset").getField(name) if name in marked else F.lit(False)
        return (is_delete | before).alias(name)

    image = F.struct(*(value(name) for name in schema.names))
    flags = [unset(name) for name in unset_by_deletes(schema)]
    return changes.withColumns(
        {
            "row": F.when(is_delete, image).otherwise(F.col("row")),
            "unset": F.struct(*flags) if flags else F.struct(F.lit(False).alias("__none")),
        }
    )
