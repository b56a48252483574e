"""How what belongs to a batch takes part in a join: sent to every task while it is small.

A batch may hold any number of records: after partitions were added it takes all there are.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

BROADCAST_KEYS = 2_000_000
"""Up to this many keys of a batch go to every task; more are joined by sorting, in bounded
memory."""


def sent(frame: DataFrame, count: int, columns: int = 1) -> DataFrame:
    """Hint to broadcast it, or from `BROADCAST_KEYS` on to sort both sides, in bounded memory.

    Args:
        frame: one side of a join.
        count: how many rows it has at most.
        columns: how many columns each of them has, beside the few of a key.
    """
    return F.broadcast(frame) if count * columns <= BROADCAST_KEYS else frame.hint("merge")
