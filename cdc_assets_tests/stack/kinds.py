"""Columns of every type of a database, with values at the edges of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A column, its values as SQL writes them, and how both sides are compared.

    Attributes:
        here: of the column ``{}``, in the source.
        back: of the lake's value ``{}``; as the column's type if not given.
    """

    type: str
    values: tuple[str, ...]
    here: str = "{}"
    back: str = ""


Kinds = Mapping[str, Kind]
TABLE = "kinds"


def create(kinds: Kinds) -> str:
    """The statement that makes the table."""
    columns = ", ".join(f"{name} {kind.type}" for name, kind in kinds.items())
    return f"CREATE TABLE {TABLE} (id int PRIMARY KEY, {columns})"


def rows(kinds: Kinds, start: int, *, key: str = "id") -> list[str]:
    """Insert one with nothing but NULL, and one for each value of the column that has most."""
    made = [f"INSERT INTO {TABLE} ({key}) VALUES ({start})"]
    for place in range(max(len(kind.values) for kind in kinds.values())):
        values = [kind.values[place % len(kind.values)] for kind in kinds.values()]
        told = f"{start + place + 1}, {', '.join(values)}"
        made.append(f"INSERT INTO {TABLE} ({', '.join([key, *kinds])}) VALUES ({told})")
    return made


POSTGRES_SETTINGS = {"include.unknown.datatypes": "true", "interval.handling.mode": "string"}
"""Of a connector that leaves no type out, and no part of a value."""
POSTGRES_TOLD = {"include_unknown_datatypes": True, "interval_handling_mode": "string"}
"""The same in a configuration, for records without schemas."""
MARIADB_SETTINGS = {"bigint.unsigned.handling.mode": "precise"}
MARIADB_TOLD = {"bigint_unsigned_handling_mode": "precise"}
POSTGRES_TYPES = (
    "CREATE EXTENSION IF NOT EXISTS vector",
    "CREATE TYPE mood AS ENUM ('ok', 'not so, \"ok\"', '')",
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE DOMAIN price AS numeric(12,2) CHECK (VALUE > -100)",
    "CREATE DOMAIN label AS name",
)

_TEXT = ("''", "'  a '", "'ä\u4e2d\U0001f600'", "repeat('x', 300000)", "'__debezium_unavailable'")
_TEXT_OF_BYTES = "convert_from({}, 'UTF8')::"
_TEXTS_OF_BYTES = "(SELECT array_agg(convert_from(each, 'UTF8')::{}) FROM unnest({{}}) AS each)"
_MICROS = "'00:00'::time + {} * interval '1 microsecond'"
_SPARSE = (
    "('{' || (SELECT string_agg((each ->> 0) || ':' || (each ->> 1), ',') FROM"
    " jsonb_array_elements({}::jsonb -> 'vector') AS each)"
    " || '}/' || ({}::jsonb ->> 'dimensions'))::sparsevec"
)
_LONG_PATH = "polygon(2000, circle '((0,0),5)')::path"
POSTGRES: Kinds = {
    "a_bool": Kind("boolean", ("true", "false")),
    "a_small": Kind("smallint", ("-32768", "32767")),
    "an_int": Kind("integer", ("-2147483648", "2147483647")),
    "a_big": Kind("bigint", ("-9223372036854775808", "9223372036854775807")),
    "an_oid": Kind("oid", ("0", "4294967295")),
    "a_real": Kind("real", ("3.14", "-0.0", "'NaN'", "'-Infinity'", "1.17549435e-38")),
    "a_double": Kind("double precision", ("0.1", "-0.0", "'NaN'", "'Infinity'", "5e-324",
                                          "'Infinity'::float8 - 'Infinity'")),
    "a_decimal": Kind("numeric(12,2)", ("-1234567890.12", "0.01")),
    "a_wide": Kind("numeric(38,10)", ("-1234567890123456789012345678.0123456789", "1")),
    "a_wider": Kind("numeric(50,3)", (f"-{'9' * 47}.999", "0.001", "0")),
    "a_scale": Kind("numeric(3,5)", ("0.00123", "-0.00999")),
    "a_negative": Kind("numeric(3,-2)", ("12300", "-99900", "0")),
    "a_numeric": Kind("numeric", ("1.50", "-0.000001", f"{'7' * 60}.5", "0", "1e-30", "12000"),
                      here="trim_scale({})"),
    "a_money": Kind("money", ("'-92233720368547758.08'", "'0.01'"), back="{}::numeric::money"),
    "a_text": Kind("text", _TEXT),
    "a_varchar": Kind("varchar(9)", ("'a'", "''")),
    "a_char": Kind("char(5)", ("'a'", "'abcde'"), here="{}::text", back="{}::text::char(5)::text"),
    "a_name": Kind("name", ("'a'",)),
    "a_label": Kind("label", ("'a'", "''")),
    "bytes": Kind("bytea", (r"'\xdeadbeef00'", "''")),
    "a_date": Kind("date", ("'0001-01-01'", "'9999-12-31'", "'1582-10-04'", "'1899-12-31'")),
    "a_time": Kind("time", ("'00:00'", "'23:59:59.999999'"), back=_MICROS),
    "a_time_ms": Kind("time(3)", ("'12:34:56.789'",), back=_MICROS),
    "a_timetz": Kind("timetz", ("'12:34:56.789+05:30'",), here="{} AT TIME ZONE 'UTC'"),
    "a_stamp": Kind("timestamp", ("'0001-01-01'", "'9999-12-31 23:59:59.999999'", "'1500-03-01'")),
    "a_stamp_s": Kind("timestamp(0)", ("'2020-01-02 03:04:05'",)),
    "a_stamptz": Kind("timestamptz", ("'0001-01-02 00:00+00'", "'9999-12-31 23:59:59.999999+00'")),
    "an_interval": Kind("interval", ("'1 year -2 mons 3 days 04:05:06.789'", "'-00:00:00.000001'")),
    "a_uuid": Kind("uuid", ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",)),
    "a_json": Kind("json", ("""'{"b": 1, "a": [1.50, null]}'""", "'null'"), here="{}::text",
                   back="{}::text"),
    "a_jsonb": Kind("jsonb", ("""'{"b": 1, "a": "x"}'""",)),
    "a_bit": Kind("bit(1)", ("B'1'", "B'0'"), back="{}::int::bit(1)"),
    "bits": Kind("bit(12)", ("B'000000000001'", "B'100000000000'"), back="{}::bigint::bit(12)"),
    "bits_63": Kind("bit(63)", (f"B'1{'0' * 61}1'",), back="{}::bigint::bit(63)"),
    "bits_100": Kind("bit(100)", (f"B'1{'0' * 98}1'", f"B'{'0' * 100}'")),
    "an_inet": Kind("inet", ("'10.0.0.1'", "'2001:db8::/32'")),
    "a_cidr": Kind("cidr", ("'10.0.0.0/8'",)),
    "a_mac": Kind("macaddr", ("'08:00:2b:01:02:03'",)),
    "a_mac8": Kind("macaddr8", ("'08:00:2b:01:02:03:04:05'",)),
    "a_tsvector": Kind("tsvector", ("'a:1 fat:2A cat'",)),
    "a_range": Kind("int4range", ("'[1,5)'", "'empty'", "'(,7)'")),
    "a_numrange": Kind("numrange", ("'(1.5,2.5]'",)),
    "a_tsrange": Kind("tsrange", ("'[2020-01-01,2020-02-01)'",)),
    "a_daterange": Kind("daterange", ("'[2020-01-01,)'",)),
    "a_point": Kind("point", ("'(1.5,-2.25)'",), here="{}::text",
                    back="point({}[1], {}[2])::text"),
    "a_mood": Kind("mood", ("'ok'", "'not so, \"ok\"'", "''")),
    "a_price": Kind("price", ("1.50",)),
    "ints": Kind("integer[]", ("'{1,NULL,3}'", "'{}'")),
    "texts": Kind("text[]", ("""'{"a b",NULL,""}'""",)),
    "numerics": Kind("numeric(10,2)[]", ("'{1.50,NULL}'",)),
    "any_numerics": Kind("numeric[]", ("'{1.5,2000}'",), back="{}::text[]::numeric[]"),
    "stamps": Kind("timestamp[]", ("'{2020-01-02 03:04:05.678901}'",)),
    "moods": Kind("mood[]", ("'{ok}'",), back="{}::text[]::mood[]"),
    "a_multirange": Kind("int4multirange", ("'{[1,3),[5,7)}'",),
                         back=f"{_TEXT_OF_BYTES}int4multirange"),
    "a_lsn": Kind("pg_lsn", ("'16/B374D848'",), back=f"{_TEXT_OF_BYTES}pg_lsn"),
    "a_box": Kind("box", ("'(2,2),(0,0)'",), here="{}::text",
                  back=f"({_TEXT_OF_BYTES}box)::text"),
    "a_line": Kind("line", ("'{1,2,3}'",), here="{}::text", back=f"({_TEXT_OF_BYTES}line)::text"),
    "a_segment": Kind("lseg", ("'[(0,0),(1,1)]'",), here="{}::text",
                      back=f"({_TEXT_OF_BYTES}lseg)::text"),
    "a_path": Kind("path", ("'((0,0),(1,1))'", _LONG_PATH), here="{}::text",
                   back=f"({_TEXT_OF_BYTES}path)::text"),
    "a_polygon": Kind("polygon", ("'((0,0),(1,1),(1,0))'",), here="{}::text",
                      back=f"({_TEXT_OF_BYTES}polygon)::text"),
    "a_circle": Kind("circle", ("'<(1,2),3>'",), here="{}::text",
                     back=f"({_TEXT_OF_BYTES}circle)::text"),
    "a_query": Kind("tsquery", ("'fat & (rat | cat)'",), back=f"{_TEXT_OF_BYTES}tsquery"),
    "a_jsonpath": Kind("jsonpath", ("'$.a[*]'",), here="{}::text",
                       back=f"({_TEXT_OF_BYTES}jsonpath)::text"),
    "a_vector": Kind("vector(3) STORAGE PLAIN", ("'[1,2.5,-3]'",), back="{}::real[]::vector"),
    "a_half": Kind("halfvec(2) STORAGE PLAIN", ("'[1,2.5]'",), back="{}::real[]::halfvec"),
    "a_sparse": Kind("sparsevec(5) STORAGE PLAIN", ("'{1:1,3:2.5}/5'",), back=_SPARSE),
    "lsns": Kind("pg_lsn[]", ("'{0/1,16/B374D848}'",), back=_TEXTS_OF_BYTES.format("pg_lsn")),
    "labels": Kind("label[]", ("'{a,b}'",), back=_TEXTS_OF_BYTES.format("label")),
    "a_pair": Kind("pair", ("""'(1,"x y")'""",), back=f"{_TEXT_OF_BYTES}pair"),
}  # fmt: skip

_TIME = "CAST(SEC_TO_TIME({} * 0.000001) AS TIME(6))"
_AS_TIME = "CAST({} AS TIME(6))"
_WKB = ("HEX(ST_AsWKB({}))", "HEX({})")
MARIADB: Kinds = {
    "a_tiny": Kind("tinyint", ("-128", "127")),
    "a_tiny_unsigned": Kind("tinyint unsigned", ("255", "0")),
    "a_bool": Kind("bool", ("true", "false", "-7")),
    "a_small": Kind("smallint unsigned", ("65535",)),
    "a_medium": Kind("mediumint unsigned", ("16777215",)),
    "an_int": Kind("int", ("-2147483648", "2147483647")),
    "an_int_unsigned": Kind("int unsigned", ("4294967295",)),
    "a_big": Kind("bigint", ("-9223372036854775808", "9223372036854775807")),
    "a_big_unsigned": Kind("bigint unsigned", ("18446744073709551615", "0")),
    "a_decimal": Kind("decimal(12,2)", ("-1234567890.12", "0.01")),
    "a_wide": Kind("decimal(38,10)", ("-1234567890123456789012345678.0123456789", "1")),
    "a_wider": Kind("decimal(65,30)", (f"-{'9' * 35}.{'9' * 30}", "0", "1e-30")),
    "a_float": Kind("float", ("3.14", "-1.5e-30"), "CAST({} AS DOUBLE)", "CAST({} AS DOUBLE)"),
    "a_double": Kind("double", ("0.1", "-1.7976931348623157e308", "5e-324")),
    "a_bit": Kind("bit(1)", ("b'1'", "b'0'"), "{} + 0"),
    "bits": Kind("bit(12)", ("b'000000000001'", "b'100000000000'"), "{} + 0"),
    "bits_64": Kind("bit(64)", (f"b'1{'0' * 62}1'",), "{} + 0"),
    "a_text": Kind("text", ("''", "'  a '", "'ä\u4e2d\U0001f600'")),
    "a_long": Kind("longtext", ("repeat('x', 300000)",)),
    "a_varchar": Kind("varchar(9)", ("'a'", "'b  '", "''")),
    "a_char": Kind("char(5)", ("'a'", "'abcde'")),
    "a_binary": Kind("binary(4)", ("x'00ff'", "x'deadbeef'"), "HEX({})", "HEX({})"),
    "a_varbinary": Kind("varbinary(4)", ("x'00ff00'", "''"), "HEX({})", "HEX({})"),
    "a_blob": Kind("mediumblob", ("x'00ff00'", "''"), "HEX({})", "HEX({})"),
    "an_enum": Kind("enum('a','b''c','')", ("'a'", "'b''c'", "''")),
    "a_set": Kind("set('x','y','z')", ("'x,z'", "''")),
    "a_json": Kind("json", ("""'{"b": 1, "a": [1.50, null]}'""",)),
    "a_date": Kind("date", ("'1000-01-01'", "'9999-12-31'", "'1582-10-04'")),
    "a_time": Kind("time", ("'-838:59:59'", "'838:59:59'"), _AS_TIME, _TIME),
    "a_time_us": Kind("time(6)", ("'-00:00:00.000001'", "'23:59:59.999999'"), _AS_TIME, _TIME),
    "a_datetime": Kind("datetime", ("'1000-01-01'", "'9999-12-31 23:59:59'")),
    "a_datetime_ms": Kind("datetime(3)", ("'2020-01-02 03:04:05.678'",),
                          back="CAST({} AS DATETIME(3))"),
    "a_datetime_us": Kind("datetime(6)", ("'1899-12-31 23:59:59.999999'",)),
    "a_stamp": Kind("timestamp(6) NULL", ("'1970-01-02 00:00:00.000001'",
                                          "'2038-01-19 03:14:07.999999'")),
    "a_year": Kind("year", ("1901", "2155")),
    "a_point": Kind("point", ("ST_GeomFromText('POINT(1.5 -2.25)')",),
                    "CONCAT(ST_X({}), ' ', ST_Y({}))"),
    "a_line": Kind("linestring", ("ST_GeomFromText('LINESTRING(0 0, 1 1)')",), *_WKB),
    "a_geometry": Kind("geometry", ("ST_GeomFromText('POLYGON((0 0, 1 1, 1 0, 0 0))')",), *_WKB),
}  # fmt: skip
"""Not among them: ``uuid``, of which the connector changes values that end with a zero byte, and
``inet4`` and ``inet6``, whose tables it cannot read."""
