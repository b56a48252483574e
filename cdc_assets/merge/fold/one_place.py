"""Finds different changes with one place in the source's log, which therefore have no order.

MySQL gives the events in a compressed transaction (``binlog_transaction_compression``) no places of
their own. Debezium's changes of all of them then have the transaction's, and rows that count from 0
again in each: of two changes of a row the older may seem to be newer, or sent twice. So it is with
every transaction of MariaDB 11.4 and later, if the connector for MySQL reads it.

A table without a key finds them when it counts (`cdc_assets.merge.apply.multiset`).
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.errors import TerminalError
from cdc_assets.merge.plan.plan import BatchPlan

_REMEDY = (
    "SET GLOBAL binlog_transaction_compression=OFF for all sessions, or use the connector for "
    "MariaDB for one; then build the table from a new snapshot: cdc-assets rebuild --from-snapshot"
)


def require_places_of_their_own(changes: DataFrame, plan: BatchPlan) -> None:
    """Checks that changes with one place, and of one kind, are one change that was sent again.

    A change of a key is a delete and a create with one place.

    Args:
        changes: of rows, of a table with a key.
        plan: of the batch.

    Raises:
        TerminalError: names the first place's last record.
    """
    places = [F.col(number) for number in plan.numbers[:-1]]
    content = F.xxhash64("key", "row")
    at = F.struct("partition", "offset")
    by_place = changes.where("op != 'r'").groupBy("op", *places)
    apart = by_place.agg(F.min(content) != F.max(content), F.max(at)).toDF(
        "op", *plan.numbers[:-1], "differ", "last"
    )
    found = apart.where("differ").agg(F.min("last").alias("first")).collect()[0]["first"]
    if found is None:
        return
    what = (
        "different changes have one place in the binlog, as those of a compressed transaction do "
        "(binlog_transaction_compression): which are newer cannot be told"
    )
    where = f"table={plan.entry.table} {Coordinate(plan.entry.topic, *found)}"
    raise TerminalError(what, where=where, remedy=_REMEDY)
