"""MySQL's and MariaDB's types, checked against what Debezium's own record schemas say of them.

The fixtures are one table with (nearly) every type: as MariaDB 11.4's catalog describes it; as
Debezium's MariaDB connector 3.5.0.Final wrote its row, with default modes; as its MySQL
connector 3.6.1.Final wrote it from the same server (which called itself MySQL 8.0), with
``bigint.unsigned.handling.mode=precise``; and rows of that connector without schemas, with
``decimal.handling.mode=string``, ``binary.handling.mode=hex`` and
``time.precision.mode=microseconds``. Tables of the latter two have no ``uuid`` column.
"""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdc_assets.databases.mysql.text_types import describe_text_table, map_text_column
from cdc_assets.databases.mysql.types import (
    MICROSECONDS,
    MysqlColumn,
    describe_table,
    map_column,
    with_unsigned,
)
from cdc_assets.errors import TerminalError
from cdc_assets.schema import stand_ins
from cdc_assets.schema.connect import describe_envelope
from cdc_assets.schema.modes import (
    BinaryMode,
    ConnectorModes,
    DecimalMode,
    TimeMode,
    UnsignedMode,
)
from cdc_assets.schema.overrides import apply_overrides
from cdc_assets.schema.parse import parse_spec
from cdc_assets.schema.stored import column_from_json, column_to_json
from cdc_assets.schema.types import (
    Column,
    Decimal,
    ListOf,
    Primitive,
    UnmappedColumn,
    Wire,
    WireDetail,
)

FIXTURES = Path(__file__).parent / "fixtures"
CATALOG = [
    MysqlColumn(**each) for each in json.loads((FIXTURES / "mysql_types.catalog.json").read_text())
]
MODES = {
    "mariadb": ConnectorModes(time=TimeMode.ADAPTIVE_TIME_MICROSECONDS),
    "mysql": ConnectorModes(
        time=TimeMode.ADAPTIVE_TIME_MICROSECONDS, unsigned=UnsignedMode.PRECISE
    ),
}
ONLY_THE_CATALOG_TELLS = {
    # by the record schema       by the catalog
    "ti1": (Wire.INT, Wire.BOOLEAN_OR_INT),
    "bo": (Wire.INT, Wire.BOOLEAN_OR_INT),
    "id": (Wire.LONG, Wire.UNSIGNED_LONG),
    "biu": (Wire.LONG, Wire.UNSIGNED_LONG),
}
NUMBERS_IN_BITS = {"b12", "b20", "b63", "b64"}
"""Mapped by the catalog; a record schema's bits may be PostgreSQL's."""


def mapped(text, *, of=map_column, **modes):
    argument = modes.pop("zone", None) if of is map_text_column else ConnectorModes(**modes)
    found = of(MysqlColumn("c", text), argument)
    assert isinstance(found, Column), found
    return found


def refused(text, *, of=map_column, **modes):
    argument = modes.pop("zone", None) if of is map_text_column else ConnectorModes(**modes)
    found = of(MysqlColumn("c", text), argument)
    assert isinstance(found, UnmappedColumn), found
    return found


@pytest.mark.unit
@pytest.mark.parametrize("connector", ["mariadb", "mysql"])
def test_catalog_and_record_schema_agree_on_every_type(connector):
    record = json.loads((FIXTURES / f"{connector}_types.record.json").read_text())
    assert record["value"]["payload"]["source"]["connector"] == connector
    described = describe_envelope(record["value"]["schema"], record["key"]["schema"])
    catalog = {
        each.name: each
        for each in describe_table(CATALOG, ("part", "id"), MODES[connector]).columns
    }
    assert described.key == ("part", "id")
    assert set(catalog) - set(described.names) <= {"uu", "inv"}
    for each in described.columns:
        other = catalog[each.name]
        assert each.required == other.required, each.name
        if each.name in NUMBERS_IN_BITS:
            assert (each.wire, other.wire) == (Wire.BITS, Wire.BITS)
        elif isinstance(each, UnmappedColumn) or isinstance(other, UnmappedColumn):
            assert each.wire == other.wire, each.name
        elif each.wire != other.wire:
            assert (each.wire, other.wire) == ONLY_THE_CATALOG_TELLS[each.name]
            is_wider = other.wire is Wire.UNSIGNED_LONG
            assert other.type == (Decimal(20, 0) if is_wider else each.type), each.name
        else:
            assert (each.type, each.element_wire) == (other.type, other.element_wire), each.name


@pytest.mark.unit
def test_only_the_catalog_tells_which_integers_have_no_sign():
    record = json.loads((FIXTURES / "mariadb_types.record.json").read_text())
    described = describe_envelope(record["value"]["schema"])
    found = with_unsigned(described, CATALOG)
    changed = [each for each in found.columns if each not in described.columns]
    assert {each.name: (each.type, each.wire) for each in changed} == dict.fromkeys(
        ("id", "biu"), (Decimal(20, 0), Wire.UNSIGNED_LONG)
    )
    assert found.names == described.names


@pytest.mark.unit
def test_values_have_the_json_kind_of_their_wire():
    modes = ConnectorModes(DecimalMode.STRING, TimeMode.MICROSECONDS, BinaryMode.HEX)
    columns = {c.name: c for c in describe_table(CATALOG, (), modes).columns}
    structs = (Wire.POINT, Wire.GEOMETRY)
    texts = (Wire.STRING, Wire.BYTES_HEX, Wire.DECIMAL_TEXT, Wire.ISO_ZONED, Wire.BITS)
    kinds = {
        Wire.BOOLEAN: bool,
        Wire.FLOAT: float,
        Wire.DOUBLE: float,
        **dict.fromkeys(texts, str),
        **dict.fromkeys(structs, dict),
    }
    for row in json.loads((FIXTURES / "mysql_types.rows.json").read_text()):
        for name, value in row.items():
            wire = columns[name].wire
            if value is not None and wire is not None:
                assert isinstance(value, kinds.get(wire, int)), name


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "type_", "wire"),
    [
        ("tinyint(1)", Primitive.INT, Wire.BOOLEAN_OR_INT),
        ("bool", Primitive.INT, Wire.BOOLEAN_OR_INT),
        ("tinyint(4)", Primitive.INT, Wire.INT),
        ("tinyint(1) unsigned", Primitive.INT, Wire.INT),
        ("smallint unsigned", Primitive.INT, Wire.INT),
        ("mediumint unsigned zerofill", Primitive.INT, Wire.INT),
        ("int", Primitive.INT, Wire.INT),
        ("int unsigned", Primitive.LONG, Wire.LONG),
        ("bigint", Primitive.LONG, Wire.LONG),
        ("bigint(20) unsigned", Decimal(20, 0), Wire.UNSIGNED_LONG),
        ("decimal(10,2)", Decimal(10, 2), Wire.DECIMAL_BYTES),
        ("decimal", Decimal(10, 0), Wire.DECIMAL_BYTES),
        ("decimal(5)", Decimal(5, 0), Wire.DECIMAL_BYTES),
        ("decimal(38,30) unsigned", Decimal(38, 30), Wire.DECIMAL_BYTES),
        ("float", Primitive.FLOAT, Wire.FLOAT),
        ("float unsigned", Primitive.FLOAT, Wire.FLOAT),
        ("float(24)", Primitive.FLOAT, Wire.FLOAT),
        ("float(25)", Primitive.DOUBLE, Wire.DOUBLE),
        ("float(7,4)", Primitive.DOUBLE, Wire.DOUBLE),
        ("double precision", Primitive.DOUBLE, Wire.DOUBLE),
        ("double(10,3)", Primitive.DOUBLE, Wire.DOUBLE),
        ("bit", Primitive.BOOLEAN, Wire.BOOLEAN),
        ("bit(1)", Primitive.BOOLEAN, Wire.BOOLEAN),
        ("bit(2)", Primitive.LONG, Wire.BITS),
        ("bit(63)", Primitive.LONG, Wire.BITS),
        ("bit(64)", Decimal(20, 0), Wire.BITS),
        ("year(4)", Primitive.INT, Wire.INT),
        ("date", Primitive.DATE, Wire.EPOCH_DAYS),
        ("datetime", Primitive.TIMESTAMP, Wire.EPOCH_MILLIS),
        ("datetime(3)", Primitive.TIMESTAMP, Wire.EPOCH_MILLIS),
        ("datetime(4)", Primitive.TIMESTAMP, Wire.EPOCH_MICROS),
        ("datetime /* mariadb-5.3 */", Primitive.TIMESTAMP, Wire.EPOCH_MILLIS),
        ("timestamp", Primitive.TIMESTAMPTZ, Wire.ISO_ZONED),
        ("timestamp(6)", Primitive.TIMESTAMPTZ, Wire.ISO_ZONED),
        ("time", Primitive.LONG, Wire.LONG),
        ("time(6)", Primitive.LONG, Wire.LONG),
        ("varchar(255)", Primitive.STRING, Wire.STRING),
        ("longtext", Primitive.STRING, Wire.STRING),
        ("json", Primitive.STRING, Wire.STRING),
        ("enum('a','b')", Primitive.STRING, Wire.STRING),
        ("set('a','b')", Primitive.STRING, Wire.STRING),
        ("binary(16)", Primitive.BINARY, Wire.BYTES_BASE64),
        ("varbinary(3)", Primitive.BINARY, Wire.BYTES_BASE64),
        ("mediumblob", Primitive.BINARY, Wire.BYTES_BASE64),
        ("vector(3)", ListOf(Primitive.FLOAT), Wire.LIST),
        ("decimal(65,30)", Primitive.STRING, Wire.DECIMAL_BYTES),
        ("geometry", stand_ins.GEOMETRY.type, Wire.GEOMETRY),
        ("geomcollection", stand_ins.GEOMETRY.type, Wire.GEOMETRY),
        ("point", stand_ins.POINT.type, Wire.POINT),
    ],
)
def test_each_type_arrives_as_the_connector_writes_it_by_default(text, type_, wire):
    found = mapped(text, time=TimeMode.ADAPTIVE_TIME_MICROSECONDS)
    assert (found.type, found.wire, found.unchanged_marker) == (type_, wire, False)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "modes", "type_", "wire"),
    [
        (
            "bigint unsigned",
            {"unsigned": UnsignedMode.PRECISE, "decimal": DecimalMode.STRING},
            Decimal(20, 0),
            Wire.DECIMAL_BYTES,
        ),
        ("decimal(38,2)", {"decimal": DecimalMode.STRING}, Decimal(38, 2), Wire.DECIMAL_TEXT),
        ("decimal(15,2)", {"decimal": DecimalMode.DOUBLE}, Decimal(15, 2), Wire.DECIMAL_TEXT),
        ("blob", {"binary": BinaryMode.HEX}, Primitive.BINARY, Wire.BYTES_HEX),
        ("blob", {"binary": BinaryMode.BASE64}, Primitive.BINARY, Wire.BYTES_BASE64),
        ("bit(9)", {"binary": BinaryMode.HEX}, Primitive.LONG, Wire.BITS),
        ("datetime", {"time": TimeMode.MICROSECONDS}, Primitive.TIMESTAMP, Wire.EPOCH_MICROS),
        ("datetime(6)", {"time": TimeMode.NANOSECONDS}, Primitive.TIMESTAMP, Wire.EPOCH_NANOS),
        ("datetime(3)", {"time": TimeMode.CONNECT}, Primitive.TIMESTAMP, Wire.EPOCH_MILLIS),
        ("timestamp(6)", {"time": TimeMode.CONNECT}, Primitive.TIMESTAMPTZ, Wire.ISO_ZONED),
        ("time(2)", {"time": TimeMode.MICROSECONDS}, Primitive.LONG, Wire.LONG),
        ("time", {"time": TimeMode.NANOSECONDS}, Primitive.LONG, Wire.NANOS_OF_DAY),
        ("date", {"time": TimeMode.ISOSTRING}, Primitive.DATE, Wire.ISO_DATE),
        ("decimal(65,30)", {"decimal": DecimalMode.STRING}, Primitive.STRING, Wire.STRING),
    ],
)
def test_modes_change_what_arrives(text, modes, type_, wire):
    found = mapped(text, **modes)
    assert (found.type, found.wire) == (type_, wire)


@pytest.mark.unit
@pytest.mark.parametrize("digits", ["", "(3)", "(6)"])
def test_a_time_is_never_taken_for_milliseconds(digits):
    """PostgreSQL's default mode has them; these connectors refuse that mode."""
    found = mapped(f"time{digits}", time=TimeMode.ADAPTIVE)
    assert (found.wire, found.comment) == (Wire.LONG, MICROSECONDS)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "modes", "words", "wire"),
    [
        ("decimal(65,30)", {"decimal": DecimalMode.DOUBLE}, "all of its digits", Wire.DOUBLE),
        ("decimal(16,2)", {"decimal": DecimalMode.DOUBLE}, "16 digits", Wire.DOUBLE),
        ("datetime(6)", {"time": TimeMode.CONNECT}, "milliseconds", Wire.EPOCH_MILLIS),
        ("time", {"time": TimeMode.ISOSTRING}, "below 0 and above 24 hours", Wire.ISO_TIME),
        ("time", {"time": TimeMode.CONNECT}, "below 0 and above 24 hours", Wire.MILLIS_OF_DAY),
        ("uuid", {}, "zero byte", Wire.STRING),
        ("inet4", {}, "cannot read a definition", None),
        ("varchar(9) /*M!100301 COMPRESSED*/", {}, "compressed", None),
        ("datetime(3) /* mariadb-5.3 */", {}, "not understood (mariadb-5.3)", None),
        ("xmltype", {}, "no lake type", None),
        ("enum('a", {}, "not understood", None),
        ("", {}, "not the text of a type", None),
    ],
)
def test_what_cannot_be_stored_exactly_is_refused(text, modes, words, wire):
    found = refused(text, **modes)
    assert words in found.reason
    assert found.wire is wire
    assert found.source_type == text


@pytest.mark.unit
def test_a_table_with_refused_columns_has_no_schema_and_says_why():
    described = describe_table(CATALOG, ("part", "id"), ConnectorModes(), comment="the table")
    with pytest.raises(TerminalError) as caught:
        described.exact("table=x.s.t")
    assert "uu (uuid): MariaDB's connector changes values" in str(caught.value)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "asked", "type_", "wire"),
    [
        ("tinyint(1)", "boolean", Primitive.BOOLEAN, Wire.BOOLEAN_OR_INT),
        ("bigint unsigned", "bigint", Primitive.LONG, Wire.UNSIGNED_LONG),
        ("bit(12)", "decimal(20,0)", Decimal(20, 0), Wire.BITS),
        ("uuid", "string", Primitive.STRING, Wire.STRING),
    ],
)
def test_a_configured_type_may_hold_the_same_values(text, asked, type_, wire):
    described = describe_table([MysqlColumn("c", text)], (), ConnectorModes())
    given = apply_overrides(described, {"c": parse_spec(asked)}, (), ConnectorModes())
    column = given.exact().column("c")
    assert (column.type, column.wire) == (type_, wire)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "type_", "wire", "detail"),
    [
        ("tinyint(1)", Primitive.INT, Wire.INTEGER_TEXT, None),
        ("int unsigned", Primitive.LONG, Wire.INTEGER_TEXT, None),
        ("bigint", Primitive.LONG, Wire.INTEGER_TEXT, None),
        ("bigint unsigned", Decimal(20, 0), Wire.DECIMAL_TEXT, None),
        ("decimal(10,2)", Decimal(10, 2), Wire.DECIMAL_TEXT, None),
        ("float(7,4)", Primitive.FLOAT, Wire.FLOATING_TEXT, None),
        ("double", Primitive.DOUBLE, Wire.FLOATING_TEXT, None),
        ("bit(1)", Primitive.BOOLEAN, Wire.BOOLEAN_TEXT, None),
        ("bit(12)", Primitive.LONG, Wire.INTEGER_TEXT, None),
        ("bit(64)", Decimal(20, 0), Wire.INTEGER_TEXT, None),
        ("year(4)", Primitive.INT, Wire.INTEGER_TEXT, None),
        ("date", Primitive.DATE, Wire.DATE_TEXT, None),
        ("time(6)", Primitive.LONG, Wire.TIME_TEXT, None),
        ("datetime(6)", Primitive.TIMESTAMP, Wire.TIMESTAMP_TEXT, None),
        ("timestamp", Primitive.TIMESTAMPTZ, Wire.TIMESTAMP_TEXT, WireDetail(zone="Asia/Tokyo")),
        ("text", Primitive.STRING, Wire.STRING, None),
        ("json", Primitive.STRING, Wire.JSON_TEXT, None),
        ("binary(16)", Primitive.BINARY, Wire.BYTES_LATIN1, WireDetail(width=16)),
        ("binary", Primitive.BINARY, Wire.BYTES_LATIN1, WireDetail(least=1)),
        ("varbinary(9)", Primitive.BINARY, Wire.BYTES_LATIN1, None),
        ("longblob", Primitive.BINARY, Wire.BYTES_LATIN1, None),
        ("enum('a','b''c')", Primitive.STRING, Wire.ENUM_ORDINAL, WireDetail(("a", "b'c"))),
        ("set('x','y')", Primitive.STRING, Wire.SET_BITS, WireDetail(("x", "y"))),
        ("decimal(65,30)", Primitive.STRING, Wire.STRING, None),
    ],
)
def test_each_type_as_text(text, type_, wire, detail):
    found = mapped(text, of=map_text_column, zone="Asia/Tokyo")
    assert (found.type, found.wire, found.detail) == (type_, wire, detail)
    assert column_from_json(column_to_json(found)) == Column(
        "c", found.type, found.wire, detail=found.detail
    )


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "sql_type", "wire"),
    [
        ("TEXT", 2005, Wire.STRING),
        ("text", None, Wire.STRING),
        ("LongText", -4, Wire.STRING),
        ("text", 2004, Wire.TEXT_LATIN1),
        ("TEXT(1000)", 2004, Wire.TEXT_LATIN1),
        ("TEXT(1000)", -4, Wire.TEXT_LATIN1),
        ("LONG VARCHAR", 2004, Wire.TEXT_LATIN1),
        ("varchar(70000)", 2004, Wire.TEXT_LATIN1),
        ("varchar(20)", 12, Wire.STRING),
        ("JSON", 2004, Wire.TEXT_LATIN1),
        ("json", 12, Wire.JSON_TEXT),
        ("json", 1111, Wire.JSON_TEXT),
        ("blob", 2004, Wire.BYTES_LATIN1),
        ("varbinary(9)", -3, Wire.BYTES_LATIN1),
        ("decimal(65,30)", 3, Wire.STRING),
    ],
)
def test_a_text_that_canal_writes_as_bytes_is_known_by_its_other_type(text, sql_type, wire):
    found = map_text_column(MysqlColumn("c", text, sql_type=sql_type), None)
    assert found.wire is wire


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "words", "wire"),
    [
        ("decimal", "does not tell its digits", Wire.DECIMAL_TEXT),
        ("bit", "width", Wire.INTEGER_TEXT),
        ("enum", "labels", Wire.INTEGER_TEXT),
        ("set", "decimal(20,0)", Wire.INTEGER_TEXT),
        ("timestamp", "connector.time_zone", Wire.TIMESTAMP_TEXT),
        ("point", "binary", Wire.BYTES_LATIN1),
        ("vector", "string", Wire.STRING),
        ("uuid", "encoding", None),
        ("xmltype", "no lake type", None),
    ],
)
def test_what_a_text_does_not_tell_is_refused(text, words, wire):
    found = refused(text, of=map_text_column)
    assert words in found.reason
    assert found.wire is wire


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "asked", "type_", "wire"),
    [
        ("tinyint(1)", "string", Primitive.STRING, Wire.STRING),
        ("decimal", "decimal(30,10)", Decimal(30, 10), Wire.DECIMAL_TEXT),
        ("decimal(65,30)", "string", Primitive.STRING, Wire.STRING),
        ("date", "string", Primitive.STRING, Wire.STRING),
        ("timestamp", "timestamp", Primitive.TIMESTAMP, Wire.TIMESTAMP_TEXT),
        ("enum", "int", Primitive.INT, Wire.INTEGER_TEXT),
        ("set", "decimal(20,0)", Decimal(20, 0), Wire.INTEGER_TEXT),
        ("geometry", "binary", Primitive.BINARY, Wire.BYTES_LATIN1),
        ("enum('a')", "string", Primitive.STRING, Wire.ENUM_ORDINAL),
        ("json", "string", Primitive.STRING, Wire.STRING),
    ],
)
def test_a_configured_type_may_hold_a_text(text, asked, type_, wire):
    described = describe_text_table([MysqlColumn("c", text)], ("c",))
    given = apply_overrides(described, {"c": parse_spec(asked)}, (), ConnectorModes())
    column = given.exact().column("c")
    assert (column.type, column.wire) == (type_, wire)


@pytest.mark.property
@given(
    st.text(max_size=30)
    | st.builds(
        "{}({}){}".format,
        st.sampled_from(["decimal", "bit", "float", "datetime", "time", "binary", "enum", "year"]),
        st.text(alphabet="0123456789,'", max_size=12),
        st.sampled_from(["", " unsigned", " zerofill", " /* x */"]),
    )
)
@example("A(0,)")  # what Python 3.11.2 took for numbers
@example("enum('a',)")
def test_any_type_is_mapped_or_refused(text):
    column = MysqlColumn("c", text)
    assert map_column(column, ConnectorModes()).name == "c"
    assert map_text_column(column, "UTC").name == "c"
