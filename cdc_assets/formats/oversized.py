"""Records that are too large to be read: no parser sees them, and they are refused.

A parser's memory is several times that of what it parses, so that one record could end a process
that many tables share. How large a record may be is ``batch.max_record_bytes`` of its source; key
and value count, as they lie in Kafka once they are decompressed.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.formats.format import Format
from cdc_assets.formats.layout import Layout

OVERSIZE: Final = "oversize"


def blanked(raw: DataFrame, fmt: Format, layout: Layout) -> DataFrame:
    """The records, without ``key``, ``value`` and ``headers`` of those that are too large.

    These have their bytes in ``oversize``, a column more, which is NULL for all others.

    Args:
        raw: the records; with ``headers`` if the format reads them.
        fmt: of the records.
        layout: of them.
    """
    size, most = size_of(F.col("key"), F.col("value")), F.lit(fmt.source.batch.max_record_bytes)
    fits = size <= most
    names = ("key", "value", *(("headers",) if fmt.reads_headers(layout) else ()))
    kept = {name: F.when(fits, F.col(name)) for name in names}
    return raw.withColumns({**kept, OVERSIZE: F.when(~fits, size)})


def size_of(*parts: Expression) -> Expression:
    """How many bytes these have together; NULL has none."""
    sizes = [F.coalesce(F.octet_length(each), F.lit(0)).cast("bigint") for each in parts]
    total = sizes[0]
    for size in sizes[1:]:
        total = total + size
    return total


def refusal(fmt: Format) -> Expression:
    """Why a record is refused that is too large; NULL for others."""
    most = fmt.source.batch.max_record_bytes
    told = F.concat(F.col(OVERSIZE).cast("string"), F.lit(f" bytes, more than {most}"))
    text = F.concat(F.lit("the record has "), told, F.lit(" (batch.max_record_bytes)"))
    return F.when(F.col(OVERSIZE).isNotNull(), text)
