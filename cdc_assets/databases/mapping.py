"""Maps a catalog's types to the lake's: the part that the databases share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from cdc_assets.schema import stand_ins
from cdc_assets.schema.described import Described
from cdc_assets.schema.modes import (
    ConnectorModes,
    DecimalMode,
    LossyEncoding,
    TypeEncoding,
    encoding_of,
)
from cdc_assets.schema.stand_ins import StoredAs
from cdc_assets.schema.types import (
    Column,
    ColumnType,
    Decimal,
    Primitive,
    UnmappedColumn,
    Wire,
    WireDetail,
)

_AS_DOUBLE: Final = (
    "decimal.handling.mode=double cannot hold all of its digits; set it to precise or string, or "
    "accept the loss by configuring double"
)


class DeclaredColumn(Protocol):
    """A column as declared in a catalog."""

    @property
    def name(self) -> str:
        """The column's name."""
        ...

    @property
    def type_text(self) -> str:
        """Its type, for people."""
        ...

    @property
    def not_null(self) -> bool:
        """Whether it is declared NOT NULL."""
        ...

    @property
    def comment(self) -> str:
        """The comment in the database."""
        ...

    @property
    def has_default(self) -> bool:
        """Whether rows that do not name it get a value."""
        ...


@dataclass(frozen=True, slots=True)
class Mapped:
    """The lake's type, and the encoding of arriving values."""

    type: ColumnType
    encoding: TypeEncoding
    comment: str = ""
    detail: WireDetail | None = None


def stored(found: StoredAs) -> Mapped:
    """Returns the lake's substitute for a type that Iceberg does not have."""
    encoding = TypeEncoding(found.wire, found.element_wire)
    return Mapped(found.type, encoding, found.comment, found.detail)


@dataclass(frozen=True, slots=True)
class RefusedType:
    """The reason why no lake column holds the values.

    Attributes:
        reason: for people.
        wire: the encoding, if a configured type could hold them.
        accepted: the type that holds all but those that a person may accept to lose.
    """

    reason: str
    wire: Wire | None = None
    accepted: Mapped | None = None


Outcome: TypeAlias = Mapped | RefusedType


def usable(type_: ColumnType, encoding: TypeEncoding | LossyEncoding, comment: str = "") -> Outcome:
    """Returns the type, unless its values lose something on their way."""
    if isinstance(encoding, LossyEncoding):
        return RefusedType(encoding.reason, encoding.wire)
    return Mapped(type_, encoding, comment)


def decimal(exact: StoredAs, modes: ConnectorModes) -> Outcome:
    """Maps a decimal as a connector with these modes writes it.

    Args:
        exact: a type that stores all of its digits, with its encoding in the mode ``precise``.
        modes: the connector's.
    """
    if isinstance(exact.type, Decimal):
        return usable(exact.type, encoding_of(exact.type, modes, None))
    match modes.decimal:
        case DecimalMode.PRECISE:
            return stored(exact)
        case DecimalMode.STRING:
            return stored(stand_ins.AS_TEXT)
        case DecimalMode.DOUBLE:
            return RefusedType(_AS_DOUBLE, Wire.DOUBLE)


def bits(count: int) -> Mapped:
    """Maps a bit string of a declared length as connectors write it: one bit is a boolean."""
    if count == 1:
        return Mapped(Primitive.BOOLEAN, TypeEncoding(Wire.BOOLEAN))
    return stored(stand_ins.bits(count))


def as_column(
    column: DeclaredColumn, outcome: Outcome, *, unchanged_marker: bool = False
) -> Column | UnmappedColumn:
    """Returns the column of a type's outcome.

    Args:
        column: as it is declared.
        outcome: of its type.
        unchanged_marker: whether a value may be the placeholder of an omitted one.
    """
    if isinstance(outcome, Mapped):
        return _mapped(column, outcome, unchanged_marker=unchanged_marker)
    found = outcome.accepted
    accepted = _mapped(column, found, unchanged_marker=unchanged_marker) if found else None
    return UnmappedColumn(
        column.name,
        column.type_text,
        outcome.reason,
        outcome.wire,
        required=column.not_null,
        unchanged_marker=unchanged_marker,
        comment=column.comment,
        accepted=accepted,
    )


def _mapped(column: DeclaredColumn, mapped: Mapped, *, unchanged_marker: bool) -> Column:
    return Column(
        column.name,
        mapped.type,
        mapped.encoding.wire,
        required=column.not_null,
        unchanged_marker=unchanged_marker,
        element_wire=mapped.encoding.element_wire,
        comment="; ".join(part for part in (column.comment, mapped.comment) if part),
        detail=mapped.detail,
    )


def described_by_catalog(
    mapped: Iterable[Column | UnmappedColumn], key: tuple[str, ...], comment: str
) -> Described:
    """Returns a table with columns from a catalog."""
    return Described(tuple(mapped), key, "database catalog", comment)
