"""Epochs of binlog numbering for a batch, before its positions can be made.

Whether the numbering starts again is found by `cdc_assets.changes.numbering.scan`, record by
record. Within a run of records that rise in one file base and lineage nothing can start again:
Spark finds the runs, and of each only its ends, and where its last transaction begins, are
looked at.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from cdc_assets.changes.numbering import BinlogRecord, Numbering, scan
from cdc_assets.changes.position import Scheme
from cdc_assets.formats.debezium_json import source_type
from cdc_assets.formats.positions import Epochs, binlog_columns

_LINEAGE = r"^(?:([0-9a-fA-F-]{36}(?::\w+)?):[0-9]+|([0-9]+)-[0-9]+-[0-9]+)$"


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


def epochs_of(by_partition: Mapping[int, Numbering]) -> Epochs:
    """For decoding."""
    return {p: each.restarts for p, each in by_partition.items() if each.restarts}


def scanned(
    raw: DataFrame, before: Mapping[int, Numbering], *, inline: bool
) -> dict[int, Numbering]:
    """The numbering of each partition after a batch.

    Args:
        raw: its records.
        before: the numbering after the batch before.
        inline: whether records carry their schema.
    """
    records: dict[int, list[BinlogRecord]] = defaultdict(list)
    for row in _turns(_columns(raw, inline=inline)).orderBy("partition", "offset").collect():
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
    return found


def _columns(raw: DataFrame, *, inline: bool) -> DataFrame:
    document = StructType([StructField("source", source_type(Scheme.BINLOG))])
    if inline:
        document = StructType([StructField("payload", document)])
    parsed = raw.select(
        F.from_json(F.col("value").cast("string"), document).alias("document"),
        "partition",
        "offset",
    )
    envelope = F.col("document.payload") if inline else F.col("document")
    placed = parsed.select(*binlog_columns(envelope.getField("source")))
    return placed.where("file_no IS NOT NULL AND pos > 0")


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
