"""Evolution plans: lossless or refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc_assets.schema.evolution import EvolutionPlan, Policy, evolved, lacking, plan_evolution
from cdc_assets.schema.stored import from_json, to_json
from cdc_assets.schema.types import Column, Decimal, ListOf, Primitive, TableSchema, Wire

pytestmark = pytest.mark.unit


def schema(**types):
    return TableSchema(tuple(Column(n, t, Wire.STRING) for n, t in types.items()), ("id",))


def evolution(lake: TableSchema, seen: TableSchema) -> EvolutionPlan:
    return plan_evolution(lake, seen, Policy())


TABLE = schema(id=Primitive.INT, price=Decimal(10, 2))


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"id": Primitive.INT, "price": Decimal(10, 2)}, ""),
        (
            {"id": Primitive.LONG, "price": Decimal(12, 2)},
            "widen id to bigint; widen price to decimal(12,2)",
        ),
        ({"id": Primitive.INT}, ""),
        ({"id": Primitive.INT, "new": Primitive.DATE}, "add new date"),
        (
            {"id": Primitive.INT, "price": Decimal(10, 1)},
            "column price: decimal(10,2) cannot become decimal(10,1) without loss",
        ),
        ({"id": Primitive.STRING}, "column id: int cannot become string without loss"),
    ],
    ids=["same", "wider", "dropped", "added", "other scale", "other type"],
)
def test_a_plan_says_what_will_change(record, text):
    assert evolution(TABLE, schema(**record)).describe() == text


def test_what_the_source_does_not_publish_stays_out():
    table = replace(TABLE, left_out=("made",))
    assert evolution(table, schema(id=Primitive.INT, made=Primitive.LONG)).is_empty


def test_a_record_lacks_columns_that_are_not_known_to_be_gone():
    record = schema(other=Primitive.INT)
    assert lacking(TABLE, record) == ("price",)
    assert lacking(TABLE, TABLE) == ()
    assert lacking(TABLE.with_absent(["price", "unknown"]), record) == ()


def test_a_narrower_record_needs_nothing():
    wide = schema(id=Primitive.LONG)
    assert evolution(wide, schema(id=Primitive.INT)).is_empty


def test_the_evolved_schema_holds_the_record():
    record = schema(id=Primitive.LONG, new=Primitive.DATE)
    after = evolved(TABLE, evolution(TABLE, record).changes)
    assert evolution(after, record).is_empty
    assert after.names == ("id", "price", "new")


def test_a_stored_schema_reads_back_the_same():
    columns = (
        Column("id", Primitive.LONG, Wire.LONG, required=True),
        Column("at", Primitive.TIMESTAMP, Wire.EPOCH_MICROS),
        Column("tz", Primitive.TIMESTAMPTZ, Wire.ISO_ZONED),
        Column(
            "tags",
            ListOf(Primitive.STRING),
            Wire.LIST,
            unchanged_marker=True,
            element_wire=Wire.STRING,
        ),
        Column("price", Decimal(12, 2), Wire.DECIMAL_BYTES),
    )
    whole = TableSchema(columns, ("id",), origin="database")
    assert from_json(to_json(whole)) == whole


def test_what_is_absent_and_left_out_is_kept_with_the_table():
    table = replace(TABLE.with_absent(["price"]), left_out=("made",))
    assert from_json(to_json(table)) == table
    assert from_json(to_json(TABLE)) == TABLE
