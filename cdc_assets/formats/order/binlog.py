"""MySQL and MariaDB: epoch and file number, position in the file, row of the event.

Whether the numbering of files starts again is found by `cdc_assets.changes.numbering.scan`, record
by record. Within a run of records that rise in one file base and lineage nothing can start again:
Spark finds the runs, and of each only its ends, and where its last transaction begins, are
looked at.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import ClassVar, Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

from cdc_assets.changes.numbering import BinlogRecord, Numbering, scan
from cdc_assets.changes.position import Scheme
from cdc_assets.formats.order.order import Epochs, Order, OrderState, Placed, epoch_of, in_epoch

_LINEAGE: Final = r"^(?:([0-9a-fA-F-]{36}(?::\w+)?):[0-9]+|([0-9]+)-[0-9]+-[0-9]+)$"
_FILE: Final = r"(?s)^(.+)\.([0-9]{1,10})\z"


class BinlogOrder(Order):
    """The rules of `cdc_assets.changes.position.binlog`."""

    scheme = Scheme.BINLOG
    types: ClassVar = {
        "server_id": LongType,
        "gtid": StringType,
        "file": StringType,
        "pos": LongType,
        "row": LongType,
    }
    tells_repeats = True
    is_scanned = True

    def source_numbers(self, placed: Placed, state: OrderState) -> list[Expression]:
        """File number with its epoch, position, row."""
        source = placed.source
        file, pos, row = _file_number(source), source.getField("pos"), _row(source)
        first = in_epoch(self.scheme, epoch_of(placed, state), file)
        return [F.when((pos > 0) & (row >= 0), first), pos, row]

    def epochs(self, carried: str) -> Epochs:
        """Of each partition whose numbering has started again."""
        return {p: each.restarts for p, each in numberings(carried).items() if each.restarts}

    def scanned(self, sources: DataFrame, carried: str) -> str:
        """With what a batch's records tell of the numbering."""
        before = numberings(carried)
        records: dict[int, list[BinlogRecord]] = defaultdict(list)
        for row in _turns(records_of(sources)).orderBy("partition", "offset").collect():
            place = (row["file_no"], row["pos"], row["row"])
            records[row["partition"]].append(
                BinlogRecord(
                    row["offset"], row["base"], place, row["gtid"], row["server_id"],
                    row["newest_ts_ms"], row["is_snapshot"],
                )
            )  # fmt: skip
        found = dict(before)
        for partition, each in records.items():
            found[partition], _ = scan(before.get(partition, Numbering()), each)
        return to_text(found)


def numberings(text: str) -> dict[int, Numbering]:
    """What the publish before recorded, by partition."""
    said = json.loads(text) if text else {}
    return {
        int(partition): Numbering.from_json(json.dumps(each)) for partition, each in said.items()
    }


def to_text(by_partition: Mapping[int, Numbering]) -> str:
    """The inverse of `numberings`."""
    return json.dumps(
        {str(p): json.loads(each.to_json()) for p, each in sorted(by_partition.items())},
        separators=(",", ":"),
    )


def records_of(sources: DataFrame) -> DataFrame:
    """What a `BinlogRecord` is made of, of the records that have a position."""
    source = F.col("source")
    file, snapshot = source.getField("file"), source.getField("snapshot")
    placed = sources.select(
        "partition",
        "offset",
        F.regexp_extract(file, _FILE, 1).alias("base"),
        _file_number(source).alias("file_no"),
        source.getField("pos").alias("pos"),
        _row(source).alias("row"),
        source.getField("gtid").alias("gtid"),
        F.coalesce(source.getField("server_id"), F.lit(0)).alias("server_id"),
        F.coalesce(source.getField("ts_ms"), F.lit(0)).alias("ts_ms"),
        (F.coalesce(snapshot, F.lit("false")) != "false").alias("is_snapshot"),
    )
    return placed.where("file_no IS NOT NULL AND pos > 0")


def _file_number(source: Expression) -> Expression:
    number = F.regexp_extract(source.getField("file"), _FILE, 2).try_cast("bigint")
    return F.when(number < 2**32, number)


def _row(source: Expression) -> Expression:
    return F.coalesce(source.getField("row"), F.lit(0).cast("bigint"))


def _turns(placed: DataFrame) -> DataFrame:
    """The ends of each run, and the first record of its last transaction.

    ``newest_ts_ms`` is the highest time of the run up to the record.
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
    place = F.struct("file_no", "pos", "row")
    named = placed.withColumns({"origin": origin, "place": place})
    breaks = (
        F.lag("offset").over(in_log).isNull()
        | (F.lag("base").over(in_log) != F.col("base"))
        | (F.lag("origin").over(in_log) != F.col("origin"))
        | (F.lag("is_snapshot").over(in_log) != F.col("is_snapshot"))
        | (F.lag("place").over(in_log) >= F.col("place"))
    )
    started = named.withColumn("starts", breaks)
    numbered = started.withColumn("run", F.sum(F.col("starts").cast("int")).over(in_log))
    in_run = Window.partitionBy("partition", "run").orderBy("offset")
    whole_run = Window.partitionBy("partition", "run")
    marked = numbered.withColumns(
        {
            "ends": F.lead("offset").over(in_run).isNull(),
            "newest_ts_ms": F.max("ts_ms").over(in_run),
            "last_gtid": F.max_by("gtid", "offset").over(whole_run),
            "is_new_gtid": _differs("gtid", in_run),
        }
    )
    begins = (F.col("gtid") == F.col("last_gtid")) & F.col("is_new_gtid")
    return marked.where(F.col("starts") | F.col("ends") | F.coalesce(begins, F.lit(False)))


def _differs(name: str, window: object) -> Expression:
    before = F.lag(name).over(window)  # type: ignore[arg-type]
    return before.isNull() | (before != F.col(name))
