"""Types of MySQL and MariaDB in formats that write every value as text: Canal, TiCDC.

Each rule was read in alibaba/canal (``RowsLogBuffer.fetchValue``, ``LogEventConvert.parseOneRow``,
which writes what the binlog holds) and in pingcap/tiflow (``canalEntryBuilder.formatValue``,
``formatColVal``). The type is that of the record (``mysqlType``): it may tell less than the
catalog does, and what it does not tell is refused, never guessed.

What the two write:

- integers and ``bit``: decimal digits, unsigned values as such; ``decimal``: plain digits;
- ``float``, ``double``: the shortest digits that are this value (TiCDC without an exponent, and 0
  for what is no number);
- ``enum``: the ordinal of the label, ``set``: the bits of the labels as a number;
- ``binary``, ``varbinary``, ``blob``: each byte as the character of its number. Canal writes
  ``binary(n)`` without its trailing zero bytes, as the binlog has it;
- ``text``: its characters. Canal knows only the words of `TEXTS_OF_CANAL` for text among the
  values that the binlog has as blobs. Others (``text(1000)``, ``varchar(70000)``, MariaDB's
  ``json``) it writes like bytes, and as such in ``sqlType``;
- ``json``: its text, and of an update with ``binlog_row_value_options=PARTIAL_JSON`` the SQL
  that makes it of the old one, which is refused;
- ``date``, ``datetime``, ``time``: as MySQL prints them, zero dates included;
- ``timestamp``: as MySQL prints it, in the time zone of Canal's Java or of TiCDC's server.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cdc_assets.databases.mapping import Mapped, Outcome, RefusedType
from cdc_assets.databases.mysql.type_text import MysqlType
from cdc_assets.databases.mysql.types import (
    BYTES,
    GEOMETRIES,
    INTEGERS,
    MICROSECONDS,
    TEXTS,
    UNSIGNED_LONG,
    MysqlColumn,
    bit_type,
    decimal_as,
    mapped_by,
)
from cdc_assets.schema.described import Described
from cdc_assets.schema.modes import TypeEncoding
from cdc_assets.schema.types import (
    Column,
    ColumnType,
    Primitive,
    UnmappedColumn,
    Wire,
    WireDetail,
)

_NO_DIGITS: Final = (
    "the record does not tell its digits; configure it, decimal(10,2) for example, or let TiCDC "
    "tell them (content-compatible=true)"
)
_NO_LABELS: Final = (
    "the record tells neither its labels nor their values, only numbers; store these by "
    "configuring it as {}, or let TiCDC tell the labels (content-compatible=true)"
)
_NO_ZONE: Final = (
    "its text is local to the server that wrote it; say which zone that is "
    "(connector.time_zone), or store the local time by configuring timestamp"
)
_SET_MEMBERS: Final = 64
_GEOMETRY: Final = "geometry arrives as MySQL stores it; configure binary to keep these bytes"
TEXTS_OF_CANAL: Final = frozenset({"tinytext", "text", "mediumtext", "longtext"})
"""The words for which Canal takes a blob of the binlog for text, in any case of letters."""

BLOB: Final = 2004
BYTES_OF_NULLS: Final = frozenset({-2, -3, -4})
"""``BINARY``, ``VARBINARY``, ``LONGVARBINARY`` of ``java.sql.Types``: of a NULL in the last row, as
earlier releases of Canal tell it."""

_AS_BYTES: Final = Mapped(Primitive.STRING, TypeEncoding(Wire.TEXT_LATIN1))
_UNREAD: Final = "Canal takes its bytes for characters of an encoding"
_ALWAYS: Final[dict[str, Outcome]] = {
    **dict.fromkeys(TEXTS, Mapped(Primitive.STRING, TypeEncoding(Wire.STRING))),
    "json": Mapped(Primitive.STRING, TypeEncoding(Wire.JSON_TEXT)),
    **dict.fromkeys(GEOMETRIES, RefusedType(_GEOMETRY, Wire.BYTES_LATIN1)),
    "float": Mapped(Primitive.FLOAT, TypeEncoding(Wire.FLOATING_TEXT)),
    "double": Mapped(Primitive.DOUBLE, TypeEncoding(Wire.FLOATING_TEXT)),
    "year": Mapped(Primitive.INT, TypeEncoding(Wire.INTEGER_TEXT)),
    "date": Mapped(Primitive.DATE, TypeEncoding(Wire.DATE_TEXT)),
    "time": Mapped(Primitive.LONG, TypeEncoding(Wire.TIME_TEXT), MICROSECONDS),
    "datetime": Mapped(Primitive.TIMESTAMP, TypeEncoding(Wire.TIMESTAMP_TEXT)),
    "vector": RefusedType("a vector arrives as text; configure string to keep it", Wire.STRING),
    **dict.fromkeys(("uuid", "inet4", "inet6"), RefusedType(_UNREAD)),
}
"""Types that arrive in one way, whatever else the record tells of them."""


def describe_text_table(
    columns: Iterable[MysqlColumn], key: tuple[str, ...], *, zone: str | None = None
) -> Described:
    """Describes a table as a format that writes text writes it.

    Args:
        columns: with the types that the records tell.
        key: names of the key columns.
        zone: in which ``timestamp`` values are written: an IANA name or ``+hh:mm``; None if
            nobody has said, and such columns are refused.
    """
    mapped = tuple(map_text_column(column, zone) for column in columns)
    return Described(mapped, key, "types in the records")


def map_text_column(column: MysqlColumn, zone: str | None) -> Column | UnmappedColumn:
    """Maps one column, or says why there is none in the lake."""
    is_bytes = is_written_as_bytes(column.type_text, column.sql_type)
    return mapped_by(column, lambda parsed: _outcome(parsed, zone, is_bytes=is_bytes))


def is_written_as_bytes(type_text: str, sql_type: int | None) -> bool:
    """Returns whether Canal has written a character for each byte.

    Args:
        type_text: ``mysqlType``.
        sql_type: ``sqlType``, of ``java.sql.Types``; None if it is unknown.
    """
    if type_text.lower() in TEXTS_OF_CANAL:
        return sql_type == BLOB
    return sql_type == BLOB or sql_type in BYTES_OF_NULLS


def _outcome(parsed: MysqlType, zone: str | None, *, is_bytes: bool) -> Outcome:
    match parsed.name:
        case name if name in TEXTS and is_bytes:
            return _AS_BYTES
        case name if name in _ALWAYS:
            return _ALWAYS[name]
        case name if name in INTEGERS:
            return _integer(parsed)
        case name if name in BYTES:
            return _bytes(parsed)
        case "decimal":
            return _decimal(parsed)
        case "bit":
            return _bits(parsed)
        case "enum" | "set":
            return _labels(parsed)
        case "timestamp":
            return _timestamp(zone)
        case _:
            return RefusedType("no lake type is known for it")


def _integer(parsed: MysqlType) -> Mapped:
    """Maps ``tinyint(1)`` to an integer: it may hold more than 0 and 1."""
    type_: ColumnType = INTEGERS[parsed.name]
    if parsed.unsigned and parsed.name == "bigint":
        return Mapped(UNSIGNED_LONG, TypeEncoding(Wire.DECIMAL_TEXT))
    if parsed.unsigned and parsed.name == "int":
        type_ = Primitive.LONG
    return Mapped(type_, TypeEncoding(Wire.INTEGER_TEXT))


def _decimal(parsed: MysqlType) -> Outcome:
    if not parsed.arguments:
        return RefusedType(_NO_DIGITS, Wire.DECIMAL_TEXT)
    return decimal_as(parsed, TypeEncoding(Wire.DECIMAL_TEXT))


def _bytes(parsed: MysqlType) -> Mapped:
    """Maps ``binary`` without a width to one byte or more: TiCDC tells no width at all."""
    detail = None
    if parsed.name == "binary":
        width = parsed.arguments[0] if parsed.arguments else None
        detail = WireDetail(least=1) if width is None else WireDetail(width=width)
    return Mapped(Primitive.BINARY, TypeEncoding(Wire.BYTES_LATIN1), detail=detail)


def _bits(parsed: MysqlType) -> Outcome:
    if not parsed.arguments:
        reason = "the record does not tell its width; configure bigint or decimal(20,0)"
        return RefusedType(reason, Wire.INTEGER_TEXT)
    type_ = bit_type(parsed)
    boolean = type_ is Primitive.BOOLEAN
    return Mapped(type_, TypeEncoding(Wire.BOOLEAN_TEXT if boolean else Wire.INTEGER_TEXT))


def _labels(parsed: MysqlType) -> Outcome:
    enum = parsed.name == "enum"
    if not parsed.labels:
        return RefusedType(_NO_LABELS.format("int" if enum else "decimal(20,0)"), Wire.INTEGER_TEXT)
    if not enum and len(parsed.labels) > _SET_MEMBERS:
        return RefusedType(f"a set has at most {_SET_MEMBERS} members")
    wire = Wire.ENUM_ORDINAL if enum else Wire.SET_BITS
    return Mapped(Primitive.STRING, TypeEncoding(wire), detail=WireDetail(parsed.labels))


def _timestamp(zone: str | None) -> Outcome:
    if zone is None:
        return RefusedType(_NO_ZONE, Wire.TIMESTAMP_TEXT)
    return Mapped(
        Primitive.TIMESTAMPTZ, TypeEncoding(Wire.TIMESTAMP_TEXT), detail=WireDetail(zone=zone)
    )
