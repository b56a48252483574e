"""Chooses how a batch's rows are joined: broadcast to every task while they are few.

A batch may hold any number of records: after partitions were added it takes all there are.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

BROADCAST_KEYS = 2_000_000
"""Largest number of a batch's keys that are broadcast; more are joined by sorting, in bounded
memory."""


def hinted(frame: DataFrame, count: int, columns: int = 1) -> DataFrame:
    """Hints to broadcast the frame, or above `BROADCAST_KEYS` to sort both sides.

    Sorting needs only bounded memory.

    Args:
        frame: one side of a join.
        count: largest possible number of its rows.
        columns: number of columns of each row, without the few columns of a key.
    """
    return F.broadcast(frame) if count * columns <= BROADCAST_KEYS else frame.hint("merge")
