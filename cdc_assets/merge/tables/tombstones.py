"""Remembers deletes in a side table per lake table, so that a late change revives nothing.

A delete leaves no row that could carry its position. Its position is written to the side table
before the rows are published, and counts once those are (`cdc_assets.merge.tables.side_table`). The
side table is read only when a batch holds a position that is not newer than everything applied: in
steady state it costs one small write per batch with deletes, and no read.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.lake.carried import SideMark
from cdc_assets.lake.side import Forgettable
from cdc_assets.merge.statements import sql
from cdc_assets.merge.tables.side_table import SideTable
from cdc_assets.schema.types import Column, TableSchema


def columns(schema: TableSchema) -> tuple[tuple[str, str], ...]:
    """Returns the side table's columns as ``(name, type)``."""
    key = ((first_name(schema.column(n)), str(schema.column(n).type)) for n in schema.key)
    return (*key, (sql.POSITION, "binary"), (sql.COMMIT_TIME, "timestamp"))


def first_name(column: Column) -> str:
    """Returns a column's first name; a side table keeps the names that it was created with."""
    return (column.name, *column.identity.was)[-1]


def packed_key(key: Sequence[Column]) -> Expression:
    """Returns the key of a side table's entry, by present names and types.

    An older snapshot has the types that it was written with.
    """
    return F.struct(*(F.col(sql.quote(first_name(c))).cast(str(c.type)).alias(c.name) for c in key))


class Tombstones:
    """The remembered deletes of one lake table with these columns."""

    def __init__(self, side: SideTable, schema: TableSchema) -> None:
        self._side = side
        self._columns = tuple(schema.column(name) for name in schema.key)

    def remember(
        self, deletes: DataFrame, attempt: str, forgettable: Forgettable | None = None
    ) -> SideMark:
        """Appends the position of each deleted key (``key position ts``).

        Raises:
            ConflictError: see `SideTable.append`.
        """
        rows = deletes.select(
            *(F.col("key").getField(c.name).alias(first_name(c)) for c in self._columns),
            F.col("position").alias(sql.POSITION),
            F.col("ts").alias(sql.COMMIT_TIME),
        )
        return self._side.append(rows, attempt, forgettable)

    def entries(self) -> DataFrame | None:
        """Returns all that count; None if no delete is remembered."""
        return self._side.entries()

    def known(self, keys: DataFrame) -> DataFrame | None:
        """Returns ``known_key``, ``known_position`` of those of the keys that were deleted.

        None if no delete is remembered.
        """
        table = self._side.entries()
        if table is None:
            return None
        packed = table.select(
            packed_key(self._columns).alias("known_key"),
            F.col(sql.POSITION).alias("known_position"),
        )
        wanted = F.broadcast(keys.select(F.col("key").alias("wanted")))
        mine = packed.join(wanted, packed["known_key"] == wanted["wanted"], "left_semi")
        return mine.groupBy("known_key").agg(F.max("known_position").alias("known_position"))
