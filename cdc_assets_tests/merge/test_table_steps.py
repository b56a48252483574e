"""What a table lacks is found by looking at it, however it came to be as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc_assets.changes.names import LakeName
from cdc_assets.lake.columns import COLUMN, described
from cdc_assets.lake.state import LakeColumn, TableState
from cdc_assets.merge.plan.column_plan import identifier, plan_columns
from cdc_assets.merge.plan.table_steps import (
    AddColumns,
    DescribeColumns,
    SetIdentifier,
    WidenColumn,
    describe,
    statements,
)
from cdc_assets.schema.stored import column_to_json
from cdc_assets.schema.types import Column, Primitive, TableSchema, Wire

pytestmark = pytest.mark.unit

ID = Column("id", Primitive.INT, Wire.INT, required=True)
NAME = Column("name", Primitive.STRING, Wire.STRING)
BORN = Column("born", Primitive.DATE, Wire.EPOCH_DAYS)
STORED = TableSchema((ID, NAME), ("id",))
LAKE = (LakeColumn("id", "int", True, ""), LakeColumn("name", "string", False, ""))
STATE = TableState(
    LakeName("a", "b"), None, None, {}, LAKE, ("id",), {}, "", is_empty=True, total_records=0,
    head_columns={},
)  # fmt: skip


def record(*columns: Column) -> TableSchema:
    return TableSchema(columns, ("id",))


def test_a_table_that_lacks_nothing_needs_no_step() -> None:
    plan = plan_columns(STORED, LAKE, [record(ID, NAME)])
    assert plan.steps == ()
    assert plan.schema == STORED
    assert plan.changes == ()


def test_a_new_column_is_described_before_it_is_added() -> None:
    plan = plan_columns(STORED, LAKE, [record(ID, NAME, BORN)])
    assert plan.steps == (DescribeColumns((BORN,)), AddColumns((BORN,)))
    assert plan.schema.columns == (ID, NAME, BORN)
    assert [line for each in plan.changes for line in each.lines()] == ["add born date"]


def test_a_column_that_was_described_and_not_added_is_added_without_asking_the_records() -> None:
    left = replace(STATE, properties={COLUMN + "born": column_to_json(BORN)})
    stored = described(STORED, left)
    assert stored.columns == (ID, NAME, BORN)
    plan = plan_columns(stored, LAKE, [])
    assert plan.steps == (AddColumns((BORN,)),)
    assert plan.changes == ()


def test_a_column_that_another_writer_has_added_meanwhile_is_there() -> None:
    lake = (*LAKE, LakeColumn("born", "date", False, ""))
    other = described(STORED, replace(STATE, properties={COLUMN + "born": column_to_json(BORN)}))
    plan = plan_columns(other, lake, [record(ID, NAME, BORN)])
    assert plan.steps == ()
    assert plan.schema.columns == (ID, NAME, BORN)


def test_a_column_of_the_lake_that_nobody_described_is_adopted_when_records_have_it() -> None:
    lake = (*LAKE, LakeColumn("born", "date", False, ""))
    assert plan_columns(STORED, lake, [record(ID, NAME)]).schema.columns == (ID, NAME)
    plan = plan_columns(STORED, lake, [record(ID, NAME, BORN)])
    assert plan.steps == (DescribeColumns((BORN,)),)
    assert plan.schema.columns == (ID, NAME, BORN)


def test_a_column_of_the_lake_of_a_kind_of_its_own_is_incompatible() -> None:
    lake = (*LAKE, LakeColumn("born", "struct<1: a: optional int>", False, ""))
    (change,) = plan_columns(STORED, lake, [record(ID, NAME, BORN)]).changes[:1]
    assert "born" in change.refused[0].why


def test_a_column_is_widened_by_what_the_table_has_and_not_by_what_was_recorded() -> None:
    wide = replace(ID, type=Primitive.LONG, wire=Wire.LONG)
    plan = plan_columns(STORED, LAKE, [record(wide, NAME)])
    assert [type(step) for step in plan.steps] == [DescribeColumns, WidenColumn]
    widened = (LakeColumn("id", "long", True, ""), LAKE[1])
    after = plan_columns(STORED, widened, [record(wide, NAME)])
    assert after.steps == ()
    assert after.schema.column("id").type is Primitive.LONG


def test_a_narrower_record_changes_nothing() -> None:
    widened = (LakeColumn("id", "long", True, ""), LAKE[1])
    assert plan_columns(STORED, widened, [record(ID, NAME)]).steps == ()


def test_schemas_of_one_batch_add_up_in_their_order() -> None:
    more = Column("more", Primitive.STRING, Wire.STRING)
    plan = plan_columns(STORED, LAKE, [record(ID, NAME, BORN), record(ID, more)])
    assert plan.schema.names == ("id", "name", "born", "more")
    assert plan.steps == (DescribeColumns((BORN, more)), AddColumns((BORN, more)))


@pytest.mark.parametrize(
    ("state", "expected"),
    [(None, (SetIdentifier(("id",)),)), (replace(STATE, key=()), (SetIdentifier(("id",)),)),
     (STATE, ())],
    ids=["no table", "made in part", "there"],
)  # fmt: skip
def test_identifier_fields_are_set_where_they_are_missing(state, expected) -> None:
    assert identifier(state, STORED) == expected


def test_a_key_of_a_type_that_iceberg_takes_for_none_is_no_identifier() -> None:
    key = Column("id", Primitive.DOUBLE, Wire.DOUBLE, required=True)
    assert identifier(None, TableSchema((key,), ("id",))) == ()


def test_each_step_says_what_it_does_and_is_sent_as_sql() -> None:
    wide = replace(ID, type=Primitive.LONG)
    plan = plan_columns(STORED, LAKE, [record(wide, NAME, BORN)])
    steps = (WidenColumn(wide, LakeName("a", "side")), *plan.steps)
    assert [describe(step) for step in steps] == [
        "widen id of the side table a.side to bigint",
        "record how born arrive", "add born date", "widen id to bigint",
    ]  # fmt: skip
    sent = [sql for step in steps for sql in statements(step, "lake", STATE.name)]
    assert [sql.split("(")[0].split("TYPE")[0].strip() for sql in sent] == [
        "ALTER TABLE `lake`.`a`.`side` ALTER COLUMN `id`",
        "ALTER TABLE `lake`.`a`.`b` SET TBLPROPERTIES",
        "ALTER TABLE `lake`.`a`.`b` ADD COLUMNS",
        "ALTER TABLE `lake`.`a`.`b` ALTER COLUMN `id`",
    ]
