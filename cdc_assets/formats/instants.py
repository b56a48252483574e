"""Days and instants that every reader of Iceberg can represent: 0001-01-01 to 9999-12-31."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

FIRST_DAY, LAST_DAY = -719162, 2932896
_MICROS_IN_DAY: Final = 86_400_000_000
FIRST_MICRO, LAST_MICRO = FIRST_DAY * _MICROS_IN_DAY, (LAST_DAY + 1) * _MICROS_IN_DAY - 1


def is_representable(instant: Expression) -> Expression:
    """Whether it is in these years: an offset may put the instant of a text into others."""
    return F.unix_micros(instant).between(FIRST_MICRO, LAST_MICRO)
