"""Kafka's own order, for sources that tell none."""

from __future__ import annotations

from pyspark.sql import Column as Expression

from cdc_assets.changes.position import Scheme
from cdc_assets.formats.order.order import Order, OrderState, Placed


class OffsetOrder(Order):
    """Nothing but the place in Kafka."""

    scheme = Scheme.OFFSET

    def source_numbers(self, placed: Placed, state: OrderState) -> list[Expression]:
        """None."""
        return []
