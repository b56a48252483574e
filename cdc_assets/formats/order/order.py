"""Positions as Spark expressions: what every order has in common.

The rules are those of `cdc_assets.changes.position`. The first number is NULL where a record's
position is missing or malformed; a record without a value has none. Nothing here raises on any
text.

Only what stays the same from one batch to the next is written into an expression as a number,
so that Spark finds its compiled code again. Read floors and epochs are one literal each, which
compiled code is given by reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField

from cdc_assets.changes.position import Floors, Scheme, epoch_bits
from cdc_assets.changes.restarts import COMMIT_NUMBERS, Restarts
from cdc_assets.formats.flat import Steps, after, stepped

NUMBERS: Final = tuple(f"n{i}" for i in range(max(scheme.numbers for scheme in Scheme)))
"""Columns of a position, most significant first; a scheme has the first few of them."""

Epochs = Steps
"""By partition the offsets where an epoch begins, rising, and the epoch."""


@dataclass(frozen=True, slots=True)
class OrderState:
    """What positions of a batch are made with, beside its records.

    Attributes:
        floors: see `cdc_assets.changes.position.floor_at`.
        epochs: see `cdc_assets.changes.restarts` and, for binlogs, `cdc_assets.changes.numbering`;
            epoch 0 where there are none.
        firsts: by partition an offset that no record lies below: what began before is one step.
    """

    floors: Floors = field(default_factory=dict[int, Sequence[tuple[int, int]]])
    epochs: Epochs = field(default_factory=dict)
    firsts: Mapping[int, int] = field(default_factory=dict[int, int])


@dataclass(frozen=True, slots=True)
class Placed:
    """What a record's position is made of.

    Attributes:
        source: struct with the `Order.fields` and ``ts_ms``, ``snapshot``.
        is_read: whether the change is a row of a snapshot.
        partition, offset: in Kafka.
        place: the position's last number, which follows the offsets of the partition.
    """

    source: Expression
    is_read: Expression
    partition: Expression
    offset: Expression
    place: Expression


class Order:
    """How the changes of one kind of source database are ordered.

    Attributes:
        scheme: its name, which is stored with a table.
        types: of the fields of ``source`` that positions are made of.
        tells_repeats: whether a position, beside the place of a change in its transaction, tells
            an event that is delivered again: rows without a key can be counted.
        is_unique: whether a position alone does.
        tells_changes: whether a position, beside the key and the kind of a change, tells one that
            is delivered again, of a table with a key.
        has_floors: whether changes may follow the snapshot before them, see
            `cdc_assets.changes.position.floor_at`.
        is_scanned: whether records have to be looked at in their order before positions can be
            made: `scanned`.
    """

    scheme: ClassVar[Scheme]
    types: ClassVar[Mapping[str, type[DataType]]] = {}
    tells_repeats: ClassVar[bool] = False
    is_unique: ClassVar[bool] = True
    tells_changes: ClassVar[bool] = False
    has_floors: ClassVar[bool] = False
    is_scanned: ClassVar[bool] = False

    @property
    def fields(self) -> tuple[StructField, ...]:
        """What to parse of ``source``, beside ``ts_ms``, ``ts_us``, ``snapshot``."""
        return tuple(StructField(name, kind()) for name, kind in self.types.items())

    def numbers(self, placed: Placed, state: OrderState) -> list[Expression]:
        """The numbers of the position, as many as ``scheme.numbers``."""
        return [*self.source_numbers(placed, state), placed.place]

    def source_numbers(self, placed: Placed, state: OrderState) -> list[Expression]:
        """The numbers before the last, which are the source's own."""
        raise NotImplementedError

    def told_again(self) -> list[Expression]:
        """Those of the numbers that a change has however often it is delivered."""
        return [F.col(number) for number in NUMBERS[: self.scheme.numbers - 1]]

    def floor_columns(self, placed: Placed, state: OrderState) -> tuple[Expression, Expression]:
        """What the read floor is found by: ``read_lsn`` and ``floating_lsn``; NULL without one."""
        none = F.lit(None).cast("bigint")
        return none, none

    def told_ms(self, source: Expression) -> Expression:
        """When the source says that a change was committed, or a snapshot's row read."""
        return source.getField("ts_ms")

    def told_micros(self, source: Expression) -> Expression:
        """The same as exactly as it says; NULL for more milliseconds than can be counted so."""
        exact, millis = source.getField("ts_us"), source.getField("ts_ms")
        return F.coalesce(exact, F.try_multiply(millis, F.lit(1000)))

    def may_witness(self, placed: Placed) -> Expression:
        """Whether a record comes in the order of commits: see `cdc_assets.changes.restarts`."""
        snapshot = placed.source.getField("snapshot")
        return F.coalesce(snapshot != "incremental", F.lit(True))

    def floats(self, placed: Placed) -> Expression:
        """Whether it is of a connector's first transaction: see `cdc_assets.changes.restarts`."""
        return F.lit(False)

    def is_late_read(self, placed: Placed) -> Expression:
        """Whether it is a snapshot's row that holds more than was committed at its position."""
        return F.lit(False)

    # ── what is carried from batch to batch ──────────────────────────────────────────────

    def epochs(self, carried: str) -> Epochs:
        """The epochs that are known, as the newest publish recorded them."""
        return Restarts.from_json(carried).epochs if self.scheme in COMMIT_NUMBERS else {}

    def scanned(self, sources: DataFrame, carried: str) -> str:
        """What is carried on after a batch.

        Args:
            sources: ``partition offset timestamp source`` of its records.
            carried: before it.
        """
        return carried


# ── what orders are made of ───────────────────────────────────────────────────────────────


def epoch_of(placed: Placed, state: OrderState) -> Expression:
    """The epoch that holds at a record; 0 before the first."""
    none = F.lit(0).cast("bigint")
    if not state.epochs:
        return none
    steps = after(state.epochs, state.firsts)
    return F.coalesce(stepped(placed.partition, placed.offset, steps), none)


def in_epoch(scheme: Scheme, epoch: Expression, number: Expression) -> Expression:
    """A first number with its epoch; NULL if it reaches into the bits of the epoch."""
    bits = epoch_bits(scheme)
    return F.when((number >= 0) & (number < 2**bits), F.shiftleft(epoch, bits) + number)


def position_bytes(numbers: tuple[str, ...]) -> Expression:
    """The same bytes as `cdc_assets.changes.position.encode`, of columns of these names."""
    return F.unhex(F.concat(*(F.lpad(F.hex(F.col(number)), 16, "0") for number in numbers)))
