"""A decimal's bytes are read with the scale that the source gives them, whatever is configured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc_assets.databases.postgres.types import describe_table
from cdc_assets.schema.connect import describe_envelope
from cdc_assets.schema.described import Described
from cdc_assets.schema.evolution import plan_evolution
from cdc_assets.schema.modes import ConnectorModes
from cdc_assets.schema.overrides import apply_overrides
from cdc_assets.schema.parse import parse_spec
from cdc_assets.schema.policy import Policy
from cdc_assets.schema.stored import from_json, to_json
from cdc_assets.schema.types import Column, Decimal, TableSchema, Wire
from cdc_assets_tests.databases.postgres_columns import numeric

pytestmark = pytest.mark.unit


def of_record(precision: int, scale: int) -> Described:
    parameters = {"scale": f"{scale}", "connect.decimal.precision": f"{precision}"}
    name = "org.apache.kafka.connect.data.Decimal"
    field = {"field": "c", "type": "bytes", "name": name, "parameters": parameters}
    after = {"field": "after", "type": "struct", "fields": [field]}
    return describe_envelope({"type": "struct", "fields": [after]})


def of_catalog(precision: int, scale: int) -> Described:
    return describe_table([numeric(precision, scale)], (), ConnectorModes())


def configured(described: Described, text: str) -> TableSchema:
    return apply_overrides(described, {"c": parse_spec(text)}, (), ConnectorModes()).exact()


@pytest.mark.parametrize("described", [of_record, of_catalog], ids=["record", "catalog"])
@pytest.mark.parametrize(
    ("precision", "scale", "text"),
    [
        (12, 2, "decimal(18,4)"),
        (12, 2, "decimal(12,2)"),
        (12, 2, "decimal(10,1)"),
        (12, 0, "decimal(14,2)"),
        (50, 2, "decimal(38,10)"),
        (50, 10, "decimal(38,10)"),
        (3, 2046, "decimal(5,0)"),
    ],
)
def test_a_configured_decimal_keeps_the_scale_of_its_bytes(described, precision, scale, text):
    column = configured(described(precision, scale), text).column("c")
    assert (column.wire, column.wire_scale) == (Wire.DECIMAL_BYTES, scale)
    assert str(column.type) == text


def test_the_scale_is_stored_with_the_table() -> None:
    for scale in (0, 2, 4):
        schema = configured(of_record(12, scale), "decimal(14,2)")
        assert from_json(to_json(schema)).column("c").wire_scale == scale


def test_a_table_of_before_scales_were_stored_is_read_with_that_of_its_type() -> None:
    text = '{"columns":[{"name":"c","type":"decimal(12,2)","wire":"decimal_bytes"}],"key":[],'
    assert from_json(text + '"origin":""}').column("c").wire_scale == 2
    same = configured(of_catalog(12, 2), "decimal(12,2)")
    assert to_json(replace(same, origin="")) == text + '"origin":""}'


def test_values_of_another_scale_are_read_by_their_own_schema() -> None:
    lake, now = (configured(of_record(*digits), "decimal(12,2)") for digits in ((12, 2), (14, 4)))
    assert plan_evolution(lake, now, Policy()).is_empty
    assert [each.column("c").wire_scale for each in (lake, now)] == [2, 4]


def test_without_schemas_another_scale_stops_the_table_whatever_is_configured() -> None:
    lake, now = (configured(of_catalog(*digits), "decimal(12,2)") for digits in ((12, 2), (14, 4)))
    plan = plan_evolution(lake, now, Policy(), by_catalog=True)
    assert [each.why for each in plan.refused] == [
        "column c: decimal(12,2) has become decimal(12,2) of values with 4 digits after the "
        "point, and nothing tells which records are from before and which from after"
    ]


def test_a_column_without_detail_arrives_with_the_scale_of_its_type() -> None:
    assert Column("c", Decimal(9, 3), Wire.DECIMAL_BYTES).wire_scale == 3
