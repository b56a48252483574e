"""Maps PostgreSQL's types as Debezium's connector writes them without schemas.

Sources, in debezium/debezium 3.x: ``PostgresValueConverter.schemaBuilder`` (the schema of a type,
and the types that get none and are left out of events), ``ReplicationMessageColumnValueResolver``
(the values in changes), ``JdbcValueConverters.schemaBuilder`` (the rest), and
``TemporalPrecisionMode`` (times); see `large_values` for values that may be a placeholder. A type
that is not listed here is unknown to the connector: refused, or with ``include.unknown.datatypes``
the bytes of PostgreSQL's text of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from cdc_assets.databases.mapping import (
    Mapped,
    Outcome,
    RefusedType,
    as_column,
    bits,
    decimal,
    described_by_catalog,
    stored,
    usable,
)
from cdc_assets.databases.postgres.columns import (
    ENUM,
    OF_EXTENSIONS,
    SPATIAL,
    VECTORS,
    PostgresColumn,
    is_long_number,
    lost_when_unchanged,
    numeric_digits,
    seconds_digits,
)
from cdc_assets.schema import stand_ins
from cdc_assets.schema.described import Described
from cdc_assets.schema.modes import (
    ConnectorModes,
    DecimalMode,
    IntervalMode,
    TypeEncoding,
    encoding_of,
    time_of_day,
)
from cdc_assets.schema.stand_ins import StoredAs
from cdc_assets.schema.types import (
    MICROS_OF_DAY,
    Column,
    Decimal,
    ListOf,
    Primitive,
    StructOf,
    UnmappedColumn,
    Wire,
)

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
    "inet", "cidr", "macaddr", "macaddr8", "ltree", "tsvector", "isbn",
})  # fmt: skip
_RANGES: Final = frozenset({
    "int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange",
})  # fmt: skip
_VARLENA: Final = _RANGES | {
    "text", "varchar", "bpchar", "citext", "json", "jsonb", "xml", "bytea", "ltree", "tsvector",
    "hstore", "vector", "halfvec",
}  # fmt: skip
_STAND_INS: Final[dict[str, StoredAs]] = {
    "timetz": stand_ins.ZONED_TIME,
    "hstore": StoredAs(Primitive.STRING, Wire.STRING, comment="JSON"),
    "point": stand_ins.POINT,
    "geometry": stand_ins.GEOMETRY,
    "geography": stand_ins.GEOMETRY,
    **dict.fromkeys(_RANGES, StoredAs(Primitive.STRING, Wire.STRING)),
    "vector": StoredAs(ListOf(Primitive.DOUBLE), Wire.LIST, Wire.DOUBLE),
    "halfvec": StoredAs(ListOf(Primitive.FLOAT), Wire.LIST, Wire.FLOAT),
    "sparsevec": stand_ins.DOCUMENT,
}
_UNLESS_INCLUDED: Final = (
    "unless include.unknown.datatypes=true is set there, and connector.include_unknown_datatypes: "
    "true here"
)
_LEFT_OUT: Final = f"the connector leaves this type out of its events, {_UNLESS_INCLUDED}"
_NAME: Final = (
    "the connector sends its values in snapshots only, and NULL or empty text in changes, "
    f"{_UNLESS_INCLUDED}"
)
_AS_TEXT: Final = "PostgreSQL's text of the value, in UTF-8"
_EMPTIED: Final = frozenset({"int2vector", "oidvector"})
_SENT_EMPTY: Final = "the connector sends empty arrays in the place of its values"
_ARRAYS_LEFT_OUT: Final = frozenset({
    "money", "name", "interval", "varbit", "bit", "xml", "point", "refcursor", "sparsevec",
})  # fmt: skip
_NESTED: Final = (
    "the connector writes arrays of more than one dimension as lists of NULL; if its values have "
    "one, declare the column so (ALTER TABLE … ALTER COLUMN … TYPE {}[])"
)
_MONEY: Final = Decimal(19, 2)
_KNOWN: Final = frozenset({
    *_SIMPLE, *_TEXT, *_STAND_INS, *_EMPTIED, "numeric", "time", "money", "interval", "bit",
    "varbit",
})  # fmt: skip
_VARBIT: Final = (
    "the connector does not send the zeros that its values begin with; store their number by "
    "configuring bigint, of up to 64 bits decimal(20,0)"
)


def describe_table(
    columns: Iterable[PostgresColumn],
    key: tuple[str, ...],
    modes: ConnectorModes,
    *,
    comment: str = "",
) -> Described:
    """Describes a table of the catalog as a connector with these modes writes it.

    A key's column is never lost unnoticed: a record without its value is rejected.
    """
    whole = (replace(c, may_be_toasted=False) if c.name in key else c for c in columns)
    return described_by_catalog((map_column(c, modes) for c in whole), key, comment)


def without_lost(
    described: Described, columns: Iterable[PostgresColumn], modes: ConnectorModes
) -> Described:
    """Corrects a description from a record's schema: refuses columns whose values are not sent.

    Such a column's schema looks ordinary: of text, of an array of one dimension, of bits. A column
    that arrives in another way is left unchanged: a custom converter of the connector writes it.
    """
    known = {each.name: each for each in columns}

    def corrected(column: Column | UnmappedColumn) -> Column | UnmappedColumn:
        source = known.get(column.name)
        if source is None or column.wire not in _sent_as(source):
            return column
        lost = _lost(source, modes)
        if lost is not None:
            return as_column(source, lost)
        if isinstance(column, UnmappedColumn) or column.name in described.key:
            return column
        reason = lost_when_unchanged(source, column.wire, modes, is_bytes=_is_bytes(source))
        if reason is None:
            return column
        return UnmappedColumn(column.name, source.type_text, reason, accepted=column)

    return replace(described, columns=tuple(corrected(each) for each in described.columns))


def _sent_as(lost: PostgresColumn) -> Collection[Wire]:
    """Returns the wire types that records' schemas give a column whose values are not sent."""
    if lost.type_name in {"bit", "varbit"}:
        return {Wire.BITS, Wire.BOOLEAN}
    if lost.is_array or lost.type_name in _EMPTIED | VECTORS:
        return {Wire.LIST, Wire.JSON}
    if _is_bytes(lost):
        return {Wire.STRING, Wire.BYTES_BASE64}
    return {Wire.GEOMETRY} if lost.type_name in SPATIAL else {Wire.STRING}


def _lost(column: PostgresColumn, modes: ConnectorModes) -> RefusedType | None:
    """Returns the reason why a column's values are missing or incomplete in records; else None."""
    match column.type_name:
        case name if name in _EMPTIED:
            return RefusedType(_SENT_EMPTY)
        case name if column.is_array and name in _ARRAYS_LEFT_OUT:
            return RefusedType(f"the connector leaves arrays of {name} out of its events")
        case _ if column.is_array and column.dimensions > 1:
            return _nested(column)
        case _ if column.is_array or column.kind not in OF_EXTENSIONS:
            return None
        case "name" if not modes.unknown:
            return RefusedType(_NAME)
        case "varbit":
            return RefusedType(_VARBIT, Wire.BITS)
        case _:
            return None


def _is_bytes(column: PostgresColumn) -> bool:
    """Returns whether values follow ``binary.handling.mode``."""
    return not column.is_array and (column.type_name == "bytea" or _is_unknown(column))


def map_column(column: PostgresColumn, modes: ConnectorModes) -> Column | UnmappedColumn:
    """Returns the lake column that holds every value of a column exactly, or why there is none."""
    of_type = _array if column.is_array else _scalar
    outcome = _lost(column, modes) or of_type(column, modes)
    if isinstance(outcome, Mapped):
        reason = lost_when_unchanged(
            column, outcome.encoding.wire, modes, is_bytes=_is_bytes(column)
        )
        outcome = RefusedType(reason, accepted=outcome) if reason else outcome
    return as_column(column, outcome, unchanged_marker=_may_be_marked(column, modes))


def _may_be_marked(column: PostgresColumn, modes: ConnectorModes) -> bool:
    """Returns whether a value may be a placeholder."""
    if column.is_array or column.type_name in _VARLENA or _is_unknown(column):
        return True
    # As text only: a placeholder fits neither bytes nor doubles, see `large_values`.
    return modes.decimal is DecimalMode.STRING and is_long_number(column)


def _scalar(column: PostgresColumn, modes: ConnectorModes) -> Outcome:
    name = column.type_name
    if _is_unknown(column):
        return _unknown(modes)
    if column.kind == ENUM or name in _TEXT:
        return Mapped(Primitive.STRING, TypeEncoding(Wire.STRING))
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
            return _money(modes)
        case "interval":
            is_text = modes.interval is IntervalMode.STRING
            return stored(stand_ins.INTERVAL if is_text else stand_ins.DURATION)
        case "bit":
            return bits(max(column.modifier, 1))
        case _ if name in _STAND_INS:
            return stored(_STAND_INS[name])
        case _:
            return RefusedType(_LEFT_OUT)


def _is_unknown(column: PostgresColumn) -> bool:
    """Returns whether the type, or that of an array's elements, is unknown to the connector."""
    if column.kind == ENUM:
        return False
    return column.kind not in OF_EXTENSIONS or column.type_name not in _KNOWN


def _unknown(modes: ConnectorModes) -> Outcome:
    if not modes.unknown:
        return RefusedType(_LEFT_OUT)
    return usable(Primitive.BINARY, encoding_of(Primitive.BINARY, modes, None), _AS_TEXT)


def _array(column: PostgresColumn, modes: ConnectorModes) -> Outcome:
    element = _scalar(column, modes)
    if isinstance(element, RefusedType):
        return RefusedType(f"elements: {element.reason}")
    if isinstance(element.type, ListOf | StructOf) or element.encoding.wire is Wire.JSON:
        return stored(stand_ins.DOCUMENT)
    encoding = TypeEncoding(Wire.LIST, element.encoding.wire)
    return Mapped(ListOf(element.type), encoding, element.comment, element.detail)


def _nested(column: PostgresColumn) -> RefusedType:
    return RefusedType(_NESTED.format(column.type_name))


def _money(modes: ConnectorModes) -> Outcome:
    """Maps money with two digits after the point, the default of ``money.fraction.digits``."""
    if modes.decimal is DecimalMode.PRECISE:
        return stored(stand_ins.decimal(None, 2))
    return usable(_MONEY, encoding_of(_MONEY, modes, None))


def _numeric(modifier: int, modes: ConnectorModes) -> Outcome:
    declared = numeric_digits(modifier)
    # PostgreSQL 15+ allows a scale above the precision: digits start after some zeros.
    exact = stand_ins.decimal(*declared) if declared else stand_ins.UNBOUNDED
    return decimal(exact, modes)
