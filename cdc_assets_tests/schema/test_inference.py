"""Guessing a schema from values, and putting the configuration on top."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.json_text import read_json
from cdc_assets.databases.postgres.columns import PostgresColumn
from cdc_assets.databases.postgres.types import map_column
from cdc_assets.errors import ConfigError, TerminalError
from cdc_assets.schema.described import Described
from cdc_assets.schema.inference import infer
from cdc_assets.schema.modes import ConnectorModes, DecimalMode
from cdc_assets.schema.overrides import apply_overrides
from cdc_assets.schema.parse import parse_spec
from cdc_assets.schema.types import Column, Decimal, ListOf, Primitive, UnmappedColumn, Wire

ROWS = [
    {
        "id": 1,
        "name": "x",
        "price": "BNI=",
        "rate": 1.5,
        "ok": True,
        "tags": ["a", None],
        "no": None,
    },
    {"id": 2**40, "name": None, "price": "AA==", "rate": 2.0, "ok": None, "tags": [], "no": None},
]
MODES = ConnectorModes()


def types(described):
    return {
        each.name: each.type if isinstance(each, Column) else None for each in described.columns
    }


def override(described, columns, key=(), modes=MODES):
    specs = {name: parse_spec(text) for name, text in columns.items()}
    return apply_overrides(described, specs, key, modes, where="table=x.s.t")


def from_catalog(*columns):
    return Described(tuple(map_column(each, MODES) for each in columns), ("id",))


@pytest.mark.unit
def test_simple_values_have_simple_types_and_warnings():
    described = infer(ROWS, ("id",))
    assert types(described) == {
        "id": Primitive.LONG,
        "name": Primitive.STRING,
        "price": Primitive.STRING,
        "rate": Primitive.DOUBLE,
        "ok": Primitive.BOOLEAN,
        "tags": ListOf(Primitive.STRING),
        "no": Primitive.STRING,
    }
    assert described.key == ("id",)
    assert described.exact().column("id").required
    assert [warning.split(":")[0] for warning in described.warnings[1:]] == ["column no"]
    assert "inferred" in described.warnings[0]


@pytest.mark.unit
def test_whole_and_broken_numbers_together_are_doubles():
    assert infer([{"n": 1}, {"n": 1.5}]).exact().column("n").type is Primitive.DOUBLE


@pytest.mark.unit
@pytest.mark.parametrize(
    "values", [["a", 1], [True, 1], [{"a": 1}], [[1], "a"], [[1, "a"]], [[[1]]], [2**63]]
)
def test_values_that_are_not_of_one_simple_type_are_refused(values):
    described = infer([{"c": value} for value in values])
    assert isinstance(described.columns[0], UnmappedColumn)
    with pytest.raises(TerminalError, match=r"c \("):
        described.exact()


@pytest.mark.unit
@pytest.mark.parametrize(
    "number", ["123456789012345678.5", "-0.1234567890123456789", "1.5000000000000000001e3"]
)
def test_decimals_that_no_double_holds_are_not_rounded(number):
    described = infer([{"c": 1}, {"c": read_json(number)}, {"c": 2.5}])
    with pytest.raises(TerminalError, match=r"of more digits than a double has.*BASE64"):
        described.exact()
    accepted = override(described, {"c": "double"}).exact().column("c")
    assert (accepted.type, accepted.wire) == (Primitive.DOUBLE, Wire.DOUBLE)
    with pytest.raises(ConfigError, match="cannot be stored as"):
        override(described, {"c": "decimal(38,10)"})


@pytest.mark.unit
@pytest.mark.parametrize(
    "number", ["0.000000000000000000012345", "1.7976931348623157E308", "1" + "0" * 20 + ".0"]
)
def test_doubles_of_any_size_are_no_such_decimals(number):
    assert infer([{"c": read_json(number)}]).exact().column("c").type is Primitive.DOUBLE


@pytest.mark.unit
def test_the_placeholder_teaches_nothing():
    described = infer([{"c": "__gone"}, {"c": [1]}, {"c": ["__gone"]}], placeholder="__gone")
    assert types(described) == {"c": ListOf(Primitive.LONG)}


@pytest.mark.unit
def test_no_rows_describe_no_table():
    with pytest.raises(TerminalError, match="no columns"):
        infer([]).exact("table=x.s.t")


@pytest.mark.property
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from("abcd"),
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False)
            | st.text(max_size=3)
            | st.lists(st.integers() | st.text(max_size=2), max_size=2)
            | st.dictionaries(st.sampled_from(["scale", "value"]), st.integers(), max_size=2),
        ),
        max_size=6,
    )
)
def test_every_column_is_mapped_or_refused_with_a_reason(rows):
    described = infer(rows)
    assert set(described.names) == {name for row in rows for name in row}
    assert all(each.reason for each in described.unmapped)


@pytest.mark.unit
def test_configured_types_replace_guesses_by_the_modes_of_the_connector():
    described = override(
        infer([{"id": 1, "price": "BNI=", "at": 1577934245678, "on": 18263, "raw": "3q2+7w=="}]),
        {"price": "decimal(12,2)", "at": "timestamp(3)", "on": "date", "raw": "binary"},
        key=["id"],
    )
    schema = described.exact()
    assert (schema.column("price").type, schema.column("price").wire) == (
        Decimal(12, 2),
        Wire.DECIMAL_BYTES,
    )
    assert schema.column("at").wire is Wire.EPOCH_MILLIS
    assert schema.column("on").wire is Wire.EPOCH_DAYS
    assert schema.column("raw").wire is Wire.BYTES_BASE64
    assert schema.key == ("id",)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("value", "type_", "modes", "words"),
    [
        (12.5, "decimal(12,2)", MODES, "modes make it decimal_bytes"),
        ("2020-01-02", "date", MODES, "modes make it epoch_days"),
        ([1], "bigint", MODES, "modes make it long"),
        (1.5, "decimal(20,2)", ConnectorModes(DecimalMode.DOUBLE), "20 digits"),
    ],
)
def test_a_configured_type_that_the_values_contradict_is_refused(value, type_, modes, words):
    with pytest.raises(ConfigError) as caught:
        override(infer([{"c": value}]), {"c": type_}, modes=modes)
    assert words in str(caught.value)
    assert "table=x.s.t" in str(caught.value)


@pytest.mark.unit
def test_a_column_without_values_takes_any_configured_type():
    schema = override(infer([{"c": None}]), {"c": "timestamp"}).exact()
    assert schema.column("c").wire is Wire.EPOCH_MICROS


@pytest.mark.unit
def test_numbers_in_double_mode_may_be_small_decimals():
    described = infer([{"c": 12.5}, {"c": 3.0}])
    schema = override(described, {"c": "decimal(12,2)"}, modes=ConnectorModes(DecimalMode.DOUBLE))
    assert schema.exact().column("c").wire is Wire.DECIMAL_TEXT


@pytest.mark.unit
@pytest.mark.parametrize(
    ("type_name", "configured", "wire"),
    [
        ("numeric", "decimal(38,10)", Wire.VARIABLE_SCALE_DECIMAL),
        ("money", "decimal(19,2)", Wire.DECIMAL_BYTES),
        ("interval", "bigint", Wire.LONG),
        ("int4range", "string", Wire.STRING),
        ("timetz", "string", Wire.STRING),
        ("int4", "bigint", Wire.INT),
        ("int4", "int", Wire.INT),
        ("float4", "double", Wire.FLOAT),
    ],
)
def test_a_refused_or_narrow_column_is_stored_by_a_type_that_fits(type_name, configured, wire):
    described = from_catalog(PostgresColumn("c", type_name, type_name))
    column = override(described, {"c": configured}).exact().column("c")
    assert (column.type, column.wire) == (parse_spec(configured).type, wire)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("type_name", "configured"),
    [
        ("int8", "int"),
        ("text", "bigint"),
        ("timestamptz", "timestamp"),
        ("timestamp", "date"),
        ("bit", "string"),
        ("interval", "string"),
        ("bytea", "string"),
        ("float8", "decimal(10,2)"),
    ],
)
def test_a_type_that_does_not_hold_what_arrives_is_refused(type_name, configured):
    described = from_catalog(PostgresColumn("c", type_name, type_name))
    with pytest.raises(ConfigError, match="cannot be stored as"):
        override(described, {"c": configured})


@pytest.mark.unit
@pytest.mark.parametrize(("columns", "key"), [({"pirce": "bigint"}, ()), ({}, ("pirce",))])
def test_an_unknown_column_is_named_with_its_nearest(columns, key):
    with pytest.raises(ConfigError, match="did you mean 'price'"):
        override(infer(ROWS), columns, key)


@pytest.mark.unit
def test_a_configured_key_wins_and_is_required():
    schema = override(infer(ROWS, ("id",)), {}, key=["name"]).exact()
    assert schema.key == ("name",)
    assert schema.column("name").required
    assert not schema.column("name").unchanged_marker
