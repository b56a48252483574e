"""Orders PostgreSQL's changes by last commit LSN, then LSN, from ``source.sequence``.

Rows of snapshots are ordered by the first alone.
https://debezium.io/documentation/reference/stable/connectors/postgresql.html
"""

from __future__ import annotations

from typing import ClassVar, Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

from cdc_assets.changes.position import Scheme, epoch_bits
from cdc_assets.decode import CATALOG
from cdc_assets.formats.flat import after, stepped
from cdc_assets.formats.order.order import Order, OrderState, Placed, epoch_of

_NO_LSN: Final = -(1 << 63)


class PostgresOrder(Order):
    """Orders by ``(last commit LSN, LSN, offset)``.

    For one key, LSN order is commit order, since row locks serialise its writers. Across
    transactions it is not, since they interleave. The pair of ``source.sequence`` follows the order
    of emission, which is commit order. Three cases need more than the pair:

    - A row of a complete snapshot (``read``) has no last commit. It was read at its LSN, and
      every transaction that it does not contain commits after that: it counts as committed there,
      before any change that follows that commit.
    - A row of an incremental snapshot is sent between changes and has the ``sequence`` of the
      next change, which the row may not contain: with ``read.only`` a change of the row's own key
      closes the window. All changes after that sequence's last commit may be newer than the row,
      and the row contains all earlier changes. So the row counts as committed there.
      https://debezium.io/documentation/reference/3.6/connectors/postgresql.html#postgresql-read-only-incremental-snapshots
    - The first transaction after a connector's start has no last commit either. Its changes
      may have an LSN *below* that of a snapshot row (it ran while the slot was made), but are
      newer. They follow the *low watermark*: the LSN of the latest complete snapshot that began
      before them in their partition. A later one would lift redeliveries and replays above newer
      rows; see `cdc_assets.changes.position.low_watermark_at`.
    """

    scheme = Scheme.POSTGRES
    types: ClassVar = {"lsn": LongType, "sequence": StringType}
    tells_repeats = True
    is_unique = False
    tells_changes = True
    has_low_watermarks = True

    def placed(self, placed: Placed, state: OrderState) -> Expression:
        """Returns a record's numbers and LSNs as a struct of ``source``: ``jvm/src``, ``Postgres``.

        ``n0`` is the last commit, lifted to the low watermark; the LSN in a complete snapshot's
        row, and in a change without a last commit. ``n1`` is the LSN, 0 in a snapshot's row.

        ``read_lsn`` and ``floating_lsn`` are the LSN, with its epoch, of snapshot rows and of
        changes without a last commit. A row of an incremental snapshot has none: it gives no
        information about changes from before the connector streamed.

        A change without a last commit is ordered by its own LSN, and so is no witness. It floats,
        unless its connector never gives one: each of its changes would float.

        ``is_late_read`` adds rows of any ad-hoc snapshot: with a last commit, and read after it.
        """
        source = placed.source
        return F.call_function(
            f"{CATALOG}.postgres",
            source.getField("sequence"),
            F.coalesce(source.getField("lsn"), F.lit(_NO_LSN)),
            source.getField("snapshot"),
            F.coalesce(placed.is_read, F.lit(False)),
            epoch_of(placed, state),
            _low_watermark(placed, state),
            F.lit(epoch_bits(self.scheme)),
        )

    def source_numbers(self, placed: Placed, state: OrderState) -> list[Expression]:
        """Returns last commit and LSN."""
        return [placed.fact("n0"), placed.fact("n1")]

    def stable_numbers(self) -> list[Expression]:
        """Returns epoch and LSN: a restarted connector may no longer send a last commit."""
        epoch = F.shiftright("n0", epoch_bits(self.scheme))
        return [epoch, F.col("n1")]

    def event_at(self, position: Expression) -> Expression:
        """Returns epoch and LSN."""
        digits, without = F.hex(position), epoch_bits(self.scheme) // 4
        epoch, lsn = F.substring(digits, 1, 16 - without), F.substring(digits, 17, 16)
        return F.unhex(F.concat(epoch, F.lit("0" * without), lsn))

    def low_watermark_columns(self, placed: Placed) -> tuple[Expression, Expression]:
        """Returns ``read_lsn`` and ``floating_lsn`` of `placed`."""
        return placed.fact("read_lsn"), placed.fact("floating_lsn")

    def may_witness(self, placed: Placed) -> Expression:
        """Returns what `placed` tells."""
        return placed.fact("may_witness")

    def floats(self, placed: Placed) -> Expression:
        """Returns what `placed` tells."""
        return placed.fact("floats")

    def is_late_read(self, placed: Placed) -> Expression:
        """Returns what `placed` tells."""
        return placed.fact("is_late_read")


def _low_watermark(placed: Placed, state: OrderState) -> Expression:
    """Applies the rule of `cdc_assets.changes.position.low_watermark_at`."""
    low_watermarks = state.low_watermarks
    lowest = min((lsn for begins in low_watermarks.values() for _, lsn in begins), default=0)
    begun = {p: [(begin + 1, lsn) for begin, lsn in begins] for p, begins in low_watermarks.items()}
    found = stepped(placed.partition, placed.offset, after(begun, state.firsts))
    return F.coalesce(found, F.lit(lowest).cast("bigint"))
