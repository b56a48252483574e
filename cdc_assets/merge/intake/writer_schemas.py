"""Finds the schemas that a batch's records were written with, with as few reads as possible.

The records of a table nearly always have one schema, or one more than before. So the schemas of
earlier batches are kept for as long as the process lives, at first those of the records at both
ends of the ranges: if the schema changes once in between, both are among them. A batch that meets
another one reports it once it is folded (`cdc_assets.merge.plan.outcome.NeedsSchemas`), and only
then the schemas of all its records are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.formats.by_table import opened
from cdc_assets.formats.format import Format
from cdc_assets.formats.sample import Written
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.reader import EPOCH
from cdc_assets.log.values import RawRecord
from cdc_assets.merge.plan.plan import BatchPlan

_LAST: Final = 4
"""Few, as a record may have 20 MB."""

Schemas = dict[int, Written | None]
"""Schemas by number; None for one that is not of change events."""


@dataclass(frozen=True, slots=True)
class WrittenSchemas:
    """The schemas of tables' records; known ones are not read again."""

    _known: dict[TableName, Schemas] = field(
        default_factory=lambda: defaultdict[TableName, Schemas](dict)
    )

    def of_first(self, plan: BatchPlan, fmt: Format, log: KafkaLog) -> Schemas | None:
        """Returns those of the first and last records of each range; None if one has no schema.

        Raises:
            CdcError: if Kafka, or a registry, does not answer.
        """
        table, found = plan.entry.table, self._met(plan, fmt)
        for record in _at_the_ends(plan, log):
            if _is_of_another(record, plan, fmt):
                continue
            for message in fmt.unpacked(record, table) if record.value is not None else ():
                written = fmt.written(message, plan.layout)
                if written is None or written.number is None:
                    return None
                found[written.number] = written
        self._known[table] |= found
        return found if found or not _is_of_many(plan, fmt) else None

    def _met(self, plan: BatchPlan, fmt: Format) -> Schemas:
        """Returns those of earlier batches, if the first records are mostly of other tables."""
        return dict(self._known[plan.entry.table]) if _is_of_many(plan, fmt) else {}

    def of_all(self, plan: BatchPlan, fmt: Format, raw: DataFrame) -> Schemas:
        """Returns the schemas of all records of a batch.

        Raises:
            CdcError: if a registry does not answer.
        """
        known = self._known[plan.entry.table]
        numbers = _numbers(plan, fmt, raw)
        new = [number for number in numbers if number not in known]
        if new:
            for number, record in _first_records(plan, fmt, raw, new).items():
                known[number] = fmt.written(record, plan.layout)
        return {number: known[number] for number in numbers}


def _is_of_many(plan: BatchPlan, fmt: Format) -> bool:
    """Returns whether the topic may hold records of other tables."""
    return fmt.has_many_tables or (fmt.names_tables and plan.entry.is_shared)


def _is_of_another(record: RawRecord, plan: BatchPlan, fmt: Format) -> bool:
    """Returns whether a record names another table, and is not read for this one."""
    if not (fmt.names_tables and plan.entry.is_shared):
        return False
    return fmt.named(record, plan.entry.table.source) not in (None, plan.entry.at_source)


def _at_the_ends(plan: BatchPlan, log: KafkaLog) -> Iterator[RawRecord]:
    """Yields the first record of each range, and a few of its last ones."""
    topic = plan.entry.topic
    yield from log.first_of(topic, plan.ranges)
    last = {
        (topic, each.partition): (max(each.start, each.end - _LAST), each.end)
        for each in plan.ranges
        if each.length > 1
    }
    yield from log.part(last) if last else ()


def _numbers(plan: BatchPlan, fmt: Format, raw: DataFrame) -> list[int]:
    found = _numbered(plan, fmt, raw).select("writer").distinct().collect()
    return sorted(row["writer"] for row in found)


def _numbered(plan: BatchPlan, fmt: Format, raw: DataFrame) -> DataFrame:
    read = opened(raw, fmt, plan.layout)
    return fmt.numbered(read, plan.layout, plan.entry.table, {}).where("writer IS NOT NULL")


def _first_records(
    plan: BatchPlan, fmt: Format, raw: DataFrame, numbers: Sequence[int]
) -> dict[int, RawRecord]:
    """Returns the first record of each of these schemas, by the schema's number."""
    carrier = fmt.schema_carrier(plan.layout)
    headers = F.col("headers") if fmt.reads_headers(plan.layout) else F.lit(None)
    numbered = _numbered(plan, fmt, raw).select(
        "writer",
        F.struct("offset", "partition").alias("at"),
        F.struct("key", carrier.alias("value"), headers.alias("headers")).alias("record"),
    )
    found = (
        numbered.where(F.col("writer").isin(*numbers))
        .groupBy("writer")
        .agg(F.min("at").alias("at"), F.min_by("record", "at").alias("record"))
    )
    rows = sorted(found.collect(), key=lambda row: row["at"])
    return {row["writer"]: _raw(row, plan.entry.topic) for row in rows}


def _raw(row: Row, topic: str) -> RawRecord:
    at, record = row["at"], row["record"]
    return RawRecord(
        Coordinate(topic, at["partition"], at["offset"]),
        EPOCH,
        _bytes(record["key"]),
        _bytes(record["value"]),
        tuple((each["key"], _bytes(each["value"])) for each in record["headers"] or ()),
    )


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
