"""Limits days and instants to those that every Iceberg reader supports: years 0001 to 9999."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

FIRST_DAY, LAST_DAY = -719162, 2932896
_MICROS_IN_DAY: Final = 86_400_000_000
FIRST_MICRO, LAST_MICRO = FIRST_DAY * _MICROS_IN_DAY, (LAST_DAY + 1) * _MICROS_IN_DAY - 1


def is_representable(instant: Expression) -> Expression:
    """Returns whether it is in these years: a zone may move the instant of a text out of them."""
    return F.unix_micros(instant).between(FIRST_MICRO, LAST_MICRO)
