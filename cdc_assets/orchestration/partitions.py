"""Defines partitions: one UTC hour of the log each, the same hours for every table.

Partition H of a table is, for each Kafka partition, the offsets ``[f(H), f(H+1))`` where
``f(t)`` is the earliest offset with a timestamp at or after ``t``. ``f`` is monotone, so the
hours tile the log exactly, whatever order the timestamps are in. Anything older than the
first hour belongs to the first partition.
"""

from __future__ import annotations

from typing import Final

import dagster as dg

from cdc_assets.log.hours import HOURS_START, KEY_FORMAT

HOURS: Final = dg.HourlyPartitionsDefinition(
    start_date=HOURS_START, end_offset=1, fmt=KEY_FORMAT, timezone="UTC"
)
"""One definition with a constant start: tables with different definitions could not share a run.
``end_offset=1`` makes the current hour a partition."""
