"""Orders SQL Server's changes by commit LSN, change LSN, and serial number."""

from __future__ import annotations

from typing import ClassVar, Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

from cdc_assets.changes.position import LAST, Scheme
from cdc_assets.formats.order.order import Order, OrderState, Placed, epoch_of, in_epoch

_LSN: Final = r"^[0-9a-fA-F]{8}:[0-9a-fA-F]{8}:[0-9a-fA-F]{4}\z"


class SqlServerOrder(Order):
    """Orders by ``(commit LSN, change LSN, serial, offset)``.

    ``source.event_serial_no`` distinguishes changes of the same commit and change LSN. Rows of
    an initial or blocking snapshot have only a commit LSN, the highest of the database when
    the snapshot began; rows of an incremental one have all of the watermark's.
    https://debezium.io/documentation/reference/stable/connectors/sqlserver.html
    """

    scheme = Scheme.SQLSERVER
    tells_changes = True
    types: ClassVar = {
        "commit_lsn": StringType,
        "change_lsn": StringType,
        "event_serial_no": LongType,
    }
    tells_repeats = True

    def source_numbers(self, placed: Placed, state: OrderState) -> list[Expression]:
        """Returns two numbers for each LSN; a snapshot's row contains all of its commit."""
        source = placed.source
        commit, change = source.getField("commit_lsn"), source.getField("change_lsn")
        serial = F.coalesce(source.getField("event_serial_no"), F.lit(0).cast("bigint"))
        whole, last = change.isNull(), F.lit(LAST)
        log_file, rest = _numbers_of(commit)
        change_file, change_rest = _numbers_of(change)
        is_placed = whole | (change.rlike(_LSN) & (serial >= 0))
        first = in_epoch(self.scheme, epoch_of(placed, state), log_file)
        return [
            F.when(is_placed, first),
            rest,
            F.when(whole, last).otherwise(change_file),
            F.when(whole, last).otherwise(change_rest),
            F.when(whole, last).otherwise(serial),
        ]


def _numbers_of(text: Expression) -> tuple[Expression, Expression]:
    def number(hexadecimal: Expression) -> Expression:
        decimal = F.conv(hexadecimal, 16, 10).try_cast("bigint")
        return F.when(text.rlike(_LSN), decimal)

    rest = F.concat(F.substring(text, 10, 8), F.substring(text, 19, 4))
    return number(F.substring(text, 1, 8)), number(rest)
