"""Applies the configuration of a table to the description from its source of types."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from cdc_assets.errors import ConfigError
from cdc_assets.schema.described import Described
from cdc_assets.schema.existing import UNKNOWN_VALUE
from cdc_assets.schema.modes import ConnectorModes, LossyEncoding, TypeEncoding, encoding_of
from cdc_assets.schema.parse import TypeSpec, type_text
from cdc_assets.schema.stand_ins import UNBOUNDED
from cdc_assets.schema.types import (
    Column,
    ColumnType,
    Decimal,
    Existing,
    ListOf,
    Primitive,
    TableSchema,
    UnmappedColumn,
    Wire,
    WireDetail,
)

_NUMBER: Final = frozenset({
    Wire.INT, Wire.LONG, Wire.FLOAT, Wire.DOUBLE, Wire.EPOCH_DAYS, Wire.EPOCH_MILLIS,
    Wire.EPOCH_MICROS, Wire.EPOCH_NANOS, Wire.MILLIS_OF_DAY, Wire.NANOS_OF_DAY,
})  # fmt: skip
_TEXT: Final = frozenset({
    Wire.STRING, Wire.BYTES_BASE64, Wire.BYTES_HEX, Wire.DECIMAL_BYTES, Wire.ISO_ZONED,
    Wire.ISO_DATE, Wire.ISO_TIME, Wire.ISO_TIMESTAMP,
})  # fmt: skip
_STORED_AS: Final[dict[Wire, frozenset[Primitive]]] = {
    Wire.BOOLEAN: frozenset({Primitive.BOOLEAN}),
    Wire.INT: frozenset({Primitive.INT, Primitive.LONG}),
    Wire.LONG: frozenset({Primitive.LONG}),
    Wire.MILLIS_OF_DAY: frozenset({Primitive.LONG}),
    Wire.NANOS_OF_DAY: frozenset({Primitive.LONG}),
    Wire.ISO_DATE: frozenset({Primitive.DATE}),
    Wire.ISO_TIME: frozenset({Primitive.LONG}),
    Wire.ISO_TIMESTAMP: frozenset({Primitive.TIMESTAMP}),
    Wire.VARIABLE_SCALE_DECIMAL: frozenset({Primitive.STRING}),
    Wire.FLOAT: frozenset({Primitive.FLOAT, Primitive.DOUBLE}),
    Wire.DOUBLE: frozenset({Primitive.DOUBLE}),
    Wire.STRING: frozenset({Primitive.STRING}),
    Wire.BYTES_BASE64: frozenset({Primitive.BINARY}),
    Wire.BYTES_HEX: frozenset({Primitive.BINARY}),
    Wire.EPOCH_DAYS: frozenset({Primitive.DATE}),
    Wire.EPOCH_MILLIS: frozenset({Primitive.TIMESTAMP}),
    Wire.EPOCH_MICROS: frozenset({Primitive.TIMESTAMP}),
    Wire.EPOCH_NANOS: frozenset({Primitive.TIMESTAMP}),
    Wire.ISO_ZONED: frozenset({Primitive.TIMESTAMPTZ}),
    Wire.BOOLEAN_OR_INT: frozenset({Primitive.BOOLEAN, Primitive.INT, Primitive.LONG}),
    Wire.UNSIGNED_LONG: frozenset({Primitive.LONG}),
    Wire.BITS: frozenset({Primitive.LONG}),
    Wire.INTEGER_TEXT: frozenset({Primitive.INT, Primitive.LONG}),
    Wire.FLOATING_TEXT: frozenset({Primitive.FLOAT, Primitive.DOUBLE}),
    Wire.BOOLEAN_TEXT: frozenset({Primitive.BOOLEAN}),
    Wire.DATE_TEXT: frozenset({Primitive.DATE}),
    Wire.TIME_TEXT: frozenset({Primitive.LONG}),
    Wire.TIMESTAMP_TEXT: frozenset({Primitive.TIMESTAMP}),
    Wire.BYTES_LATIN1: frozenset({Primitive.BINARY}),
    Wire.SCALAR: frozenset(Primitive),
    Wire.LABELS: frozenset({Primitive.STRING}),
    Wire.JSON: frozenset({Primitive.STRING}),
}
_DECIMALS: Final = frozenset({
    Wire.DECIMAL_BYTES, Wire.DECIMAL_TEXT, Wire.VARIABLE_SCALE_DECIMAL, Wire.UNSIGNED_LONG,
    Wire.BITS, Wire.INTEGER_TEXT, Wire.SCALAR,
})  # fmt: skip
_OTHER_TEXT: Final = frozenset({
    Wire.DECIMAL_TEXT, Wire.INTEGER_TEXT, Wire.FLOATING_TEXT, Wire.BOOLEAN_TEXT, Wire.DATE_TEXT,
    Wire.TIME_TEXT, Wire.TIMESTAMP_TEXT, Wire.BYTES_LATIN1, Wire.ENUM_ORDINAL, Wire.SET_BITS,
    Wire.ISO_DATE, Wire.ISO_TIME, Wire.ISO_TIMESTAMP,
})  # fmt: skip


def apply_overrides(
    described: Described,
    types: Mapping[str, TypeSpec],
    primary_key: Sequence[str],
    modes: ConnectorModes,
    *,
    masked: Collection[str] = (),
    where: str = "",
) -> Described:
    """Replaces column types and the key by configured ones.

    For ``masked`` columns only a digest is stored, of the text that their values arrive as.

    A configured type must be able to hold the arriving values: guesses are replaced freely as long
    as the JSON kinds agree; types from a record schema or the database only by types that
    hold the same values.

    A configured type of a column that inference has not seen waits until it is seen, unless
    its name is nearly that of a column that was seen.

    Raises:
        ConfigError: if a name or a type does not fit; suggests the nearest match.
    """
    for name in (*types, *masked):
        require_column(name, described, where)
    for name in primary_key:
        _require_known(name, described.names, where)
    columns = tuple(
        _typed(each, types[each.name], described, modes, where) if each.name in types else each
        for each in described.columns
    )
    columns = tuple(_masked(each) if each.name in masked else each for each in columns)
    key = tuple(primary_key) or described.key
    return replace(described, columns=_required(columns, set(primary_key)), key=key)


def with_bounds(described: Described, type_: Decimal | None) -> Described:
    """Gives decimals without precision this type; None keeps them as text."""
    if type_ is None:
        return described
    return replace(described, columns=tuple(_bounded(each, type_) for each in described.columns))


def require_column(name: str, described: Described, where: str = "") -> None:
    """Refuses an unknown column; if columns are guessed, only one whose name is nearly theirs.

    Raises:
        ConfigError: with the nearest match.
    """
    if not described.inferred or get_close_matches(name, described.names, n=1):
        _require_known(name, described.names, where)


def _bounded(column: Column | UnmappedColumn, type_: Decimal) -> Column | UnmappedColumn:
    """Gives a decimal without precision, or a list of such, this type."""
    if not isinstance(column, Column):
        return column
    comment = column.comment.removesuffix(UNBOUNDED.comment).removesuffix("; ")
    if (column.wire, column.type) == (Wire.VARIABLE_SCALE_DECIMAL, Primitive.STRING):
        return replace(column, type=type_, comment=comment)
    if (column.element_wire, column.type) == (
        Wire.VARIABLE_SCALE_DECIMAL,
        ListOf(Primitive.STRING),
    ):
        return replace(column, type=ListOf(type_), comment=comment)
    return column


def mark_of(salt: str) -> str:
    """Returns the mark by which a salt is recognized, and cannot be found."""
    return hashlib.sha256(f"cdc-assets.salt:{salt}".encode()).hexdigest()[:16]


def with_marks(schema: TableSchema, salts: Mapping[str, str]) -> TableSchema:
    """Returns masked columns with the marks of their salts, which have names in records."""
    columns = (
        replace(c, detail=replace(c.detail, salt=mark_of(salt) if salt else ""))
        if c.detail and c.detail.mask
        else c
        for c in schema.columns
        for salt in [salts.get(c.sent_as)]
    )
    return replace(schema, columns=tuple(columns))


def as_digest(column: Column, salt: str = "") -> Column:
    """Returns a column of whose values the lake has only a digest.

    Args:
        column: the column.
        salt: the mark of the digest's salt; empty for none.
    """
    detail = replace(column.detail or WireDetail(), mask=True, salt=salt)
    comment = "SHA-256 of the value"
    digest = replace(column, type=Primitive.STRING, comment=comment, detail=detail)
    return replace(digest, existing=_without_value(column))


def _masked(column: Column | UnmappedColumn) -> Column | UnmappedColumn:
    if column.wire is None:
        return column
    if isinstance(column, UnmappedColumn):
        flags = (column.required, column.unchanged_marker)
        column = Column(column.name, Primitive.STRING, column.wire, *flags)
    return as_digest(column)


def _typed(
    column: Column | UnmappedColumn,
    spec: TypeSpec,
    described: Described,
    modes: ConnectorModes,
    where: str,
) -> Column:
    wire, element_wire = _wire(column, spec, described, modes, where)
    return Column(
        column.name,
        spec.type,
        wire,
        column.required,
        column.unchanged_marker,
        element_wire,
        column.comment,
        detail=_detail(column, spec) if isinstance(column, Column) else None,
        existing=_without_value(column) if isinstance(column, Column) else None,
    )


def _without_value(column: Column) -> Existing | None:
    """Returns the value of older rows in a column that is stored otherwise: it is not known."""
    is_empty = column.existing is None or column.existing.is_empty
    return column.existing if is_empty else UNKNOWN_VALUE


def _detail(column: Column, spec: TypeSpec) -> WireDetail | None:
    """Keeps the scale in which a decimal's bytes arrive, whatever scale it is stored in."""
    if column.wire is not Wire.DECIMAL_BYTES or not isinstance(spec.type, Decimal):
        return column.detail
    if column.wire_scale == spec.type.scale:
        return column.detail
    return replace(column.detail or WireDetail(), scale=column.wire_scale)


def _wire(
    column: Column | UnmappedColumn,
    spec: TypeSpec,
    described: Described,
    modes: ConnectorModes,
    where: str,
) -> tuple[Wire, Wire | None]:
    if column.wire is Wire.JSON_TEXT and spec.type is Primitive.STRING:
        return Wire.STRING, None  # a configured text is not examined: the producer may spoil JSON
    if isinstance(column, Column) and column.type == spec.type:
        return column.wire, column.element_wire
    if described.inferred and column.name in described.unseen:
        encoding = _encoding(column, spec, modes, where)
        return encoding.wire, encoding.element_wire
    if described.inferred and isinstance(column, Column):
        return _replacing_guess(column, spec, modes, where)
    wire = column.wire
    if wire is None or not _holds(spec.type, wire):
        raise _unfit(column, spec, _arrival(column), where)
    # Text with another meaning stays plain text if it is not to be interpreted.
    as_text = wire in _OTHER_TEXT and spec.type is Primitive.STRING
    return (Wire.STRING if as_text else wire), None


def _arrival(column: Column | UnmappedColumn) -> str:
    if isinstance(column, UnmappedColumn) and column.wire is None:
        return column.reason
    return f"its values arrive as {column.wire}"


def _holds(type_: ColumnType, wire: Wire) -> bool:
    match type_:
        case Decimal():
            return wire in _DECIMALS
        case ListOf():
            return False
        case Primitive.STRING if wire in _OTHER_TEXT:
            return True
        case _:
            return type_ in _STORED_AS.get(wire, frozenset[Primitive]())


def _encoding(
    column: Column | UnmappedColumn, spec: TypeSpec, modes: ConnectorModes, where: str
) -> TypeEncoding:
    encoding = encoding_of(spec.type, modes, spec.precision)
    if isinstance(encoding, LossyEncoding):
        raise _unfit(column, spec, encoding.reason, where)
    return encoding


def _replacing_guess(
    column: Column, spec: TypeSpec, modes: ConnectorModes, where: str
) -> tuple[Wire, Wire | None]:
    encoding = _encoding(column, spec, modes, where)
    guessed = column.element_wire if column.element_wire is not None else column.wire
    expected = encoding.element_wire if encoding.element_wire is not None else encoding.wire
    if (column.wire is Wire.LIST) != (encoding.wire is Wire.LIST) or not _agree(guessed, expected):
        reason = f"its sampled values are {guessed}, but the connector's modes make it {expected}"
        raise _unfit(column, spec, reason, where)
    return encoding.wire, encoding.element_wire


def _agree(guessed: Wire, expected: Wire) -> bool:
    """Returns whether values guessed as one encoding may be of the other, by their JSON kind."""
    if expected is Wire.DECIMAL_TEXT:
        return guessed in _NUMBER | _TEXT
    return guessed is expected or any(
        guessed in kind and expected in kind for kind in (_NUMBER, _TEXT)
    )


def _required(
    columns: Iterable[Column | UnmappedColumn], key: set[str]
) -> tuple[Column | UnmappedColumn, ...]:
    return tuple(
        replace(each, required=True, unchanged_marker=False) if each.name in key else each
        for each in columns
    )


def _require_known(name: str, known: Sequence[str], where: str) -> None:
    if name in known:
        return
    close = get_close_matches(name, known, n=1)
    remedy = f"did you mean {close[0]!r}?" if close else f"columns: {', '.join(known)}"
    msg = f"the configuration names a column {name!r} that the table does not have"
    raise ConfigError(msg, where=where, remedy=remedy)


def _unfit(column: Column | UnmappedColumn, spec: TypeSpec, reason: str, where: str) -> ConfigError:
    msg = f"column {column.name!r} cannot be stored as {type_text(spec.type)}: {reason}"
    remedy = "correct tables.<schema.table>.columns, or the connector section"
    return ConfigError(msg, where=where, remedy=remedy)
