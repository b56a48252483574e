"""Reading exact offset ranges of one topic as a DataFrame."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from cdc_assets.changes.offsets import OffsetRange

FETCH_OPTIONS: Final = {
    "kafka.max.poll.records": "5000",
    "kafka.fetch.max.bytes": str(4 << 20),
    "kafka.max.partition.fetch.bytes": str(4 << 20),
    "kafka.receive.buffer.bytes": "-1",
    "kafka.fetch.max.wait.ms": "10",
    "kafka.isolation.level": "read_committed",
}
"""What reads a backlog fastest: the next fetch fills the socket's buffer, sized by the kernel,
while a task works on the last. Against the client's defaults they take half the time; fetches
of 16 MiB take twice as long as these, and the memory of one per task and partition. A consumer
that has read to the log's end still waits there for more when its next batch comes: not long."""

ONE_TASK: Final = 20_000
"""Up to so many records are read by one task: nothing is shuffled then, which takes longer than
what several tasks save. With four partitions of 100 records a batch takes 1.5 instead of 2.0 CPU
seconds of a server that is still warming up."""

WITH_HEADERS: Final = {"includeHeaders": "true"}
"""A column more: ``headers``."""


def read_ranges(
    spark: SparkSession, topic: str, ranges: tuple[OffsetRange, ...], options: Mapping[str, str]
) -> DataFrame:
    """The records of ``ranges``: ``key value topic partition offset timestamp timestampType``.

    Reading fails if the log no longer holds a range (``failOnDataLoss``); committed offsets
    of consumer groups play no part.

    Args:
        spark: the session.
        topic: to read from.
        ranges: one per partition, none empty.
        options: the cluster, as Spark's reader spells it (``kafka.bootstrap.servers`` …).
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
    )
    return records.coalesce(1) if sum(each.length for each in ranges) <= ONE_TASK else records
