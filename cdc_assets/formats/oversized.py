"""Refuses records that are too large to be read, before any parser sees them.

A parser needs several times the memory of its input, so that one record could end a process that
many tables share. The limit is the source's ``batch.max_record_bytes``; it covers key and value as
stored in Kafka, decompressed.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.formats.format import Format
from cdc_assets.formats.layout import Layout

OVERSIZE: Final = "oversize"
_LIMIT: Final = " (batch.max_record_bytes)"


def blanked(raw: DataFrame, fmt: Format, layout: Layout) -> DataFrame:
    """Blanks ``key``, ``value`` and ``headers`` of records that are too large.

    Adds the column ``oversize``: the size in bytes of such a record, NULL for all others.

    Args:
        raw: the records; with ``headers`` if the format reads them.
        fmt: their format.
        layout: their layout.
    """
    size, most = size_of(F.col("key"), F.col("value")), F.lit(fmt.source.batch.max_record_bytes)
    fits = size <= most
    names = ("key", "value", *(("headers",) if fmt.reads_headers(layout) else ()))
    kept = {name: F.when(fits, F.col(name)) for name in names}
    return raw.withColumns({**kept, OVERSIZE: F.when(~fits, size)})


def size_of(*parts: Expression) -> Expression:
    """Returns the total size in bytes; NULL counts as 0."""
    sizes = [F.coalesce(F.octet_length(each), F.lit(0)).cast("bigint") for each in parts]
    total = sizes[0]
    for size in sizes[1:]:
        total = total + size
    return total


def refusal(fmt: Format) -> Expression:
    """Returns the reason why a record is too large; NULL for others."""
    most = fmt.source.batch.max_record_bytes
    size = F.concat(F.col(OVERSIZE).cast("string"), F.lit(f" bytes, more than {most}"))
    text = F.concat(F.lit("the record has "), size, F.lit(_LIMIT))
    return F.when(F.col(OVERSIZE).isNotNull(), text)


def is_refusal(reason: str) -> bool:
    """Returns whether a reason is one of `refusal`."""
    return reason.endswith(_LIMIT)
