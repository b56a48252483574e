"""Computes positions as Spark expressions: the common part of every order.

The rules are those of `cdc_assets.changes.position`. The first number is NULL where a record's
position is missing or malformed; a record without a value has none. Nothing here raises on any
text.

Only numbers that stay the same from one batch to the next are written into an expression, so that
Spark reuses its compiled code. Low watermarks and epochs are one literal each, which compiled code
receives by reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField

from cdc_assets.changes.position import LowWatermarks, Scheme, epoch_bits
from cdc_assets.changes.restarts import COMMIT_NUMBERS, Restarts
from cdc_assets.decode import CATALOG
from cdc_assets.formats.flat import Steps, after, stepped

NUMBERS: Final = tuple(f"n{i}" for i in range(max(scheme.numbers for scheme in Scheme)))
"""Columns of a position, most significant first; a scheme has the first few columns."""

_NUMBER_BYTES: Final = 8
Epochs = Steps
"""By partition, the offsets at which an epoch begins, rising, and the epoch."""


@dataclass(frozen=True, slots=True)
class OrderState:
    """The data, other than its records, from which a batch's positions are made.

    Attributes:
        low_watermarks: see `cdc_assets.changes.position.low_watermark_at`.
        epochs: see `cdc_assets.changes.restarts` and, for binlogs, `cdc_assets.changes.numbering`;
            epoch 0 where there are none.
        firsts: by partition, an offset that no record is below: all earlier steps become one.
    """

    low_watermarks: LowWatermarks = field(default_factory=dict[int, Sequence[tuple[int, int]]])
    epochs: Epochs = field(default_factory=dict)
    firsts: Mapping[int, int] = field(default_factory=dict[int, int])


@dataclass(frozen=True, slots=True)
class Placed:
    """The parts of a record from which its position is made.

    Attributes:
        source: struct with the `Order.fields` and ``ts_ms``, ``snapshot``.
        is_read: whether the change is a row of a snapshot.
        partition, offset: in Kafka.
        place: the position's last number, which follows the offsets of the partition.
        column: a column with `Order.placed` of these; None if the order has none, or before.
    """

    source: Expression
    is_read: Expression
    partition: Expression
    offset: Expression
    place: Expression
    column: Expression | None = None

    def fact(self, name: str) -> Expression:
        """Returns a field of the result of `Order.placed`."""
        return F.lit(None) if self.column is None else self.column.getField(name)


@dataclass(frozen=True, slots=True)
class Scanned:
    """The result of scanning the records of a batch in their order.

    Attributes:
        carried: the state to carry on after it.
        repeats_places: whether one follows another of its place in the source's log that does not
            come before it there: it was sent again, or several changes have one place.
    """

    carried: str
    repeats_places: bool = False


class Order:
    """The order of the changes of one kind of source database.

    Attributes:
        scheme: its name, which is stored with a table.
        types: types of the fields of ``source`` from which positions are made.
        tells_repeats: whether a position, with the place of a change in its transaction, identifies
            an event that is delivered again: rows without a key can then be counted.
        is_unique: whether a position alone does.
        tells_changes: whether a position, with the key and the kind of a change, identifies a
            change that is delivered again, in a table with a key.
        has_low_watermarks: whether changes may follow the snapshot before them, see
            `cdc_assets.changes.position.low_watermark_at`.
        is_scanned: whether records have to be `scanned` in their order before positions can be
            made.
    """

    scheme: ClassVar[Scheme]
    types: ClassVar[Mapping[str, type[DataType]]] = {}
    tells_repeats: ClassVar[bool] = False
    is_unique: ClassVar[bool] = True
    tells_changes: ClassVar[bool] = False
    has_low_watermarks: ClassVar[bool] = False
    is_scanned: ClassVar[bool] = False

    @property
    def fields(self) -> tuple[StructField, ...]:
        """The fields of ``source`` to parse, other than ``ts_ms``, ``ts_us``, ``snapshot``."""
        return tuple(StructField(name, kind()) for name, kind in self.types.items())

    def placed(self, placed: Placed, state: OrderState) -> Expression | None:
        """Returns a struct of the facts that the order needs about a record; None for none.

        It becomes a column, so that it is computed once.
        """
        return None

    def numbers(self, placed: Placed, state: OrderState) -> list[Expression]:
        """Returns the numbers of the position, as many as ``scheme.numbers``."""
        return [*self.source_numbers(placed, state), placed.place]

    def source_numbers(self, placed: Placed, state: OrderState) -> list[Expression]:
        """Returns the source's own numbers: all of a position but the last."""
        raise NotImplementedError

    def stable_numbers(self) -> list[Expression]:
        """Returns the numbers that are the same in each delivery of a change."""
        return [F.col(number) for number in NUMBERS[: self.scheme.numbers - 1]]

    def event_at(self, position: Expression) -> Expression:
        """Returns the bytes of a position that are the same in each delivery, see `stable_numbers`.

        They are in their place, with zeros for what is left out in between: the result for a
        result is the same, and so is that for a position without its Kafka offset.
        """
        return F.substring(position, 1, _NUMBER_BYTES * (self.scheme.numbers - 1))

    def low_watermark_columns(self, placed: Placed) -> tuple[Expression, Expression]:
        """Returns ``read_lsn`` and ``floating_lsn``, for the low watermark; NULL without one."""
        none = F.lit(None).cast("bigint")
        return none, none

    def source_ms(self, source: Expression) -> Expression:
        """Returns the source's time of a change's commit, or of reading a snapshot's row."""
        return source.getField("ts_ms")

    def source_micros(self, source: Expression) -> Expression:
        """Returns the source's time in microseconds, as exact as the source; NULL on overflow."""
        exact, millis = source.getField("ts_us"), source.getField("ts_ms")
        return F.coalesce(exact, F.try_multiply(millis, F.lit(1000)))

    def may_witness(self, placed: Placed) -> Expression:
        """Whether a record comes in commit order: see `cdc_assets.changes.restarts`."""
        return ~is_incremental(placed.source)

    def floats(self, placed: Placed) -> Expression:
        """Whether a record belongs to a connector's first transaction.

        See `cdc_assets.changes.restarts`.
        """
        return F.lit(False)

    def is_late_read(self, placed: Placed) -> Expression:
        """Whether a record is a row of a snapshot that was taken while changes were streamed.

        It may hold more than was committed at its position, and rows that were read together have
        a position of their own, so that such a snapshot does not hold the whole table at one.
        """
        return placed.is_read & is_incremental(placed.source)

    # ── state carried between batches ────────────────────────────────────────────────────

    def epochs(self, carried: str) -> Epochs:
        """Returns the known epochs, as the newest publish recorded them."""
        return Restarts.from_json(carried).epochs if self.scheme in COMMIT_NUMBERS else {}

    def scanned(self, sources: DataFrame, carried: str) -> Scanned:
        """Looks through the records of a batch.

        Args:
            sources: ``partition offset timestamp source`` of its records.
            carried: the state before it.
        """
        return Scanned(carried)


# ── parts of orders ───────────────────────────────────────────────────────────────────────


def is_incremental(source: Expression) -> Expression:
    """Whether a record is a row of an incremental snapshot."""
    return F.coalesce(source.getField("snapshot") == "incremental", F.lit(False))


def epoch_of(placed: Placed, state: OrderState) -> Expression:
    """Returns the epoch at a record; 0 before the first epoch."""
    none = F.lit(0).cast("bigint")
    if not state.epochs:
        return none
    steps = after(state.epochs, state.firsts)
    return F.coalesce(stepped(placed.partition, placed.offset, steps), none)


def in_epoch(scheme: Scheme, epoch: Expression, number: Expression) -> Expression:
    """Adds the epoch to a first number; NULL if the number reaches into the epoch's bits."""
    bits = epoch_bits(scheme)
    return F.when((number >= 0) & (number < 2**bits), F.shiftleft(epoch, bits) + number)


def position_bytes(numbers: tuple[str, ...]) -> Expression:
    """Returns the bytes of `cdc_assets.changes.position.encode`, from columns of these names."""
    return F.call_function(f"{CATALOG}.place", F.array(*numbers))
