"""Remembers the events that a keyless table has counted, so that a repeat counts once.

Counting is not idempotent, unlike replacing a row by its key. Each streamed event is written to a
side table before the rows are published, and counts once those are
(`cdc_assets.merge.tables.side_table`): entries of a failed batch never count, and the batch may be
tried again. The side table is read only when a batch has an event that is not newer than everything
applied.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.formats.order import Order
from cdc_assets.lake.carried import SideMark
from cdc_assets.merge.statements import sql
from cdc_assets.merge.tables.side_table import SideTable

EVENT: Final = ("at", "ordinal")
"""Columns that identify an event: what all its deliveries share of the position, see
`Order.event_at`, and place in the transaction."""
COLUMNS: Final = (
    ("at", "binary"),
    ("ordinal", "bigint"),
    ("content", "bigint"),
    ("partition", "int"),
    ("offset", "bigint"),
)


class Ledger:
    """The counted events of one lake table, whose changes have this order."""

    def __init__(self, side: SideTable, order: Order) -> None:
        self._side = side
        self._order = order

    def record(self, events: DataFrame, attempt: str, committed: OffsetVector) -> SideMark:
        """Appends events (``at ordinal content partition offset``).

        Up to version 0.1.0 entries counted once the committed offsets were beyond them.

        Raises:
            ConflictError: see `SideTable.append`.
        """
        if self._side.counts_all:
            self._side.remove(sql.at_or_after(committed.as_dict()))
        return self._side.append(events.select(*(name for name, _ in COLUMNS)), attempt)

    def counted(self, events: DataFrame, committed: OffsetVector) -> DataFrame | None:
        """Returns the entries of those events that were counted; None if none ever was.

        Up to version 0.1.0 entries had the whole position without the offset.
        """
        table = self._side.entries()
        if table is None:
            return None
        if self._side.counts_all:
            table = table.where(f"NOT ({sql.at_or_after(committed.as_dict())})")
        table = table.withColumn("at", self._order.event_at(F.col("at")))
        wanted = F.broadcast(events.select(*EVENT).distinct())
        return table.join(wanted, list(EVENT), "left_semi")
