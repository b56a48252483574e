"""Defines canonical texts of values, by which source and lake are compared exactly.

A *canonical text* is the same for equal values on both sides, and differs for different ones. NULL
has none. Each database writes it by SQL (`cdc_assets.databases`), the lake by Spark
(`cdc_assets.merge.verifying.canonical`). A value that has no such text is named, never skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cdc_assets.schema.types import Column, ListOf


class Form(StrEnum):
    """The form of a value's canonical text."""

    BOOLEAN = "boolean"  # true, false
    INTEGER = "integer"  # decimal digits
    DECIMAL = "decimal"  # digits, with as many after the point as the lake's type has
    NUMBER = "number"  # digits, without trailing zeros of a fraction
    FLOATING = "floating"  # 16 hexadecimal digits: the bits of a double
    TEXT = "text"  # the text itself
    BYTES = "bytes"  # two hexadecimal digits each
    DAYS = "days"  # since 1970-01-01
    MICROS = "micros"  # since 1970-01-01 00:00, in UTC if there is a zone
    INSTANT = "instant"  # like micros; none for 1970-01-01 00:00 itself, which is a zero date
    DIGEST = "digest"  # SHA-256 of the text that the value arrives as, if it is masked


@dataclass(frozen=True, slots=True)
class Compared:
    """A column that is compared.

    Attributes:
        column: as the lake has it.
        form: of its values, or of a list's elements.
    """

    column: Column
    form: Form

    @property
    def name(self) -> str:
        """The column's name in the lake."""
        return self.column.name

    @property
    def is_list(self) -> bool:
        """Whether values are lists of this form."""
        return isinstance(self.column.type, ListOf)


@dataclass(frozen=True, slots=True)
class Uncompared:
    """A column that is not compared, with the reason.

    Attributes:
        name: in the lake, or in the source if the lake does not have it.
        why: the reason, for people.
        is_at_source: whether the source has values of it that are not read.
    """

    name: str
    why: str
    is_at_source: bool = True


Key = tuple[str, ...]
"""The canonical texts of a row's key columns."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The columns of a table that are compared.

    Attributes:
        columns: in the lake's order, key columns included.
        key: the key columns, in key order; empty for a table without a key.
        left_out: the columns that are not compared.
        is_keyed: whether the table has a key.
    """

    columns: tuple[Compared, ...]
    key: tuple[Compared, ...]
    left_out: tuple[Uncompared, ...]
    is_keyed: bool

    @property
    def unread(self) -> tuple[str, ...]:
        """Columns of the lake whose values the source has but does not give exactly."""
        return tuple(each.name for each in self.left_out if each.is_at_source)


@dataclass(frozen=True, slots=True)
class Sum:
    """A number of rows, and a checksum of them that does not depend on their order."""

    count: int = 0
    first: int = 0
    second: int = 0


def tree(bounds: Sequence[Key], first: int = 0) -> BucketTree:
    """Builds a balanced tree of comparisons that finds a key's bucket.

    Args:
        bounds: ascending; bucket n + 1 begins with the n-th.
        first: number of the bucket below all bounds.
    """
    if not bounds:
        return first
    middle = len(bounds) // 2
    below = tree(bounds[:middle], first)
    above = tree(bounds[middle + 1 :], first + middle + 1)
    return Fork(bounds[middle], below, above)


@dataclass(frozen=True, slots=True)
class Fork:
    """A comparison with a bound: one subtree for keys below it, one for all others."""

    bound: Key
    below: BucketTree
    above: BucketTree


BucketTree = int | Fork
