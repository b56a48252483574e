"""PostgreSQL's catalog types as Debezium's PostgreSQL connector writes them without schemas.

Each rule was read in debezium/debezium 3.x: ``PostgresValueConverter.schemaBuilder`` (which
schema a type gets, and which types get none and are left out of events),
``JdbcValueConverters.schemaBuilder`` (the rest), ``TemporalPrecisionMode`` (times), and
``UnchangedToastedReplicationMessageColumn`` (which values may be a placeholder). A type that
is not listed here is refused, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cdc_assets.databases.mapping import (
    Mapped,
    Outcome,
    Refused,
    as_column,
    described_by_catalog,
    usable,
)
from cdc_assets.schema.described import Described
from cdc_assets.schema.modes import (
    ConnectorModes,
    DecimalMode,
    Encoding,
    encoding_of,
    time_of_day,
)
from cdc_assets.schema.parse import MAX_DECIMAL_DIGITS
from cdc_assets.schema.types import (
    MICROS_OF_DAY,
    Column,
    Decimal,
    ListOf,
    Primitive,
    UnmappedColumn,
    Wire,
)

ENUM: Final = "e"
"""``pg_type.typtype`` of an enumeration."""

_SIMPLE: Final = {
    "bool": Primitive.BOOLEAN,
    "int2": Primitive.INT,
    "int4": Primitive.INT,
    "int8": Primitive.LONG,
    "oid": Primitive.LONG,
    "float4": Primitive.FLOAT,
    "float8": Primitive.DOUBLE,
    "date": Primitive.DATE,
    "timestamp": Primitive.TIMESTAMP,
    "timestamptz": Primitive.TIMESTAMPTZ,
    "bytea": Primitive.BINARY,
}
_TEXT: Final = frozenset({
    "text", "varchar", "bpchar", "char", "name", "citext", "json", "jsonb", "xml", "uuid",
    "inet", "cidr", "macaddr", "macaddr8", "ltree", "tsvector",
})  # fmt: skip
_RANGES: Final = frozenset({
    "int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange",
})  # fmt: skip
_VARLENA: Final = _RANGES | {
    "text", "varchar", "bpchar", "citext", "json", "jsonb", "xml", "bytea", "ltree", "tsvector",
    "hstore", "geometry", "geography",
}  # fmt: skip
_TEXT_LATER: Final = "store its text by configuring it as string"
_REFUSED: Final[dict[str, tuple[str, Wire | None]]] = {
    "timetz": (f"it arrives as UTC text and has lost its zone; {_TEXT_LATER}", Wire.STRING),
    "interval": (
        "it arrives as microseconds with months of average length (interval.handling.mode="
        "numeric, configure it as bigint) or as text (string)",
        Wire.LONG,
    ),
    "hstore": (f"it is a map (JSON text in the default hstore mode); {_TEXT_LATER}", Wire.STRING),
    **dict.fromkeys(_RANGES, (f"a range has no lake type; {_TEXT_LATER}", Wire.STRING)),
    **dict.fromkeys(
        ("point", "box", "lseg", "path", "polygon", "circle", "line", "geometry", "geography"),
        ("geometry arrives as a structure", None),
    ),
}
_BITS: Final = (
    "bit strings arrive as little-endian bytes, of one bit as booleans; store their number by "
    "configuring bigint, of 64 bits decimal(20,0), of one bit boolean"
)
_ARRAYS_LEFT_OUT: Final = frozenset({
    "money", "name", "interval", "varbit", "bit", "xml", "point", "refcursor",
})  # fmt: skip
_MONEY: Final = {
    DecimalMode.PRECISE: Wire.DECIMAL_BYTES,
    DecimalMode.STRING: Wire.DECIMAL_TEXT,
    DecimalMode.DOUBLE: Wire.DOUBLE,
}


@dataclass(frozen=True, slots=True)
class PostgresColumn:
    """A column as the catalog has it, domains replaced by what they stand for.

    Attributes:
        name: ``attname``.
        type_name: ``typname`` of the type, for arrays of the element (``numeric``, ``int4``).
        type_text: ``format_type(…)``, for people.
        modifier: ``atttypmod``; -1 if the type has no number.
        is_array: whether it is an array of ``type_name``.
        kind: ``typtype`` of the type or element: b(ase), e(num), c(omposite), r(ange), ….
        not_null: whether it is declared so.
        comment: from ``COMMENT ON COLUMN``.
        is_generated: whether PostgreSQL computes it (``GENERATED ALWAYS AS (…)``).
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


def describe_table(
    columns: Iterable[PostgresColumn],
    key: tuple[str, ...],
    modes: ConnectorModes,
    *,
    comment: str = "",
) -> Described:
    """A table of the catalog as a connector with these modes writes it."""
    return described_by_catalog((map_column(c, modes) for c in columns), key, comment)


def map_column(column: PostgresColumn, modes: ConnectorModes) -> Column | UnmappedColumn:
    """The lake column that holds every value of a PostgreSQL column exactly, or why none does."""
    outcome = _array(column, modes) if column.is_array else _scalar(column, modes)
    marker = column.is_array or column.type_name in _VARLENA
    return as_column(column, outcome, unchanged_marker=marker)


def _scalar(column: PostgresColumn, modes: ConnectorModes) -> Outcome:
    name = column.type_name
    if column.kind == ENUM or name in _TEXT:
        return Mapped(Primitive.STRING, Encoding(Wire.STRING))
    if name in _SIMPLE:
        digits = seconds_digits(column.modifier)
        return usable(_SIMPLE[name], encoding_of(_SIMPLE[name], modes, digits))
    match name:
        case "numeric":
            return _numeric(column.modifier, modes)
        case "time":
            encoded = time_of_day(seconds_digits(column.modifier), modes.time)
            return usable(Primitive.LONG, encoded, MICROS_OF_DAY)
        case "money":
            reason = "its digits depend on the server's locale; configure it as decimal(19,2)"
            return Refused(reason, _MONEY[modes.decimal])
        case "bit" | "varbit":
            return Refused(_BITS, Wire.BOOLEAN if column.modifier == 1 else Wire.BITS)
        case _:
            reason = "the connector leaves this type out of its events", None
            return Refused(*_REFUSED.get(name, reason))


def _array(column: PostgresColumn, modes: ConnectorModes) -> Outcome:
    if column.type_name in _ARRAYS_LEFT_OUT:
        return Refused(f"the connector leaves arrays of {column.type_name} out of its events")
    element = _scalar(column, modes)
    if isinstance(element, Refused) or isinstance(element.type, ListOf):
        reason = element.reason if isinstance(element, Refused) else "an array of arrays"
        return Refused(f"elements: {reason}")
    encoding = Encoding(Wire.LIST, element.encoding.wire)
    return Mapped(ListOf(element.type), encoding, element.comment)


def _numeric(modifier: int, modes: ConnectorModes) -> Outcome:
    declared = numeric_digits(modifier)
    if declared is None:
        wires = {**_MONEY, DecimalMode.PRECISE: Wire.VARIABLE_SCALE_DECIMAL}
        reason = "numeric without precision has no bound; configure decimal(38,10), for example"
        return Refused(reason, wires[modes.decimal])
    precision, scale = declared
    if scale < 0:
        return Refused("a negative scale has no lake type")
    # PostgreSQL 15+ allows a scale above the precision: digits start after some zeros.
    type_ = Decimal(max(precision, scale), scale)
    if type_.precision > MAX_DECIMAL_DIGITS:
        reason = f"the lake holds {MAX_DECIMAL_DIGITS} digits; narrow the column in the source"
        as_text = modes.decimal is DecimalMode.STRING
        remedy = f"{reason}, or configure it as string" if as_text else reason
        return Refused(remedy, Wire.STRING if as_text else None)
    return usable(type_, encoding_of(type_, modes, None))


def numeric_digits(modifier: int) -> tuple[int, int] | None:
    """Precision and scale in a ``numeric`` type modifier; None if it is unconstrained.

    PostgreSQL's ``numeric.c``: precision in the upper 16 bits, scale in the lower 11, signed.
    """
    if modifier < 4:
        return None
    packed = modifier - 4
    return packed >> 16 & 0xFFFF, ((packed & 0x7FF) ^ 1024) - 1024


def seconds_digits(modifier: int) -> int | None:
    """Digits after the second in the type modifier of a time or timestamp; None if not given."""
    return modifier if modifier >= 0 else None
