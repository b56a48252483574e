"""Generates ``docs/reference/types.md`` from the mappings of types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cdc_assets.databases.mysql import types as mysql
from cdc_assets.databases.mysql.types import MysqlColumn
from cdc_assets.databases.postgres import types as postgres
from cdc_assets.databases.postgres.columns import PostgresColumn
from cdc_assets.schema.modes import (
    BinaryMode,
    ConnectorModes,
    DecimalMode,
    IntervalMode,
    TimeMode,
    UnsignedMode,
)
from cdc_assets.schema.parse import type_text
from cdc_assets.schema.types import Column, UnmappedColumn, Wire
from cdc_assets_tests.databases.postgres_columns import column, numeric

HEAD: Final = (
    "# Types\n\n"
    "Generated from the mappings (`python -m cdc_assets_tests.pages`).\n\n"
    "- Every type is replicated without configuration if the connector sends whole values. A type "
    "that Iceberg lacks is stored as text, a number or a struct, without loss. The column's "
    "comment says how.\n"
    "- A type that cannot be stored exactly is refused before the table is created. A single value "
    "is rejected with its record (`bad_records`).\n"
    "- Values at which the connector stops, or for which it sends NULL, need its settings: "
    "[PostgreSQL](../how-to/sources/postgresql.md) (`decimal.handling.mode=string` for NaN in a "
    "`numeric`), [MySQL and MariaDB](../how-to/sources/mysql.md).\n"
    "- With schemas, decimals that arrive as text stay text, unless the connector has "
    "`column.propagate.source.type=.*`.\n\n"
    "*Arrives as*: the schema of Debezium or Kafka Connect, without its package. A setting is "
    "named only where it matters. Without schemas, types come from `database:`, and `connector:` "
    "must repeat each setting that is not Debezium's default.\n\n"
    "These facts come from `database:` with schemas, too:\n\n"
    "- whether a `bigint` of MySQL is unsigned;\n"
    "- columns of PostgreSQL without values: `name`, `varbit`, `bit[]`, `int2vector`, "
    "`oidvector`, arrays of several dimensions;\n"
    "- columns without large values that an update leaves unchanged: vectors, `geometry`, "
    "`geography`, and bytes with `binary.handling.mode: base64` ("
    "[Large values](sources/postgresql.md#large-values-toast)).\n\n"
    "Other formats: [their pages](formats/README.md).\n"
)

ARRIVES: Final = {
    Wire.BOOLEAN: "`boolean`",
    Wire.BOOLEAN_OR_INT: "`int16`, `boolean`",
    Wire.INT: "`int16`, `int32`",
    Wire.LONG: "`int64`",
    Wire.UNSIGNED_LONG: "`int64`",
    Wire.FLOAT: "`float`",
    Wire.DOUBLE: "`double`",
    Wire.STRING: "`string`",
    Wire.BYTES_BASE64: "`bytes`, `string` (base64)",
    Wire.BYTES_HEX: "`string` (hex)",
    Wire.DECIMAL_BYTES: "`Decimal`",
    Wire.VARIABLE_SCALE_DECIMAL: "`VariableScaleDecimal`",
    Wire.EPOCH_DAYS: "`Date`",
    Wire.EPOCH_MILLIS: "`Timestamp`",
    Wire.EPOCH_MICROS: "`MicroTimestamp`",
    Wire.EPOCH_NANOS: "`NanoTimestamp`",
    Wire.ISO_ZONED: "`ZonedTimestamp`",
    Wire.ISO_DATE: "`IsoDate`",
    Wire.ISO_TIME: "`IsoTime`",
    Wire.ISO_TIMESTAMP: "`IsoTimestamp`",
    Wire.MILLIS_OF_DAY: "`Time`",
    Wire.NANOS_OF_DAY: "`NanoTime`",
    Wire.BITS: "`Bits`",
    Wire.POINT: "`Point`",
    Wire.GEOMETRY: "`Geometry`",
    Wire.JSON: "struct, array of structs",
}


@dataclass(frozen=True)
class Setting:
    """A connector's setting: its name, and what it makes of the defaults."""

    name: str
    modes: dict[str, ConnectorModes]


def _setting(name: str, field: str, values: Iterable[object], **others: object) -> Setting:
    modes = {str(each): ConnectorModes(**{**others, field: each}) for each in values}  # type: ignore[arg-type]
    return Setting(name, modes)


_MYSQL: Final = {"time": TimeMode.ADAPTIVE_TIME_MICROSECONDS}
_MYSQL_TIMES: Final = [each for each in TimeMode if each is not TimeMode.ADAPTIVE]
NONE: Final = Setting("", {"": ConnectorModes()})
DECIMALS: Final = _setting("decimal.handling.mode", "decimal", DecimalMode)
TIMES: Final = _setting("time.precision.mode", "time", TimeMode)
BINARIES: Final = _setting("binary.handling.mode", "binary", BinaryMode)
INTERVALS: Final = _setting("interval.handling.mode", "interval", IntervalMode)
UNKNOWN: Final = Setting(
    "include.unknown.datatypes",
    {"false": ConnectorModes(), "true": ConnectorModes(unknown=True)},
)
MYSQL_NONE: Final = Setting("", {"": ConnectorModes(time=TimeMode.ADAPTIVE_TIME_MICROSECONDS)})
MYSQL_TIMES: Final = _setting("time.precision.mode", "time", _MYSQL_TIMES)
UNSIGNED: Final = _setting("bigint.unsigned.handling.mode", "unsigned", UnsignedMode, **_MYSQL)


POSTGRES: Final[Sequence[tuple[str, PostgresColumn, Setting]]] = (
    ("boolean", column("bool"), NONE),
    ("smallint, integer", column("int4"), NONE),
    ("bigint, oid", column("int8"), NONE),
    ("real", column("float4"), NONE),
    ("double precision", column("float8"), NONE),
    ("numeric(p,s) up to 15 digits", numeric(15, 2), DECIMALS),
    ("numeric(p,s) up to 38 digits", numeric(38, 2), DECIMALS),
    ("numeric(p,s) of more, or with s below 0", numeric(39, 2), DECIMALS),
    ("numeric", column("numeric"), DECIMALS),
    ("money", column("money"), DECIMALS),
    ("text, varchar, char, citext, xml, enumerations", column("text"), NONE),
    ("name", column("name"), UNKNOWN),
    ("json, jsonb, hstore", column("json"), NONE),
    ("uuid, inet, cidr, macaddr, macaddr8, ltree, tsvector, isbn", column("uuid"), NONE),
    ("bytea", column("bytea"), BINARIES),
    ("bit", column("bit", 1), NONE),
    ("bit(n) up to 63", column("bit", 63), NONE),
    ("bit(64)", column("bit", 64), NONE),
    ("bit(n) above", column("bit", 65), NONE),
    ("varbit", column("varbit", 3), NONE),
    ("date", column("date"), TIMES),
    ("time(n) up to 3", column("time", 3), TIMES),
    ("time", column("time"), TIMES),
    ("timetz", column("timetz"), NONE),
    ("timestamp(n) up to 3", column("timestamp", 3), TIMES),
    ("timestamp", column("timestamp"), TIMES),
    ("timestamptz", column("timestamptz"), NONE),
    ("interval", column("interval"), INTERVALS),
    ("ranges", column("int4range"), NONE),
    ("point", column("point"), NONE),
    ("geometry, geography (PostGIS)", column("geometry"), NONE),
    ("T[] of most types", column("int4", is_array=True), NONE),
    ("numeric[]", column("numeric", is_array=True), DECIMALS),
    ("money[], bit[], interval[], name[], point[], varbit[], xml[]",
     column("money", is_array=True), NONE),
    ("T[][] and more", column("int4", is_array=True, dimensions=2), NONE),
    ("vector (pgvector)", column("vector"), NONE),
    ("halfvec", column("halfvec"), NONE),
    ("sparsevec", column("sparsevec"), NONE),
    ("int2vector, oidvector", column("int2vector"), NONE),
    ("other types", column("pg_lsn"), UNKNOWN),
    ("T[] of these", column("pg_lsn", is_array=True), UNKNOWN),
)  # fmt: skip
MYSQL: Final[Sequence[tuple[str, str, Setting]]] = (
    ("tinyint(1), bool", "tinyint(1)", MYSQL_NONE),
    ("tinyint, smallint, mediumint, int, unsigned too but for int", "int", MYSQL_NONE),
    ("int unsigned, bigint", "bigint", MYSQL_NONE),
    ("bigint unsigned", "bigint unsigned", UNSIGNED),
    ("float", "float", MYSQL_NONE),
    ("double, float(m,d)", "double", MYSQL_NONE),
    ("decimal(p,s) up to 15 digits", "decimal(15,2)", DECIMALS),
    ("decimal(p,s) up to 38 digits", "decimal(38,2)", DECIMALS),
    ("decimal(p,s) of more", "decimal(65,30)", DECIMALS),
    ("char, varchar, text, json, enum, set", "text", MYSQL_NONE),
    ("binary, varbinary, blob", "blob", BINARIES),
    ("bit", "bit(1)", MYSQL_NONE),
    ("bit(n) up to 63", "bit(63)", MYSQL_NONE),
    ("bit(64)", "bit(64)", MYSQL_NONE),
    ("year", "year", MYSQL_NONE),
    ("date", "date", MYSQL_TIMES),
    ("time", "time(6)", MYSQL_TIMES),
    ("datetime(n) up to 3", "datetime(3)", MYSQL_TIMES),
    ("datetime(n) above", "datetime(6)", MYSQL_TIMES),
    ("timestamp", "timestamp(6)", MYSQL_NONE),
    ("point", "point", MYSQL_NONE),
    ("geometry and its other kinds", "geometry", MYSQL_NONE),
    ("vector (MySQL)", "vector(3)", MYSQL_NONE),
    ("uuid (MariaDB)", "uuid", MYSQL_NONE),
    ("inet4, inet6 (MariaDB)", "inet4", MYSQL_NONE),
)


def page() -> str:
    """The whole of it."""
    of_postgres = (
        _rows(name, setting, lambda modes, c=source: postgres.map_column(c, modes))
        for name, source, setting in POSTGRES
    )
    of_mysql = (
        _rows(name, setting, lambda modes, t=text: mysql.map_column(MysqlColumn("c", t), modes))
        for name, text, setting in MYSQL
    )
    tables = (("PostgreSQL", of_postgres), ("MySQL and MariaDB", of_mysql))
    parts = (f"\n## {title}\n\n{_table(rows)}" for title, rows in tables)
    return HEAD + "".join(parts)


def _table(rows: Iterable[Iterable[Sequence[str]]]) -> str:
    head = "| type | setting | arrives as | lake | |\n|---|---|---|---|---|\n"
    return head + "".join(f"| {' | '.join(cells)} |\n" for each in rows for cells in each)


def _rows(
    name: str, setting: Setting, mapped: Callable[[ConnectorModes], Column | UnmappedColumn]
) -> Iterator[Sequence[str]]:
    """One for each result in the lake, with the values of the setting that lead to it."""
    columns: dict[tuple[str, str], dict[str, Column | UnmappedColumn]] = {}
    for value, modes in setting.modes.items():
        column = mapped(modes)
        columns.setdefault(_result(column), {})[value] = column
    for result, which in columns.items():
        told = f"`{setting.name}`: {_chosen(which, setting.modes)}" if len(columns) > 1 else ""
        yield (_names(name), told, _arrives(which), *result)


def _chosen(values: Collection[str], all_values: Collection[str]) -> str:
    """Names some of a setting's values, or the only ones that are not among them."""
    others = [each for each in all_values if each not in values]
    is_most = len(values) > len(others) + 1
    return f"not {', '.join(others)}" if is_most else ", ".join(values)


def _arrives(columns: Mapping[str, Column | UnmappedColumn]) -> str:
    """All schemas by which the values come, each once, by the setting's values."""
    mapped = {value: each for value, each in columns.items() if isinstance(each, Column)}
    names = {
        name: None
        for value, each in mapped.items()
        for name in _schema(each.element_wire or each.wire, value).split(", ")
    }
    is_array = any(each.element_wire is not None for each in mapped.values())
    return f"{'array of ' if is_array else ''}{', '.join(names)}"


def _schema(wire: Wire, value: str) -> str:
    if wire is Wire.DECIMAL_TEXT:
        return "`double`" if value == DecimalMode.DOUBLE else "`string`"
    return ARRIVES[wire]


def _result(column: Column | UnmappedColumn) -> tuple[str, str]:
    if isinstance(column, UnmappedColumn):
        return "**refused**", column.reason
    return f"`{type_text(column.type)}`", column.comment


def _names(name: str) -> str:
    return ", ".join(f"`{each}`" if " " not in each else each for each in name.split(", "))
