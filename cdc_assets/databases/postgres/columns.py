"""Columns as PostgreSQL's catalog has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ENUM: Final = "e"
"""``pg_type.typtype`` of an enumeration."""

OF_EXTENSIONS: Final = frozenset({"b", "r"})
"""``typtype`` of base types and ranges: other kinds of types differ, whatever their names."""


@dataclass(frozen=True, slots=True)
class PostgresColumn:
    """A column as the catalog has it, domains replaced by their base types.

    Attributes:
        name: ``attname``.
        type_name: ``typname`` of the type, for arrays of the element (``numeric``, ``int4``).
        type_text: ``format_type(…)``, for people.
        modifier: ``atttypmod``; -1 if the type has no number.
        is_array: whether it is an array of ``type_name``.
        dimensions: ``attndims`` of an array, as declared: PostgreSQL does not enforce it.
        may_be_toasted: whether updates may leave it out: PostgreSQL does not log large values that
            did not change, unless the replica identity is FULL; of a partitioned table, that of
            each partition. Storage PLAIN counts as never, though values from before it may still
            be out of line: the catalog does not tell whether the table was rewritten since.
        kind: ``typtype`` of the type or element: b(ase), e(num), c(omposite), r(ange), ….
        not_null: whether it is declared NOT NULL.
        comment: from ``COMMENT ON COLUMN``.
        is_generated: whether PostgreSQL computes it (``GENERATED ALWAYS AS (…)``).
        has_default: whether rows that do not name it get a value.
        in_domain: whether its type is a domain over this one.
        in_partitions: whether its table is partitioned.
        stays_in_page: whether it is stored out of line only if the row does not fit into a page
            otherwise (storage MAIN).
    """

    name: str
    type_name: str
    type_text: str
    modifier: int = -1
    is_array: bool = False
    kind: str = "b"
    not_null: bool = False
    comment: str = ""
    is_generated: bool = False
    dimensions: int = 0
    may_be_toasted: bool = False
    has_default: bool = False
    in_domain: bool = False
    in_partitions: bool = False
    stays_in_page: bool = False


def numeric_digits(modifier: int) -> tuple[int, int] | None:
    """Returns precision and scale in a ``numeric`` type modifier; None if it is unconstrained.

    PostgreSQL's ``numeric.c``: precision in the upper 16 bits, scale in the lower 11. The scale is
    signed there, but the connector's driver reads it as unsigned: a value of ``numeric(3,-2)`` is
    written with 2046 digits after the point.
    """
    if modifier < 4:
        return None
    packed = modifier - 4
    return packed >> 16 & 0xFFFF, packed & 0x7FF


def seconds_digits(modifier: int) -> int | None:
    """Returns the digits after the second in a time or timestamp modifier; None if not given."""
    return modifier if modifier >= 0 else None
