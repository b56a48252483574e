"""Orders GoldenGate's changes by sequence number of the trail file, and byte in it."""

from __future__ import annotations

from typing import ClassVar

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from cdc_assets.changes.position import Scheme
from cdc_assets.formats.order.order import Order, OrderState, Placed, epoch_of, in_epoch


class TrailOrder(Order):
    """Orders by ``(epoch and file, byte, offset)``.

    A trail contains whole transactions in commit order. A change of the key that comes as a delete
    and an insert has one place and two keys.
    """

    scheme = Scheme.TRAIL
    tells_changes = True
    types: ClassVar = {"pos": StringType}

    def source_numbers(self, placed: Placed, state: OrderState) -> list[Expression]:
        """Returns file and byte, from ten digits each."""
        pos = placed.source.getField("pos")
        is_place = pos.rlike(r"^[0-9]{20}\z")
        file, byte = (F.substring(pos, at, 10).try_cast("bigint") for at in (1, 11))
        first = in_epoch(self.scheme, epoch_of(placed, state), file)
        return [F.when(is_place, first), F.when(is_place, byte)]
