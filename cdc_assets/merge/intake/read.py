"""Reads exact offset ranges of one topic as a DataFrame."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.log.values import RawRecord

_AT_ONCE: Final = "kafka.max.poll.records"
USUALLY_AT_ONCE: Final = 5000
FETCH_OPTIONS: Final = {
    _AT_ONCE: str(USUALLY_AT_ONCE),
    "kafka.fetch.max.bytes": str(4 << 20),
    "kafka.max.partition.fetch.bytes": str(4 << 20),
    "kafka.receive.buffer.bytes": "-1",
    "kafka.fetch.max.wait.ms": "10",
    "kafka.isolation.level": "read_committed",
}
"""The fastest options for a backlog: the next fetch fills the socket's buffer, sized by the
kernel, while a task works on the last. They take half the time of the client's defaults; fetches
of 16 MiB take twice as long as these, and the memory of one per task and partition. A consumer
that has read to the log's end still waits there for more when its next batch comes, so the wait
is short."""

_HEADERS: Final = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))

ONE_TASK: Final = 20_000
"""Up to this many records are read by one task: nothing is shuffled then, which would take longer
than several tasks save. With four partitions of 100 records a batch takes 1.5 instead of 2.0 CPU
seconds of a server that is still warming up."""

FEW: Final = 1_000
FEW_BYTES: Final = 1 << 20
"""Up to so many records of so many bytes are read by this process and sent along with the plan: a
reader of Spark's, with an admin client and a consumer of its own, takes longer than they do."""

WITH_HEADERS: Final = {"includeHeaders": "true"}
"""The option for one more column: ``headers``."""


def at_once(most: int) -> dict[str, str]:
    """Returns the option for a client that returns no more records than this at once.

    It decompresses all of them before any is looked at, whatever they grow to.
    """
    return {_AT_ONCE: str(min(most, USUALLY_AT_ONCE))}


def read_ranges(
    spark: SparkSession, topic: str, ranges: tuple[OffsetRange, ...], options: Mapping[str, str]
) -> DataFrame:
    """Reads records as ``key value topic partition offset timestamp``, and ``headers`` if asked.

    Reading fails if the log no longer holds a range (``failOnDataLoss``); committed offsets
    of consumer groups are not used.

    Args:
        spark: the session.
        topic: to read from.
        ranges: one per partition, none empty.
        options: of the cluster, as Spark's reader spells them (``kafka.bootstrap.servers`` …).
    """

    def vector(offsets: dict[int, int]) -> str:
        return json.dumps({topic: {str(p): offset for p, offset in offsets.items()}})

    records = (
        spark.read.format("kafka")
        .options(**{**FETCH_OPTIONS, **options})
        .option("assign", json.dumps({topic: [each.partition for each in ranges]}))
        .option("startingOffsets", vector({each.partition: each.start for each in ranges}))
        .option("endingOffsets", vector({each.partition: each.end for each in ranges}))
        .option("failOnDataLoss", "true")
        .load()
        .drop("timestampType")
    )
    return records.coalesce(1) if is_one_task(ranges) else records


def sent_along(
    spark: SparkSession, records: Sequence[RawRecord], *, with_headers: bool = False
) -> DataFrame:
    """Returns records, at least one, as `read_ranges` does, in one task."""
    place = [each.coordinate for each in records]
    columns = {
        "key": pa.array([each.key for each in records], pa.binary()),
        "value": pa.array([each.value for each in records], pa.binary()),
        "topic": pa.array([each.topic for each in place], pa.string()),
        "partition": pa.array([each.partition for each in place], pa.int32()),
        "offset": pa.array([each.offset for each in place], pa.int64()),
        "timestamp": pa.array([each.timestamp for each in records], pa.timestamp("us", "UTC")),
    }
    if with_headers:
        found = ([{"key": n, "value": v} for n, v in each.headers] or None for each in records)
        columns["headers"] = pa.array(list(found), _HEADERS)
    # Without a task nothing can be counted, and Spark's driver itself evaluates projections of
    # literals, and filters even above a coalesce: but not above the task's number, which is 0.
    in_task = F.col("offset") + F.spark_partition_id()
    return spark.createDataFrame(pa.table(columns)).coalesce(1).withColumn("offset", in_task)


def is_one_task(ranges: Sequence[OffsetRange]) -> bool:
    """Returns whether one task reads these ranges."""
    return sum(each.length for each in ranges) <= ONE_TASK
