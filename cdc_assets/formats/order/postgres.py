"""Orders PostgreSQL's changes by last commit LSN, then LSN, from ``source.sequence``.

Rows of snapshots are ordered by the first alone.
https://debezium.io/documentation/reference/stable/connectors/postgresql.html
"""

from __future__ import annotations

from typing import ClassVar

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

from cdc_assets.changes.position import Scheme, epoch_bits
from cdc_assets.decode import CATALOG
from cdc_assets.formats.flat import after, stepped
from cdc_assets.formats.order.order import (
    Order,
    OrderState,
    Placed,
    epoch_of,
    in_epoch,
    is_incremental,
)


class PostgresOrder(Order):
    """The rules of `cdc_assets.changes.position.postgres`."""

    scheme = Scheme.POSTGRES
    types: ClassVar = {"lsn": LongType, "sequence": StringType}
    tells_repeats = True
    is_unique = False
    tells_changes = True
    has_floors = True

    def parsed(self, source: Expression) -> Expression:
        """Returns ``struct<last_commit, lsn>`` of ``source.sequence``: ``jvm/src``, ``Lsns``."""
        return F.call_function(f"{CATALOG}.lsns", source.getField("sequence"))

    def source_numbers(self, placed: Placed, state: OrderState) -> list[Expression]:
        """Returns last commit, lifted to the read floor, and LSN.

        The first is the LSN in a complete snapshot's row, and in a change without a last commit;
        the second is 0 in a snapshot's row.
        """
        source, is_read = placed.source, placed.is_read
        lsn = F.coalesce(source.getField("lsn"), placed.parsed.getField("lsn"))
        commit, none = _last_commit(placed), F.lit(0).cast("bigint")
        is_complete = is_read & ~is_incremental(source)
        follows = F.when(is_complete, lsn).otherwise(F.coalesce(commit, lsn))
        first = in_epoch(self.scheme, epoch_of(placed, state), follows)
        floor = _floor(placed, state)
        first = F.when(~is_read & commit.isNull() & (first < floor), floor).otherwise(first)
        return [F.when(lsn >= 0, first), F.when(is_read, none).otherwise(lsn)]

    def told_again(self) -> list[Expression]:
        """Returns epoch and LSN: a connector that starts again may no longer give a last commit."""
        epoch = F.shiftright("n0", epoch_bits(self.scheme))
        return [epoch, F.col("n1")]

    def event_at(self, position: Expression) -> Expression:
        """Returns epoch and LSN."""
        digits, without = F.hex(position), epoch_bits(self.scheme) // 4
        epoch, lsn = F.substring(digits, 1, 16 - without), F.substring(digits, 17, 16)
        return F.unhex(F.concat(epoch, F.lit("0" * without), lsn))

    def floor_columns(self, placed: Placed, state: OrderState) -> tuple[Expression, Expression]:
        """Returns the LSN, with its epoch, of snapshot rows and of changes without a last commit.

        A row of an incremental snapshot has no ``lsn``: it gives no information about changes from
        before the connector streamed. Epochs are those of all offsets, including those before the
        batch.
        """
        epoch = epoch_of(placed, OrderState(epochs=state.epochs))
        lsn = in_epoch(self.scheme, epoch, placed.source.getField("lsn"))
        no_commit = _last_commit(placed).isNull()
        return F.when(placed.is_read, lsn), F.when(~placed.is_read & no_commit, lsn)

    def may_witness(self, placed: Placed) -> Expression:
        """Excludes a change without a last commit: it is ordered by its own LSN."""
        has_commit = placed.is_read | _last_commit(placed).isNotNull()
        return super().may_witness(placed) & has_commit

    def floats(self, placed: Placed) -> Expression:
        """Excludes a connector that never gives a last commit: each of its changes would float."""
        is_told = placed.parsed.isNotNull()
        return ~placed.is_read & _last_commit(placed).isNull() & is_told

    def is_late_read(self, placed: Placed) -> Expression:
        """Adds rows of any ad-hoc snapshot: with a last commit, and read after it."""
        told = F.coalesce(placed.source.getField("sequence").startswith('["'), F.lit(False))
        return super().is_late_read(placed) | (placed.is_read & told)


def _floor(placed: Placed, state: OrderState) -> Expression:
    """Applies the rule of `cdc_assets.changes.position.floor_at`."""
    floors = state.floors
    lowest = min((lsn for begins in floors.values() for _, lsn in begins), default=0)
    begun = {p: [(begin + 1, lsn) for begin, lsn in begins] for p, begins in floors.items()}
    found = stepped(placed.partition, placed.offset, after(begun, state.firsts))
    return F.coalesce(found, F.lit(lowest).cast("bigint"))


def _last_commit(placed: Placed) -> Expression:
    return placed.parsed.getField("last_commit")
