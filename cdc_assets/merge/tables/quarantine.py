"""Keeps records that cannot be merged, so that an operator can inspect and replay them.

Each source has one table, written before the batch publishes. A record is written once for each
table that refuses it, even if the batch is tried again; two writers that try it at the same moment
may both write it, so readers take one row per record. A topic that is created again has the same
coordinates for others: the topic's id tells them apart, which entries of earlier versions lack.
Where tables share a topic, each of them keeps the records whose table is unknown: they may be its
own. The quarantine holds raw keys and values, of whatever size and without headers: whoever may
read the source's tables may read it, and nobody else should.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import Coordinate, OffsetRange
from cdc_assets.effects import effect
from cdc_assets.errors import RejectedRecordError
from cdc_assets.formats.flat import by_partition
from cdc_assets.formats.oversized import size_of
from cdc_assets.lake.quarantined import quarantine_name
from cdc_assets.merge.plan.quarantine_replay import QuarantineKey
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.joins import hinted
from cdc_assets.merge.statements.writing import run_over
from cdc_assets.registry import TableEntry

_COLUMNS: Final = (
    ("table", "string"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("reason", "string"),
    ("key", "binary"),
    ("value", "binary"),
    ("run_id", "string"),
    ("quarantined_at", "timestamp"),
    ("topic_id", "string"),
)
_PROPERTIES: Final = {
    "format-version": "2",
    "write.delete.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    # No running batch writes the entries that a replay removes or restates.
    "write.delete.isolation-level": "snapshot",
    "write.merge.isolation-level": "snapshot",
    # Parquet first checks its buffered size after a hundred rows; at 20 MB each that is too late.
    "write.parquet.row-group-check-min-record-count": "1",
}
_COORDINATE: Final = ("topic", "partition", "offset")
_ENTRY: Final = ("table", *_COORDINATE)
_ID: Final = "topic_id"
_COORDINATE_TYPES: Final = "topic string, partition int, offset bigint"
_KAFKA: Final = ("key", "value", *_COORDINATE, "timestamp")
_KAFKA_TYPES: Final = f"key binary, value binary, {_COORDINATE_TYPES}, timestamp timestamp"


@dataclass(frozen=True, slots=True)
class Origin:
    """The batch that quarantines records.

    Attributes:
        entry: its table.
        topic_id: of the topic that they were read from.
        ranges: cover every rejected record: only within them are existing entries looked for.
        run_id: recorded with the records.
        at: recorded with the records, as the time of quarantine.
    """

    entry: TableEntry
    topic_id: str
    ranges: Sequence[OffsetRange]
    run_id: str
    at: datetime


class Quarantine:
    """The quarantine of one source."""

    def __init__(self, spark: SparkSession, catalog: str, source: str) -> None:
        self._spark = spark
        self._catalog = catalog
        self._name = quarantine_name(source)
        self._table = sql.table(catalog, self._name)

    def add(self, raw: DataFrame, rejected: DataFrame, origin: Origin, most_bytes: int) -> None:
        """Writes the rejected records that are not in the quarantine yet.

        Args:
            raw: Kafka records, as Spark's source gives them.
            rejected: ``partition offset reason`` of those that cannot be merged, checkpointed.
            origin: of both.
            most_bytes: limit for keys and values of all the table's records in quarantine.

        Raises:
            RejectedRecordError: if there would be more; nothing was written.
        """
        self._create()
        records = raw.join(hinted(rejected, rejected.count()), ["partition", "offset"])
        known = self._spark.table(self._table).where(_within(origin)).select(*_COORDINATE)
        own = {
            "table": F.lit(origin.entry.table.qualified),
            "run_id": F.lit(origin.run_id),
            "quarantined_at": F.lit(origin.at).cast("timestamp"),
            _ID: F.lit(origin.topic_id),
        }
        rows = records.select(*(own.get(name, F.col(name)).alias(name) for name, _ in _COLUMNS))
        new = rows.join(hinted(known, known.count()), list(_COORDINATE), "left_anti")
        table = origin.entry.table.qualified
        there = self._spark.table(self._table).where(F.col("table") == table)
        total = _bytes(new) + _bytes(there)
        if total > most_bytes:
            what = f"{total} bytes of records would be in quarantine, more than {most_bytes}"
            remedy = "look why records are rejected, or raise quarantine.max_bytes"
            where = f"table={origin.entry.table} topic={origin.entry.topic}"
            raise RejectedRecordError(what, where=where, remedy=remedy, page="quarantine-full")
        with effect("spark: append to quarantine"):
            new.writeTo(self._table).append()

    def records(self, table: TableName, topic_id: str, wanted: Sequence[Coordinate]) -> DataFrame:
        """Returns records of a table: ``key value topic partition offset timestamp``.

        Args:
            table: of this source.
            topic_id: of the topic that they are of.
            wanted: their coordinates, as far as they are there.
        """
        found = self._of(table)
        if found is None:
            return self._spark.createDataFrame([], _KAFKA_TYPES)
        of_topic = found.where(F.coalesce(F.col(_ID), F.lit(topic_id)) == topic_id)
        mine = of_topic.join(F.broadcast(self._frame(wanted)), list(_COORDINATE), "left_semi")
        return mine.dropDuplicates(list(_COORDINATE)).select(*_KAFKA)

    def kept(self, table: TableName, most: int | None = None) -> tuple[QuarantineKey, ...]:
        """Returns the places of a table's records, each once; up to a number, or all."""
        found = self._of(table)
        if found is None:
            return ()
        places = _places(found)
        rows = (places if most is None else places.limit(most)).collect()
        return tuple(sorted(QuarantineKey(Coordinate(*row[:3]), row[_ID]) for row in rows))

    def count(self, table: TableName) -> int:
        """Returns the number of a table's records."""
        found = self._of(table)
        return 0 if found is None else _places(found).count()

    def remove(self, table: TableName, topic_id: str, coordinates: Sequence[Coordinate]) -> None:
        """Removes a table's records of a topic from the quarantine, in one statement."""
        if not coordinates:
            return
        self._complete()
        mine = self._frame(coordinates).withColumns(_entry(table, topic_id))
        with effect("spark: remove from quarantine"):
            run_over(
                self._spark,
                mine,
                lambda view: sql.delete_keys(self._table, view, _ENTRY, or_none=(_ID,)),
            )

    def clear(self, table: TableName) -> None:
        """Removes all records of a table, in one statement."""
        if not self._spark.catalog.tableExists(self._table):
            return
        mine = self._spark.createDataFrame([(table.qualified,)], "table string")
        with effect("spark: remove from quarantine"):
            run_over(self._spark, mine, lambda view: sql.delete_keys(self._table, view, ("table",)))

    def restate(
        self, table: TableName, topic_id: str, rejected: Sequence[tuple[Coordinate, str]]
    ) -> None:
        """Updates the reasons of a table's records that were rejected again, in one statement."""
        if not rejected:
            return
        self._complete()
        rows = [(each.topic, each.partition, each.offset, why) for each, why in rejected]
        reasons = self._spark.createDataFrame(rows, f"{_COORDINATE_TYPES}, reason string")
        mine = reasons.withColumns(_entry(table, topic_id))
        with effect("spark: restate quarantine"):
            run_over(
                self._spark,
                mine,
                lambda view: sql.update_changed(
                    self._table, view, _ENTRY, "reason", or_none=(_ID,)
                ),
            )

    def _create(self) -> None:
        with effect("spark: create quarantine"):
            self._spark.sql(sql.create_namespace(self._catalog, self._name))
            self._spark.sql(sql.create_side_table(self._catalog, self._name, _COLUMNS, _PROPERTIES))
        self._complete()

    def _complete(self) -> None:
        """Adds the column that is missing from a quarantine table of an earlier version."""
        if _ID in self._spark.table(self._table).columns:
            return
        with effect("spark: widen quarantine"):
            self._spark.sql(sql.add_side_column(self._catalog, self._name, _ID, "string"))

    def _of(self, table: TableName) -> DataFrame | None:
        """Returns the rows of a table; None if nothing was ever set aside."""
        if not self._spark.catalog.tableExists(self._table):
            return None
        found = self._spark.table(self._table).where(F.col("table") == table.qualified)
        lacks = _ID not in found.columns
        return found.withColumn(_ID, F.lit(None).cast("string")) if lacks else found

    def _frame(self, coordinates: Sequence[Coordinate]) -> DataFrame:
        rows = [(each.topic, each.partition, each.offset) for each in coordinates]
        return self._spark.createDataFrame(rows, _COORDINATE_TYPES)


def _places(rows: DataFrame) -> DataFrame:
    ids = F.coalesce(F.col(_ID), F.lit("")).alias(_ID)
    return rows.select(*_COORDINATE, ids).distinct()


def _entry(table: TableName, topic_id: str) -> dict[str, Expression]:
    return {"table": F.lit(table.qualified), _ID: F.lit(topic_id)}


def _bytes(records: DataFrame) -> int:
    """Returns the size of keys and values."""
    total = F.sum(size_of(F.col("key"), F.col("value")))
    return records.agg(F.coalesce(total, F.lit(0)).alias("bytes")).collect()[0]["bytes"]


def _within(origin: Origin) -> Expression:
    """Restricts to the table and the batch's ranges; Iceberg skips files by topic and bounds."""
    partition, offset, ranges = F.col("partition"), F.col("offset"), origin.ranges
    start = by_partition(partition, {each.partition: each.start for each in ranges})
    end = by_partition(partition, {each.partition: each.end for each in ranges})
    lowest = min((each.start for each in ranges), default=0)
    highest = max((each.end for each in ranges), default=0)
    bounds = (offset >= lowest) & (offset < highest)
    entry = origin.entry
    of_topic = (F.col("topic") == entry.topic) & (
        F.coalesce(F.col(_ID), F.lit(origin.topic_id)) == origin.topic_id
    )
    mine = (F.col("table") == entry.table.qualified) & of_topic & bounds
    return mine & (offset >= start) & (offset < end)
