"""Orders Oracle's changes by commit SCN, SCN, and place in the transaction."""

from __future__ import annotations

from typing import ClassVar

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

from cdc_assets.changes.position import LAST, Scheme
from cdc_assets.formats.order.order import Order, OrderState, Placed, epoch_of, in_epoch


class OracleOrder(Order):
    """Orders by ``(commit SCN, SCN, order, offset)``.

    A snapshot reads ``AS OF SCN`` S, which contains everything committed up to S, and its rows have
    S as ``source.scn``. They have no commit SCN, or an older one of a change streamed before.
    https://debezium.io/documentation/reference/stable/connectors/oracle.html
    """

    scheme = Scheme.ORACLE
    types: ClassVar = {
        "commit_scn": StringType,
        "scn": StringType,
        "txSeq": LongType,
        "ssn": LongType,
        "commit_ts_ms": LongType,
    }

    def source_ms(self, source: Expression) -> Expression:
        """Returns the commit's time, from newer connectors; else ``ts_ms``, the change's time."""
        return F.coalesce(source.getField("commit_ts_ms"), super().source_ms(source))

    def source_micros(self, source: Expression) -> Expression:
        """Returns the same time in microseconds."""
        commit = source.getField("commit_ts_ms")
        exact = F.try_multiply(commit, F.lit(1000))
        return F.when(commit.isNotNull(), exact).otherwise(super().source_micros(source))

    def source_numbers(self, placed: Placed, state: OrderState) -> list[Expression]:
        """Returns the numbers; a snapshot's row contains all that was committed up to its SCN."""
        source = placed.source
        commit, scn = _decimal(source.getField("commit_scn")), _decimal(source.getField("scn"))
        none = F.lit(0).cast("bigint")
        order = F.coalesce(source.getField("txSeq"), source.getField("ssn"), none)
        whole = placed.is_read & (source.getField("commit_scn").isNull() | (commit < scn))
        follows = F.when(whole, scn).otherwise(commit)
        first = in_epoch(self.scheme, epoch_of(placed, state), follows)
        return [
            F.when(scn.isNotNull() & (whole | (order >= 0)), first),
            scn,
            F.when(whole, F.lit(LAST)).otherwise(order),
        ]


def _decimal(text: Expression) -> Expression:
    return F.when(text.rlike(r"^[0-9]{1,19}\z"), text.try_cast("bigint"))
