"""Finds the columns that a record should have and does not."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats.spec import ReadSpec


def lacks(spec: ReadSpec) -> Expression:
    """Returns the expected columns that a record's schema does not have; NULL if it has all."""
    there = {spec.present_names.get(name, name) for name in spec.schema.names}
    of_all = texts([name for name in spec.expected if name not in there])
    if spec.lacks:
        by_schema = ((F.lit(number).cast("bigint"), texts(n)) for number, n in spec.lacks.items())
        of_all = F.create_map(*(each for pair in by_schema for each in pair))[F.col("writer")]
    return F.when(F.size(of_all) > 0, of_all)


def texts(values: Sequence[str]) -> Expression:
    """Returns a constant array."""
    return F.array(*(F.lit(each) for each in values)).cast("array<string>")
