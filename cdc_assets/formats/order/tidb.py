"""Orders TiDB's changes by commit timestamp, across the whole cluster."""

from __future__ import annotations

from typing import ClassVar

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from cdc_assets.changes.position import Scheme
from cdc_assets.formats.order.order import Order, OrderState, Placed


class TidbOrder(Order):
    """Orders by ``(commit timestamp, offset)``.

    The timestamp oracle gives each transaction one, in the order of commits over the whole cluster.
    A transaction leaves one change of each key.
    https://docs.pingcap.com/tidb/stable/tso
    """

    scheme = Scheme.TIDB
    tells_changes = True
    types: ClassVar = {"commitTs": LongType}

    def source_numbers(self, placed: Placed, state: OrderState) -> list[Expression]:
        """Returns one number for each transaction."""
        commit = placed.source.getField("commitTs")
        return [F.when(commit > 0, commit)]
