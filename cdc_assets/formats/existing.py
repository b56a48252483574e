"""Fills added columns in records that are older than the column."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.formats.lacking import texts
from cdc_assets.formats.spec import ReadSpec
from cdc_assets.schema.types import Column, Primitive


def existing_value(column: Column) -> Expression:
    """Returns the lake's value of the column in rows older than it; NULL if none."""
    text = column.existing.text if column.existing else None
    if column.type is Primitive.BINARY:
        return F.unhex(F.lit(text))
    return F.lit(text).cast(str(column.type))


def with_existing(decoded: DataFrame, spec: ReadSpec) -> DataFrame:
    """Fills these values into the rows of decoded changes whose records lack the columns.

    Whether a record lacks a column because it is older has been checked before
    (`ReadSpec.may_lack`): until then the column is among the absent.
    """
    columns = [each for each in spec.target.columns if each.existing and not each.absent]
    if not columns:
        return decoded
    row, absent = F.col("row"), F.col("absent")

    def value(column: Column) -> Expression:
        given = row.getField(column.name)
        if column not in columns:
            return given.alias(column.name)
        lacks = F.coalesce(F.array_contains(absent, column.sent_as), F.lit(False))
        return F.when(lacks, existing_value(column)).otherwise(given).alias(column.name)

    filled = F.when(row.isNotNull(), F.struct(*(value(each) for each in spec.target.columns)))
    known = (spec.target.column(n).sent_as for n in spec.older if n not in spec.doubtful)
    rest = F.array_except(absent, texts([*known]))
    left = F.when(F.size(rest) > 0, rest)
    return decoded.withColumns({"row": filled, "absent": left})
