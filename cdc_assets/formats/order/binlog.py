"""Orders MySQL's and MariaDB's changes by file, with its epoch, and position; MySQL's by row, too.

`cdc_assets.changes.numbering.scan` detects, record by record, that the numbering of files starts
again. It cannot start again within a run: records of one file base and lineage that never step
back, sent between two restarts. Spark therefore finds the runs, and only the ends of each and the
beginning of its last transaction are scanned. A restart found in one partition splits the runs of
all partitions, which are then scanned once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

from cdc_assets.changes.numbering import (
    BinlogRecord,
    Numbering,
    NumberingBegin,
    RestartSeenLateError,
    scan,
)
from cdc_assets.changes.position import Scheme
from cdc_assets.errors import TerminalError
from cdc_assets.formats.order.order import (
    Epochs,
    Order,
    OrderState,
    Placed,
    Scanned,
    epoch_of,
    in_epoch,
)

_LINEAGE: Final = r"^(?:([0-9a-fA-F-]{36}(?::\w+)?):[0-9]+|([0-9]+)-[0-9]+-[0-9]+)$"
_FILE: Final = r"(?s)^(.+)\.([0-9]{1,10})\z"


class BinlogOrder(Order):
    """Orders by ``(epoch and file number, pos, row, offset)``.

    ``source.pos`` is where the binlog event begins and ``source.row`` is the row in it, from 0.
    Rows of a snapshot carry the binlog position that the snapshot is consistent with, which is
    the end of the last event that it contains; rows of an incremental one that of the watermark.
    https://debezium.io/documentation/reference/stable/connectors/mysql.html (``source``)
    """

    scheme = Scheme.BINLOG
    types: ClassVar = {
        "server_id": LongType,
        "gtid": StringType,
        "file": StringType,
        "pos": LongType,
        "row": LongType,
    }
    tells_repeats = True
    tells_changes = True
    is_scanned = True

    def source_numbers(self, placed: Placed, state: OrderState) -> list[Expression]:
        """Returns file number with its epoch, position, row."""
        row = F.coalesce(placed.source.getField("row"), F.lit(0).cast("bigint"))
        return [*self._place(placed, state, row >= 0), row]

    def epochs(self, carried: str) -> Epochs:
        """Returns the epochs of each partition whose numbering has started again."""
        return Numbering.from_json(carried).begins

    def scanned(self, sources: DataFrame, carried: str) -> Scanned:
        """Extends the carried state by the numbering in a batch's records.

        Raises:
            TerminalError: if records after a reset may have been merged with the numbering before
                it.
        """
        before = Numbering.from_json(carried)
        placed = records_of(sources, has_row="row" in self.types)
        known: set[NumberingBegin] = {*before.restarts}
        try:
            records, repeats = _scan_records(placed, known)
            while not known >= {*(found := scan(before, records)).restarts}:
                known |= {*found.restarts}
                records, repeats = _scan_records(placed, known)
        except RestartSeenLateError as error:
            what = "the binlog was reset before changes that are merged already"
            remedy = "it is unknown which of these changes the table has: cdc-assets rebuild TABLE"
            raise TerminalError(
                what, where=str(error), remedy=remedy, page="binlog-reset"
            ) from error
        return Scanned(found.to_json(), repeats)

    def _place(self, placed: Placed, state: OrderState, is_whole: Expression) -> list[Expression]:
        source = placed.source
        file, pos = _file_number(source), source.getField("pos")
        first = in_epoch(self.scheme, epoch_of(placed, state), file)
        return [F.when((pos > 0) & is_whole, first), pos]


class MariaDbOrder(BinlogOrder):
    """Orders by ``(epoch and file number, pos, offset)``.

    From 11.4 on, unless ``binlog_legacy_event_pos`` is on, all events of a transaction have the
    position of its begin, while ``source.row`` starts at 0 in each of them: within a transaction
    the order is that of delivery. ``transaction.total_order`` cannot replace it: connectors before
    Debezium 3.7 count from 1 again when they resume within a transaction.
    https://mariadb.com/docs/server/server-management/variables-and-modes/server-system-variables
    """

    scheme = Scheme.MARIADB
    types: ClassVar = {name: each for name, each in BinlogOrder.types.items() if name != "row"}
    is_unique = False
    tells_changes = False

    def source_numbers(self, placed: Placed, state: OrderState) -> list[Expression]:
        """Returns file number with its epoch, position."""
        return self._place(placed, state, F.lit(True))


def _scan_records(
    placed: DataFrame, restarts: Iterable[NumberingBegin]
) -> tuple[list[BinlogRecord], bool]:
    """Returns the records to be scanned, and whether any repeats the place before it."""
    turns = _turns(placed, sorted({each.sent_ms for each in restarts}))
    rows = turns.orderBy("partition", "offset").collect()
    records = [
        BinlogRecord(
            row["partition"], row["offset"], row["sent_ms"], row["base"],
            (row["file_no"], row["pos"]), row["gtid"], row["server_id"],
            row["newest_ts_ms"], row["is_snapshot"],
        )
        for row in rows
    ]  # fmt: skip
    return records, any(row["repeats"] for row in rows)


def records_of(sources: DataFrame, *, has_row: bool = True) -> DataFrame:
    """Returns the fields of `BinlogRecord` and ``row``, of the records that have a position.

    Args:
        sources: of the records.
        has_row: whether ``source`` has a ``row``, which is NULL otherwise.
    """
    source = F.col("source")
    file, snapshot = source.getField("file"), source.getField("snapshot")
    placed = sources.select(
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("sent_ms"),
        F.regexp_extract(file, _FILE, 1).alias("base"),
        _file_number(source).alias("file_no"),
        source.getField("pos").alias("pos"),
        source.getField("gtid").alias("gtid"),
        F.coalesce(source.getField("server_id"), F.lit(0)).alias("server_id"),
        F.coalesce(source.getField("ts_ms"), F.lit(0)).alias("ts_ms"),
        (F.coalesce(snapshot, F.lit("false")) != "false").alias("is_snapshot"),
        (source.getField("row") if has_row else F.lit(None).cast("bigint")).alias("row"),
    )
    # Rows of incremental snapshots have a watermark's position, which a crash moves back.
    is_placed = F.coalesce(snapshot, F.lit("false")) != "incremental"
    return placed.where(is_placed & F.expr("file_no IS NOT NULL AND pos > 0"))


def _file_number(source: Expression) -> Expression:
    number = F.regexp_extract(source.getField("file"), _FILE, 2).try_cast("bigint")
    return F.when(number < 2**32, number)


def _turns(placed: DataFrame, restarts_ms: Sequence[int]) -> DataFrame:
    """Returns the ends of each run, and the first record of its last transaction.

    ``newest_ts_ms`` is the highest time of the run up to the record, ``repeats`` whether any of the
    run follows another at its place that does not come before it.

    Args:
        placed: from `records_of`.
        restarts_ms: times at which records that show a restart were sent: a run ends before each.
    """
    in_log = Window.partitionBy("partition").orderBy("offset")
    lineage = F.regexp_extract(F.coalesce("gtid", F.lit("")), _LINEAGE, 0)
    origin = F.when(
        lineage != "",
        F.coalesce(
            F.nullif(F.regexp_extract("gtid", _LINEAGE, 1), F.lit("")),
            F.regexp_extract("gtid", _LINEAGE, 2),
        ),
    ).otherwise(F.col("server_id").cast("string"))
    place = F.struct("file_no", "pos")
    since = F.array(*map(F.lit, restarts_ms)) if restarts_ms else F.array().cast("array<bigint>")
    sent_ms = F.max("sent_ms").over(in_log)
    named = placed.withColumns({"origin": origin, "place": place, "lifted_ms": sent_ms})
    named = named.withColumn(
        "restarts", F.size(F.filter(since, lambda each: each <= F.col("lifted_ms")))
    )
    before = F.lag("place").over(in_log)
    breaks = (
        F.lag("offset").over(in_log).isNull()
        | (F.lag("base").over(in_log) != F.col("base"))
        | (F.lag("origin").over(in_log) != F.col("origin"))
        | (F.lag("is_snapshot").over(in_log) != F.col("is_snapshot"))
        | (before > F.col("place"))
        | ((before == F.col("place")) & ~F.lag("gtid").over(in_log).eqNullSafe(F.col("gtid")))
        | (F.lag("restarts").over(in_log) != F.col("restarts"))
    )
    again = (before == F.col("place")) & (F.lag("row").over(in_log) >= F.col("row"))
    is_again = F.coalesce(again & ~F.col("is_snapshot"), F.lit(False))
    started = named.withColumns({"starts": breaks, "again": is_again})
    numbered = started.withColumn("run", F.sum(F.col("starts").cast("int")).over(in_log))
    in_run = Window.partitionBy("partition", "run").orderBy("offset")
    whole_run, was = Window.partitionBy("partition", "run"), F.lag("gtid").over(in_run)
    marked = numbered.withColumns(
        {
            "ends": F.lead("offset").over(in_run).isNull(),
            "newest_ts_ms": F.max("ts_ms").over(in_run),
            "repeats": F.max(F.col("again")).over(whole_run),
            "last_gtid": F.max_by("gtid", "offset").over(whole_run),
            "is_new_gtid": was.isNull() | (was != F.col("gtid")),
        }
    )
    begins = (F.col("gtid") == F.col("last_gtid")) & F.col("is_new_gtid")
    return marked.where(F.col("starts") | F.col("ends") | F.coalesce(begins, F.lit(False)))
