"""How values of a column are written so that source and lake can be compared exactly, as text.

A *canonical text* is the same for equal values on both sides, and another one for others. NULL has
none. Each database writes it by SQL (`cdc_assets.databases`), the lake by Spark
(`cdc_assets.merge.verifying.canonical`), and what cannot be written so is named, never passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cdc_assets.schema.types import Column, ListOf


class Form(StrEnum):
    """What the canonical text of a value is."""

    BOOLEAN = "boolean"  # true, false
    INTEGER = "integer"  # decimal digits
    DECIMAL = "decimal"  # digits, as many after the point as the lake's type has
    NUMBER = "number"  # digits, without zeros at the end of a fraction
    FLOATING = "floating"  # 16 hexadecimal digits: the bits of a double
    TEXT = "text"  # itself
    PADDED = "padded"  # without the blanks at its end, which do not count
    BYTES = "bytes"  # two hexadecimal digits each
    DAYS = "days"  # since 1970-01-01
    MICROS = "micros"  # since 1970-01-01 00:00, in UTC where there is a zone
    INSTANT = "instant"  # the same; nothing for 1970-01-01 00:00 itself, which is a zero date
    DIGEST = "digest"  # SHA-256 of the text that the value arrives as, where it is masked


@dataclass(frozen=True, slots=True)
class Compared:
    """A column that is compared.

    Attributes:
        column: as the lake has it.
        form: of its values, or of those of a list's elements.
    """

    column: Column
    form: Form

    @property
    def name(self) -> str:
        """In the lake."""
        return self.column.name

    @property
    def is_list(self) -> bool:
        """Whether values are lists of such."""
        return isinstance(self.column.type, ListOf)


@dataclass(frozen=True, slots=True)
class Uncompared:
    """A column that is not, and why.

    Attributes:
        name: in the lake, or in the source if the lake does not have it.
        why: for people.
        is_at_source: whether the source has values of it that are not read.
    """

    name: str
    why: str
    is_at_source: bool = True


Key = tuple[str, ...]
"""The canonical texts of a row's key columns."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Which columns of a table are compared.

    Attributes:
        columns: in the lake's order, those of the key included.
        key: those of the key, in its order; empty for a table without one.
        left_out: the others.
        is_keyed: whether the table has a key.
    """

    columns: tuple[Compared, ...]
    key: tuple[Compared, ...]
    left_out: tuple[Uncompared, ...]
    is_keyed: bool

    @property
    def unread(self) -> tuple[str, ...]:
        """Columns of the lake whose values the source has and does not tell exactly."""
        return tuple(each.name for each in self.left_out if each.is_at_source)


@dataclass(frozen=True, slots=True)
class Sum:
    """A number of rows, and a checksum of them in which their order plays no part."""

    count: int = 0
    first: int = 0
    second: int = 0


def tree(bounds: Sequence[Key], first: int = 0) -> BucketTree:
    """A balanced tree of comparisons that finds a key's bucket.

    Args:
        bounds: rising; bucket n + 1 begins with the n-th.
        first: number of the bucket below all of them.
    """
    if not bounds:
        return first
    middle = len(bounds) // 2
    below = tree(bounds[:middle], first)
    above = tree(bounds[middle + 1 :], first + middle + 1)
    return Fork(bounds[middle], below, above)


@dataclass(frozen=True, slots=True)
class Fork:
    """Below a bound, or at or above it."""

    bound: Key
    below: BucketTree
    above: BucketTree


BucketTree = int | Fork
