"""Types of MySQL and MariaDB in Maxwell's messages, by the catalog: the messages tell none.

Each rule was read in zendesk/maxwell (``schema/columndef/*ColumnDef.asJSON``, ``row/MaxwellJson``,
``bootstrap/SynchronousBootstrapper.setRowValues``); what its own tests show is in
``src/test/resources/sql/json``. What Maxwell writes:

- integers: numbers, unsigned ones as such; ``decimal``: all digits, small ones with an exponent;
- ``float``, ``double``: the shortest digits that are this value; bootstrapped ``float`` values as
  MySQL prints them, with six digits;
- ``enum``: the label, and NULL for the empty text of an invalid value; ``set``: an array;
- ``binary``, ``varbinary``, ``blob``: base64. ``binary(n)`` comes without its trailing zero bytes
  from the binlog, and with them when it is bootstrapped;
- ``date``, ``datetime``: as MySQL prints them. A ``datetime`` that is no time is a zero date;
- ``timestamp``: in UTC from the binlog, in the zone of Maxwell's Java when it is bootstrapped;
- ``json``: the value itself; JSON's ``null`` looks like NULL;
- ``time``: as a time of day in the zone of Maxwell's Java, so that -01:00:00 and 23:00:00 are the
  same (``java.sql.Time``);
- ``bit``: a number. Shifts of 32 bits and more, and a negative fourth byte, make it another
  number, and bootstrapped values are read from the wrong end (``BitColumnDef``).
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
    TEXTS,
    UNSIGNED_LONG,
    MysqlColumn,
    bit_type,
    bit_width,
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

UTC: Final = "UTC"
_NO_ZONE: Final = (
    "Maxwell writes changes of it in UTC, but bootstrapped rows in the zone of its Java; run it "
    "with TZ=UTC and say so (connector.time_zone: UTC), or store the text by configuring string"
)
_TIME: Final = (
    "Maxwell writes times below 0 and above 24 hours as other times of day; configure bigint "
    "(microseconds) or string if there are none"
)
_BITS: Final = (
    "Maxwell bootstraps values of more than 8 bits from the wrong end, and writes wrong numbers "
    "from 32 bits on; configure bigint if there are up to 31 and nothing is bootstrapped"
)
_GEOMETRY: Final = (
    "geometry arrives as text (WKT) without its reference system; configure string to keep it"
)
_MOST_BITS: Final = 8
_ENCODED: Final = TypeEncoding(Wire.SCALAR)
_ALWAYS: Final[dict[str, Outcome]] = {
    **dict.fromkeys((*TEXTS, "enum"), Mapped(Primitive.STRING, TypeEncoding(Wire.STRING))),
    **dict.fromkeys(GEOMETRIES, RefusedType(_GEOMETRY, Wire.SCALAR)),
    "json": Mapped(Primitive.STRING, TypeEncoding(Wire.JSON)),
    "set": Mapped(Primitive.STRING, TypeEncoding(Wire.LABELS)),
    "float": Mapped(Primitive.FLOAT, _ENCODED),
    "double": Mapped(Primitive.DOUBLE, _ENCODED),
    "year": Mapped(Primitive.INT, _ENCODED),
    "date": Mapped(Primitive.DATE, _ENCODED),
    "datetime": Mapped(Primitive.TIMESTAMP, _ENCODED),
    "time": RefusedType(_TIME, Wire.TIME_TEXT),
    **dict.fromkeys(("vector", "uuid", "inet4", "inet6"), RefusedType("Maxwell does not read it")),
}


def describe_maxwell_table(
    columns: Iterable[MysqlColumn], key: tuple[str, ...], *, zone: str | None, comment: str = ""
) -> Described:
    """Describes a table of the catalog as Maxwell writes it.

    Args:
        columns: of the catalog.
        key: names of the key columns.
        zone: that Maxwell's Java runs in, as far as anybody has said.
        comment: of the table.
    """
    mapped = tuple(map_maxwell_column(column, zone) for column in columns)
    return Described(mapped, key, "database catalog", comment)


def map_maxwell_column(column: MysqlColumn, zone: str | None) -> Column | UnmappedColumn:
    """Maps one column, or says why there is none in the lake."""
    return mapped_by(column, lambda parsed: _outcome(parsed, zone))


def _outcome(parsed: MysqlType, zone: str | None) -> Outcome:
    match parsed.name:
        case name if name in _ALWAYS:
            return _ALWAYS[name]
        case name if name in INTEGERS:
            return Mapped(_integer(parsed), _ENCODED)
        case name if name in BYTES:
            width = parsed.arguments[0] if name == "binary" and parsed.arguments else 0
            width = width or (1 if name == "binary" else 0)
            return Mapped(Primitive.BINARY, _ENCODED, detail=WireDetail(width=width))
        case "decimal":
            return decimal_as(parsed, _ENCODED)
        case "bit":
            return _bits(parsed)
        case "timestamp":
            return _timestamp(zone)
        case _:
            return RefusedType("no lake type is known for it")


def _integer(parsed: MysqlType) -> ColumnType:
    if parsed.unsigned and parsed.name == "bigint":
        return UNSIGNED_LONG
    return Primitive.LONG if parsed.unsigned and parsed.name == "int" else INTEGERS[parsed.name]


def _bits(parsed: MysqlType) -> Outcome:
    if bit_width(parsed) > _MOST_BITS:
        return RefusedType(_BITS, Wire.SCALAR)
    return Mapped(bit_type(parsed), _ENCODED)


def _timestamp(zone: str | None) -> Outcome:
    if zone != UTC:
        return RefusedType(_NO_ZONE, Wire.SCALAR)
    return Mapped(Primitive.TIMESTAMPTZ, _ENCODED, detail=WireDetail(zone=UTC))
