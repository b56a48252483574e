"""Orders YugabyteDB's changes by commit time over all tablets, then term, index and write id."""

from __future__ import annotations

from typing import ClassVar, Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

from cdc_assets.changes.position import LAST, Scheme
from cdc_assets.formats.order.order import Order, OrderState, Placed

_OP: Final = r"(?s)^([0-9]{1,18}):([0-9]{1,18}):[^:]*:([0-9]{1,18})(?::[^:]*)?\z"


class YugabyteOrder(Order):
    """Orders by ``(commit time, term, index, write id, offset)``.

    The commit time is the hybrid time by which the database itself orders the versions of a
    row, over all tablets and also after a tablet was split. Within a transaction, and so
    within its tablet, the operation orders the writes. A snapshot's row contains everything
    committed up to the time at which it was read, which is its commit time.
    """

    scheme = Scheme.YUGABYTE
    tells_changes = True
    types: ClassVar = {"commit_time": LongType, "lsn": StringType}

    def source_numbers(self, placed: Placed, state: OrderState) -> list[Expression]:
        """Returns the numbers; a snapshot's row contains all that was committed up to its time."""
        time, op = placed.source.getField("commit_time"), placed.source.getField("lsn")

        def part(group: int) -> Expression:
            number = F.regexp_extract(op, _OP, group).try_cast("bigint")
            return F.when(placed.is_read, F.lit(LAST)).otherwise(number)

        is_placed = (time >= 0) & (placed.is_read | op.rlike(_OP))
        return [F.when(is_placed, time), part(1), part(2), part(3)]
