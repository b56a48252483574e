"""What keeps another tool's table from being taken over, and what is changed of one that fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from cdc_assets.changes.names import LakeName
from cdc_assets.lake import TableState
from cdc_assets.lake.columns import SCHEMA
from cdc_assets.lake.foreign import ForeignTable
from cdc_assets.lake.state import LakeColumn
from cdc_assets.merge.plan.table_steps import CreateTable
from cdc_assets.merge.statements.own_columns import OWN_COLUMNS
from cdc_assets.operations.adopt.fit import Fit, compared
from cdc_assets.schema.stored import from_json
from cdc_assets.schema.types import Column, Decimal, Primitive, TableSchema, Wire

pytestmark = pytest.mark.unit

PLAIN = ForeignTable({}, (), 0)
SOURCE = TableSchema(
    (
        Column("id", Primitive.INT, Wire.INT, required=True),
        Column("price", Decimal(12, 2), Wire.DECIMAL_BYTES),
        Column("at", Primitive.TIMESTAMPTZ, Wire.ISO_ZONED),
    ),
    ("id",),
    left_out=("secret",),
)
FITTING = {"id": "int", "price": "decimal(12, 2)", "at": "timestamptz"}


def look(
    columns: Mapping[str, str], *, required: tuple[str, ...] = (), key: tuple[str, ...] = ()
) -> TableState:
    found = (LakeColumn(name, type_, name in required, "") for name, type_ in columns.items())
    return TableState(
        name=LakeName("raw", "orders"), snapshot_id=1, published=None, others={},
        columns=tuple(found), key=key, properties={}, location="", is_empty=False,
        total_records=None, head_columns={}, format_version=2,
    )  # fmt: skip


def fit(
    state: TableState, foreign: ForeignTable = PLAIN, source: TableSchema = SOURCE, version: int = 3
) -> Fit:
    required = CreateTable(source, OWN_COLUMNS, {"format-version": str(version), "a": "b"})
    return compared(state, foreign, required, "lake", "public.orders")


def test_a_table_with_the_same_columns_gets_ours() -> None:
    found = fit(look(FITTING))
    assert found.refusals == ()
    assert [each.words for each in found.changes] == ["add _cdc_position, _cdc_ts"]
    assert found.extra == ()
    assert found.properties["format-version"] == "3"
    assert found.properties["a"] == "b"
    assert from_json(found.properties[SCHEMA]) == SOURCE


def test_a_table_that_was_changed_needs_no_change_any_more() -> None:
    there = {**FITTING, "_cdc_position": "binary", "_cdc_ts": "timestamptz"}
    assert fit(look(there)).changes == ()


def test_a_newer_format_version_stays() -> None:
    state = replace(look(FITTING), format_version=3)
    assert fit(state, version=2).properties["format-version"] == "3"


def test_types_that_hold_more_stay_and_others_are_widened() -> None:
    there = {"id": "long", "price": "decimal(10, 2)", "at": "timestamptz"}
    found = fit(look(there))
    assert found.refusals == ()
    assert found.schema.column("id").type is Primitive.LONG
    assert found.changes[0].words == "widen price to decimal(12,2)"


def test_columns_of_the_tool_stay_and_may_be_empty() -> None:
    there = {**FITTING, "_olake_id": "string", "_cdc": "struct<7: op: optional string>"}
    state = look(there, required=("id", "_olake_id", "at"), key=("_olake_id",))
    found = fit(state)
    assert found.refusals == ()
    assert found.extra == ("_olake_id", "_cdc")
    assert [each.words for each in found.changes] == [
        "no identifier field: _olake_id",
        "let at be NULL",
        "let _olake_id be NULL",
        "add _cdc_position, _cdc_ts",
    ]


def test_columns_that_only_the_source_has_are_added() -> None:
    found = fit(look({"id": "int", "at": "timestamptz"}))
    assert found.changes[0].words == "add price decimal(12,2)"


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ({**FITTING, "price": "double"}, "columns.price: double if that is a possible type"),
        ({**FITTING, "at": "timestamp"}, "has it as timestamp_ntz, and the source as timestamp"),
        ({**FITTING, "at": "uuid"}, "as uuid, which is not supported"),
        ({**FITTING, "at": "struct<1: a: optional map<2: string, 3: int>>"}, "is not supported"),
        ({"ID": "int", "price": "decimal(12, 2)", "at": "timestamptz"}, "differs in its case"),
        ({"price": "decimal(12, 2)", "at": "timestamptz"}, "does not have id of the source's key"),
        ({**FITTING, "_cdc_ts": "string"}, "column _cdc_ts: the table has one of this name"),
        ({**FITTING, "secret": "string"}, "column secret: the configuration excludes it"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_its_remedy(there: Mapping[str, str], said: str) -> None:
    assert any(said in each for each in fit(look(there)).refusals)


def test_everything_that_does_not_fit_is_named_at_once() -> None:
    found = fit(look({**FITTING, "price": "double", "at": "uuid"}))
    assert len(found.refusals) == 2


def test_a_table_without_a_key_is_refused() -> None:
    found = fit(look(FITTING), source=replace(SOURCE, key=()))
    assert any("has no key" in each for each in found.refusals)


def test_partitions_by_a_column_of_the_source_stay() -> None:
    assert fit(look(FITTING), ForeignTable({"at_day": "at"}, (), 0)).refusals == ()


def test_partitions_by_a_column_that_the_source_does_not_fill_are_refused() -> None:
    foreign = ForeignTable({"ts_day": "__source_ts_ms"}, (), 0)
    (said,) = fit(look({**FITTING, "__source_ts_ms": "timestamptz"}), foreign).refusals
    assert "partitioned by ts_day, of the column __source_ts_ms" in said


def test_only_branches_with_the_names_of_batches_are_in_the_way() -> None:
    ours = "cdc_" + 32 * "0"
    (said,) = fit(look(FITTING), ForeignTable({}, ("audit", ours, "v1"), 0)).refusals
    assert ours in said
    assert "audit" not in said
