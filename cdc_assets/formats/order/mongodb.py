"""Orders MongoDB's changes by seconds of the cluster time, and ordinal."""

from __future__ import annotations

from typing import ClassVar

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from cdc_assets.changes.position import Scheme
from cdc_assets.formats.order.order import Order, OrderState, Placed


class MongoDbOrder(Order):
    """Orders by ``(seconds, ordinal, offset)``.

    Changes of one transaction share a cluster time; they count in Kafka order.
    https://www.mongodb.com/docs/manual/reference/bson-types/#timestamps
    """

    scheme = Scheme.MONGODB
    types: ClassVar = {"ord": LongType}

    def source_numbers(self, placed: Placed, state: OrderState) -> list[Expression]:
        """Returns seconds and ordinal; a time that is not whole seconds is not a cluster time."""
        ts_ms, ordinal = placed.source.getField("ts_ms"), placed.source.getField("ord")
        is_cluster_time = (ts_ms > 0) & (ts_ms % 1000 == 0) & (ordinal >= 0)
        return [F.when(is_cluster_time, F.floor(ts_ms / 1000)), ordinal]
