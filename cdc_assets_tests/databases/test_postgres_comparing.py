"""Which columns of PostgreSQL are compared, by what, and what is said of the others."""

from __future__ import annotations

import pytest

from cdc_assets.databases.postgres.columns import PostgresColumn
from cdc_assets.databases.postgres.connection import quote
from cdc_assets.databases.postgres.dialect import PostgresDialect
from cdc_assets.schema.comparing import Compared, Form
from cdc_assets.schema.types import Column, Decimal, ListOf, Primitive, Wire, WireDetail

pytestmark = pytest.mark.unit

SQL = PostgresDialect()


def lake(type_: Primitive | Decimal | ListOf, wire: Wire = Wire.STRING) -> Column:
    return Column("c", type_, wire)


def postgres(name: str, **more: object) -> PostgresColumn:
    return PostgresColumn("c", name, name, **more)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("source", "column", "form"),
    [
        (postgres("int4"), lake(Primitive.INT), Form.INTEGER),
        (postgres("int4"), lake(Primitive.LONG), Form.INTEGER),
        (postgres("numeric"), lake(Decimal(10, 2)), Form.DECIMAL),
        (postgres("numeric"), lake(Primitive.STRING), Form.NUMBER),
        (postgres("bpchar"), lake(Primitive.STRING), Form.TEXT),
        (postgres("mood", kind="e"), lake(Primitive.STRING), Form.TEXT),
        (postgres("bit", modifier=1), lake(Primitive.BOOLEAN), Form.BOOLEAN),
        (postgres("bit", modifier=12), lake(Primitive.LONG), Form.INTEGER),
        (postgres("bit", modifier=64), lake(Decimal(20, 0)), Form.DECIMAL),
        (postgres("bit", modifier=100), lake(Primitive.STRING), Form.TEXT),
        (postgres("timestamptz"), lake(Primitive.TIMESTAMPTZ), Form.MICROS),
        (postgres("int4", is_array=True), lake(ListOf(Primitive.INT)), Form.INTEGER),
    ],
)
def test_a_pair_of_types_has_a_form(source: PostgresColumn, column: Column, form: Form) -> None:
    assert SQL.form_of(source, column) is form


@pytest.mark.parametrize(
    ("source", "column"),
    [
        (postgres("interval"), lake(Primitive.STRING)),
        (postgres("timestamptz"), lake(Primitive.TIMESTAMP)),
        (postgres("int4", is_array=True), lake(Primitive.STRING)),
        (postgres("hstore"), lake(Primitive.STRING)),
        (postgres("bit", modifier=64), lake(Primitive.LONG)),
    ],
)
def test_others_are_named_and_not_guessed(source: PostgresColumn, column: Column) -> None:
    why = SQL.form_of(source, column)
    assert not isinstance(why, Form)
    assert "no text that both sides write alike" in why


def test_of_masked_columns_digests_are_compared_where_they_are_of_a_text() -> None:
    masked = Column("c", Primitive.STRING, Wire.STRING, detail=WireDetail(mask=True))
    assert SQL.form_of(postgres("text"), masked) is Form.DIGEST
    assert not isinstance(SQL.form_of(postgres("numeric"), masked), Form)
    sent = SQL.canonical(postgres("text"), Compared(masked, Form.DIGEST), "t.c")
    assert sent.startswith("encode(sha256(")


@pytest.mark.parametrize(
    ("name", "is_output"),
    [("xml", True), ("inet", True), ("char", True), ("bpchar", True), ("cidr", False)],
)
def test_a_text_is_written_as_connectors_get_it_where_a_cast_writes_another(
    name: str, is_output: bool
) -> None:
    compared = Compared(lake(Primitive.STRING), Form.TEXT)
    written = "CASE WHEN t.c IS NOT NULL THEN concat(t.c) END" if is_output else "t.c::text"
    assert SQL.canonical(postgres(name), compared, "t.c") == written
    assert SQL.lake_text(postgres(name), compared, "t.c") == written


def test_a_nan_has_one_text_whatever_its_sign_is() -> None:
    compared = Compared(lake(Primitive.DOUBLE, Wire.DOUBLE), Form.FLOATING)
    written = SQL.canonical(postgres("float8"), compared, "t.c")
    assert written.startswith("CASE WHEN t.c = 'NaN' THEN '7ff8000000000000' ELSE encode(")


def test_texts_are_put_in_order_by_their_bytes() -> None:
    assert SQL.ordered(postgres("text"), "t.c") == 't.c COLLATE "C"'
    assert not SQL.is_indexed(postgres("text"))
    written = "CASE WHEN t.c IS NOT NULL THEN concat(t.c) END"
    assert SQL.ordered(postgres("bpchar"), "t.c") == f'{written} COLLATE "C"'
    assert not SQL.is_indexed(postgres("bpchar"))
    assert SQL.ordered(postgres("uuid"), "t.c") == "t.c"
    assert SQL.is_indexed(postgres("uuid"))
    floating = Compared(lake(Primitive.DOUBLE), Form.FLOATING)
    assert not SQL.may_be_key(postgres("float8"), floating)


def test_a_hostile_name_stays_a_name() -> None:
    assert quote('a"; DROP TABLE x; --%s') == '"a""; DROP TABLE x; --%%s"'
