"""Finds and reads the statements among a batch's records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import functions as F

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.changes.position import LowWatermarks, Scheme
from cdc_assets.errors import TerminalError
from cdc_assets.formats.format import Format
from cdc_assets.formats.spec import STATEMENT
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.merge.intake.decoding import BatchDecoder
from cdc_assets.merge.statements.failures import translated
from cdc_assets.schema.ddl import Ddl

_MOST: Final = 1000


def statements_among(
    decoder: BatchDecoder, low_watermarks: LowWatermarks
) -> tuple[Coordinate, ...]:
    """Returns where there are statements that may have changed the table other than row by row.

    Args:
        decoder: of the batch; the columns that it knows do not matter.
        low_watermarks: see `cdc_assets.changes.position.low_watermark_at`.

    Raises:
        TerminalError: if there are too many to read one by one.
    """
    plan, likely = decoder.plan, decoder.format.may_tell(decoder.raw)
    with translated("look for statements", plan.where):
        decoded = decoder.decode(low_watermarks, likely)
        found = decoded.where(F.col("op") == STATEMENT).select("partition", "offset")
        rows = found.distinct().limit(_MOST + 1).collect()
    if len(rows) > _MOST:
        what = f"a batch holds more than {_MOST} statements on the table"
        raise TerminalError(what, where=plan.where, remedy="lower batch.max_records")
    return tuple(sorted(Coordinate(plan.entry.topic, *row) for row in rows))


def read_statements(
    log: KafkaLog, fmt: Format, scheme: Scheme, where: Sequence[Coordinate]
) -> tuple[Ddl, ...]:
    """Returns the statements at these coordinates, in the order of the log.

    Raises:
        UnreachableError: if Kafka does not answer.
    """
    records = [
        record
        for at in where
        for record in log.part({(at.topic, at.partition): (at.offset, at.offset + 1)})
    ]
    records.sort(key=lambda each: each.coordinate)
    return tuple(ddl for record in records for ddl in fmt.statements(record, scheme))
