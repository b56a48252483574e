"""Types of MySQL and MariaDB as Debezium's connectors write them without schemas.

Each rule was read in debezium/debezium 3.x: ``BinlogValueConverters`` (``MySqlValueConverters``,
``MariaDbValueConverters``), ``JdbcValueConverters.schemaBuilder`` for the rest, the JDBC types
that ``MySqlAntlrDdlParser`` and ``MariaDbAntlrDdlParser`` give, and ``BinlogConnectorConfig``
(modes and their defaults). The tests hold them against what 3.6.1.Final (MySQL's) and
3.5.0.Final (MariaDB's) wrote. A type that is not listed here is refused, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
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
from cdc_assets.databases.mysql.type_text import MysqlType, parse_column_type
from cdc_assets.schema import stand_ins
from cdc_assets.schema.described import Described
from cdc_assets.schema.modes import (
    ConnectorModes,
    TimeMode,
    TypeEncoding,
    UnsignedMode,
    encoding_of,
    time_of_day,
)
from cdc_assets.schema.stand_ins import UNSIGNED_LONG, StoredAs
from cdc_assets.schema.types import (
    Column,
    ColumnType,
    Decimal,
    ListOf,
    Primitive,
    UnmappedColumn,
    Wire,
)

MICROSECONDS: Final = "microseconds, between -838:59:59.999999 and 838:59:59.999999"
"""How ``time`` is stored; the comment of such columns."""

FLOAT_DIGITS: Final = 24
"""``float(p)`` is a double from p = 25 on."""

INTEGERS: Final = {
    "tinyint": Primitive.INT,
    "smallint": Primitive.INT,
    "mediumint": Primitive.INT,
    "int": Primitive.INT,
    "bigint": Primitive.LONG,
}
TEXTS: Final = frozenset({
    "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "json",
})  # fmt: skip
BYTES: Final = frozenset({
    "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob",
})  # fmt: skip
GEOMETRIES: Final = frozenset({
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring",
    "multipolygon", "geometrycollection",
})  # fmt: skip
_UNPARSED: Final = "the connector cannot read a definition with this type, and stops at its table"
_UUID: Final = (
    "MariaDB's connector changes values that end with a zero byte (one of 256); keep them in "
    "char(36) or binary(16), or accept it by configuring string"
)
_TIME_OF_DAY: Final = (
    "time.precision.mode={} makes NULL of times below 0 and above 24 hours; set it to "
    "adaptive_time_microseconds"
)


@dataclass(frozen=True, slots=True)
class MysqlColumn:
    """A column as the catalog or a record has it.

    Attributes:
        name: ``COLUMN_NAME``.
        type_text: ``COLUMN_TYPE``, or what a record says in its place.
        not_null: whether it is declared so.
        comment: ``COLUMN_COMMENT``.
        has_default: whether rows that do not name it get a value.
        sql_type: a record's other word for how it was read, of ``java.sql.Types``; None if it has
            none.
    """

    name: str
    type_text: str
    not_null: bool = False
    comment: str = ""
    has_default: bool = False
    sql_type: int | None = None


_TEXT: Final = Mapped(Primitive.STRING, TypeEncoding(Wire.STRING))
_ALWAYS: Final[dict[str, Outcome]] = {
    **dict.fromkeys((*TEXTS, "enum", "set"), _TEXT),
    **dict.fromkeys(GEOMETRIES, stored(stand_ins.GEOMETRY)),
    "point": stored(stand_ins.POINT),
    "year": Mapped(Primitive.INT, TypeEncoding(Wire.INT)),
    "timestamp": Mapped(Primitive.TIMESTAMPTZ, TypeEncoding(Wire.ISO_ZONED)),
    "vector": Mapped(ListOf(Primitive.FLOAT), TypeEncoding(Wire.LIST, Wire.FLOAT)),
    "uuid": RefusedType(_UUID, Wire.STRING),
    **dict.fromkeys(("inet4", "inet6"), RefusedType(_UNPARSED)),
}
"""Types that arrive in one way, whatever the modes."""


def describe_table(
    columns: Iterable[MysqlColumn],
    key: tuple[str, ...],
    modes: ConnectorModes,
    *,
    comment: str = "",
) -> Described:
    """Describes a table of the catalog as a connector with these modes writes it."""
    return described_by_catalog((map_column(c, modes) for c in columns), key, comment)


def with_unsigned(described: Described, columns: Iterable[MysqlColumn]) -> Described:
    """Returns the columns of a record's schema with ``bigint unsigned`` columns as such.

    With ``bigint.unsigned.handling.mode=long`` the schema is that of ``bigint``.
    """
    names = (each.name for each in columns if _is_unsigned_long(each))
    return described.with_unsigned(dict.fromkeys(names, UNSIGNED_LONG))


def _is_unsigned_long(column: MysqlColumn) -> bool:
    parsed = parse_column_type(column.type_text)
    return parsed.unsigned and parsed.name == "bigint"


def map_column(column: MysqlColumn, modes: ConnectorModes) -> Column | UnmappedColumn:
    """Maps a MySQL column to one that holds every value exactly, or says why none does."""
    return mapped_by(column, lambda parsed: _outcome(parsed, modes))


def mapped_by(
    column: MysqlColumn, outcome_of: Callable[[MysqlType], Outcome]
) -> Column | UnmappedColumn:
    """Returns the column of a type's outcome; refuses one whose type is not understood."""
    parsed = parse_column_type(column.type_text)
    return as_column(column, unreadable(parsed) or outcome_of(parsed))


def unreadable(parsed: MysqlType) -> RefusedType | None:
    """Says why a type's text or storage is not understood; None if it is."""
    if not parsed.name:
        return RefusedType("this is not the text of a type")
    if "compressed" in parsed.remarks:
        return RefusedType("no connector reads compressed columns from MariaDB's binlog")
    if "mariadb-5.3" in parsed.remarks and not parsed.arguments:
        return None  # without fractions it is what MySQL 5.5 wrote
    if parsed.remarks:
        return RefusedType(f"its definition is not understood ({', '.join(parsed.remarks)})")
    return None


def _outcome(parsed: MysqlType, modes: ConnectorModes) -> Outcome:
    digits = seconds_digits(parsed)
    match parsed.name:
        case name if name in _ALWAYS:
            return _ALWAYS[name]
        case name if name in INTEGERS:
            return _integer(parsed, modes.unsigned)
        case name if name in BYTES:
            return _encoded(Primitive.BINARY, modes)
        case "decimal":
            return _decimal(parsed, modes)
        case "float" | "double":
            return _encoded(_floating(parsed), modes)
        case "bit":
            return bits(bit_width(parsed))
        case "date":
            return _encoded(Primitive.DATE, modes)
        case "datetime":
            return _encoded(Primitive.TIMESTAMP, modes, digits)
        case "time":
            return _time(digits, modes.time)
        case _:
            return RefusedType("no lake type is known for it")


def _integer(parsed: MysqlType, mode: UnsignedMode) -> Mapped:
    """Widens unsigned types; ``tinyint(1)`` keeps -128 to 127, see `Wire.BOOLEAN_OR_INT`.

    The connector writes ``tinyint(1)`` as a number if it read the table's definition from the
    server, which has forgotten the word, and as a boolean if it saw ``bool`` in the DDL.
    """
    if parsed.name == "tinyint" and parsed.arguments == (1,) and not parsed.unsigned:
        return Mapped(Primitive.INT, TypeEncoding(Wire.BOOLEAN_OR_INT))
    if not parsed.unsigned or parsed.name not in {"int", "bigint"}:
        type_ = INTEGERS[parsed.name]
        return Mapped(type_, TypeEncoding(Wire.LONG if type_ is Primitive.LONG else Wire.INT))
    if parsed.name == "int":
        return Mapped(Primitive.LONG, TypeEncoding(Wire.LONG))
    is_precise = mode is UnsignedMode.PRECISE
    return Mapped(
        UNSIGNED_LONG, TypeEncoding(Wire.DECIMAL_BYTES if is_precise else Wire.UNSIGNED_LONG)
    )


def decimal_as(parsed: MysqlType, encoding: TypeEncoding) -> Outcome:
    """Maps a ``decimal`` whose digits arrive as text: of more than the lake has, to that text."""
    exact = _exact_decimal(parsed)
    if isinstance(exact, RefusedType):
        return exact
    if isinstance(exact.type, Decimal):
        return Mapped(exact.type, encoding)
    return Mapped(Primitive.STRING, TypeEncoding(Wire.STRING), exact.comment)


def _decimal(parsed: MysqlType, modes: ConnectorModes) -> Outcome:
    exact = _exact_decimal(parsed)
    return exact if isinstance(exact, RefusedType) else decimal(exact, modes)


def _exact_decimal(parsed: MysqlType) -> StoredAs | RefusedType:
    """Maps it with the digits that are declared, (10,0) if none are."""
    precision, scale = (*parsed.arguments, *(10, 0)[len(parsed.arguments) :])[:2]
    precision = precision or 10  # decimal(0) is decimal(10)
    if scale > precision:
        return RefusedType("its scale is above its precision, which MySQL does not allow")
    return stand_ins.decimal(precision, scale)


def _floating(parsed: MysqlType) -> Primitive:
    """Maps ``float(m,d)`` to the double as which the float arrives; others to what they are."""
    if parsed.name == "float" and parsed.arguments[:1] <= (FLOAT_DIGITS,):
        return Primitive.FLOAT if len(parsed.arguments) < 2 else Primitive.DOUBLE
    return Primitive.DOUBLE


def bit_type(parsed: MysqlType) -> ColumnType:
    """Maps ``bit(1)`` to a boolean, more bits to the number that they are in MySQL."""
    return bits(bit_width(parsed)).type


def bit_width(parsed: MysqlType) -> int:
    """Returns the number of bits of a ``bit`` type."""
    return parsed.arguments[0] if parsed.arguments else 1


def seconds_digits(parsed: MysqlType) -> int:
    """Digits after the second; none if not declared, unlike in PostgreSQL."""
    return parsed.arguments[0] if parsed.arguments else 0


def _time(digits: int, mode: TimeMode) -> Outcome:
    """Maps ``time``, a duration: microseconds, below 0 and above 24 hours too."""
    match mode:
        case TimeMode.ADAPTIVE:  # these connectors refuse it; PostgreSQL's default
            return _time(digits, TimeMode.ADAPTIVE_TIME_MICROSECONDS)
        case TimeMode.CONNECT | TimeMode.ISOSTRING:
            wire = Wire.MILLIS_OF_DAY if mode is TimeMode.CONNECT else Wire.ISO_TIME
            return RefusedType(_TIME_OF_DAY.format(mode.value), wire)
        case _:
            return usable(Primitive.LONG, time_of_day(digits, mode), MICROSECONDS)


def _encoded(type_: ColumnType, modes: ConnectorModes, digits: int | None = None) -> Outcome:
    return usable(type_, encoding_of(type_, modes, digits))
