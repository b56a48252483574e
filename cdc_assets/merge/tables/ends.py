"""Remembers deletes and truncates in a side table of a history, so that they end late versions.

A delete that ends a version is recorded in the version's own row. The side table keeps the few
others: deletes of rows that the table did not have, and truncates, which may end versions that are
yet to come from another partition. They are written before the rows are published, and count once
those are (`cdc_assets.merge.tables.side_table`). They are read only when a batch may hold anything
old, and never forgotten: a truncate's place in the log says nothing about other partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.lake.carried import SideMark
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.joins import hinted
from cdc_assets.merge.tables.side_table import SideTable
from cdc_assets.merge.tables.tombstones import first_name, packed_key
from cdc_assets.schema.types import TableSchema

_OWN = (
    (sql.OP, "string"),
    (sql.POSITION, "binary"),
    (sql.COMMIT_TIME, "timestamp"),
    (sql.EVENT, "binary"),
    (sql.TOPIC, "string"),
    (sql.PARTITION, "int"),
    (sql.OFFSET, "bigint"),
)
_NAMES = ("op", "position", "ts", "event", "topic", "partition", "offset")
_TYPES = "op string, position binary, micros bigint, event binary, topic string, partition int, offset bigint"  # noqa: E501 - one literal


@dataclass(frozen=True, slots=True)
class Emptied:
    """A truncate, or the position from which on the source's table is another one.

    Attributes:
        position: its position.
        micros: its commit time, microseconds since 1970; None if the source gives none.
        event: distinguishes it from others.
        topic, partition, offset: of its record; None if it has none.
    """

    position: bytes
    micros: int | None
    event: bytes
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None

    def literals(self) -> dict[str, tuple[str, str]]:
        """Returns the ending values of a version that a truncate ends: text and type by column."""
        said = lambda value: "" if value is None else str(value)  # noqa: E731
        return {
            sql.VALID_TO: (said(self.micros), "timestamp"),
            sql.ENDED_BY: ("t", "string"),
            sql.END_POSITION: (self.position.hex(), "binary"),
            sql.END_TOPIC: (said(self.topic), "string"),
            sql.END_PARTITION: (said(self.partition), "int"),
            sql.END_OFFSET: (said(self.offset), "bigint"),
            sql.END_EVENT: (self.event.hex(), "binary"),
        }


def columns(schema: TableSchema) -> tuple[tuple[str, str], ...]:
    """Returns the side table's columns as ``(name, type)``; a truncate has an empty key."""
    key = ((first_name(schema.column(n)), str(schema.column(n).type)) for n in schema.key)
    return (*key, *_OWN)


def frame_of(spark: SparkSession, emptied: Sequence[Emptied]) -> DataFrame:
    """Returns truncates as rows ``op position ts event topic partition offset``."""
    rows = [
        ("t", each.position, each.micros, each.event, each.topic, each.partition, each.offset)
        for each in emptied
    ]
    frame = spark.createDataFrame(rows, _TYPES)
    return frame.withColumn("ts", F.timestamp_micros("micros")).select(*_NAMES)


def emptied_in(changes: DataFrame) -> tuple[Emptied, ...]:
    """Returns the truncates among such rows, lowest position first."""
    rows = changes.where("op = 't'").select(*_NAMES, F.unix_micros("ts").alias("micros")).collect()
    found = (
        Emptied(
            bytes(row["position"]), row["micros"], bytes(row["event"]),
            row["topic"], row["partition"], row["offset"],
        )
        for row in rows
    )  # fmt: skip
    return tuple(sorted(found, key=lambda each: each.position))


class Ends:
    """Remembered deletes and truncates of a history with these columns, in its side table."""

    def __init__(self, side: SideTable, schema: TableSchema) -> None:
        self._side = side
        self._columns = tuple(schema.column(name) for name in schema.key)

    def remember(self, ends: DataFrame, attempt: str) -> SideMark:
        """Appends ends (``key op position ts event topic partition offset``).

        Raises:
            ConflictError: see `SideTable.append`.
        """
        key = (F.col("key").getField(c.name).alias(first_name(c)) for c in self._columns)
        own = (F.col(n).alias(o) for n, (o, _) in zip(_NAMES, _OWN, strict=True))
        return self._side.append(ends.select(*key, *own), attempt)

    def deletes(self, keys: DataFrame, count: int) -> DataFrame | None:
        """Returns the deletes of these keys (``key``) as in `remember`; None if no entry counts."""
        table = self._side.entries()
        if table is None:
            return None
        key = packed_key(self._columns).alias("key")
        packed = table.where(F.col(sql.OP) == "d").select(key, *_read())
        wanted = hinted(keys.select(F.col("key").alias("wanted")), count)
        return packed.join(wanted, packed["key"] == wanted["wanted"], "left_semi")

    def truncates(self) -> tuple[Emptied, ...]:
        """Returns all truncates, lowest position first."""
        table = self._side.entries()
        return () if table is None else emptied_in(table.select(*_read()))


def _read() -> list[Expression]:
    return [F.col(o).alias(n) for n, (o, _) in zip(_NAMES, _OWN, strict=True)]
