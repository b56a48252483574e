"""Orders changes by Kafka's offsets, for sources without an order of their own."""

from __future__ import annotations

from pyspark.sql import Column as Expression

from cdc_assets.changes.position import Scheme
from cdc_assets.formats.order.order import Order, OrderState, Placed


class OffsetOrder(Order):
    """The order of Kafka's offsets alone."""

    scheme = Scheme.OFFSET

    def source_numbers(self, placed: Placed, state: OrderState) -> list[Expression]:
        """Returns none."""
        return []
