"""Expressions over many schemas, partitions and columns, as Spark's client sends them."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from cdc_assets.changes.names import TableName
from cdc_assets.changes.position import Scheme
from cdc_assets.databases.statements import Range
from cdc_assets.formats.by_table import SkippedRecords
from cdc_assets.formats.debezium import avro_records
from cdc_assets.formats.order import order_of
from cdc_assets.formats.wire_id import Framing
from cdc_assets.merge.verifying import lake_rows
from cdc_assets.merge.verifying.lake_rows import LakeRows
from cdc_assets.operations.rebuild.shadow_table import rows_to_keep
from cdc_assets.operations.resnapshot.reading import outside_of
from cdc_assets.schema.avro_wire import wire_schema
from cdc_assets.schema.comparing import Compared, Comparison, Form
from cdc_assets.schema.types import Column, Primitive, Wire

pytestmark = pytest.mark.unit

MANY = 300


@pytest.fixture(autouse=True)
def _without_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")


def sent(expression: Any) -> bytes:
    """Returns the expression as it is sent; raises if it is too deep."""
    return expression.to_plan(MagicMock()).SerializeToString()


def envelope_schema() -> str:
    text = {"type": "record", "name": "S", "fields": [{"name": "table", "type": "string"}]}
    fields = [{"name": "op", "type": "string"}, {"name": "source", "type": text}]
    return wire_schema({"type": "record", "name": "E", "fields": fields})


def test_a_chain_of_conditions_is_too_deep() -> None:
    found = F.lit(False)
    for number in range(MANY):
        found = found | (F.col("partition") == number)
    with pytest.raises(Exception, match="parsing"):
        sent(found)


def test_a_topic_may_have_hundreds_of_schemas() -> None:
    text = envelope_schema()
    assert sent(avro_records.origin(dict.fromkeys(range(MANY), text), Framing.CONFLUENT))
    raw = MagicMock()
    writers = dict.fromkeys(range(MANY), json.dumps({"value": text, "key": None}))
    avro_records.sources(raw, order_of(Scheme.BINLOG), writers, Framing.CONFLUENT, has_key=True)
    *_, source = raw.withColumn.return_value.select.call_args.args
    assert sent(source)


def test_hundreds_of_partitions_may_have_records_without_a_value() -> None:
    owned, lone = MagicMock(), dict.fromkeys(range(MANY), (1, 2))
    SkippedRecords({}, lone).own_records(owned, TableName("shop", "public", "orders"))
    (condition,) = owned.where.call_args.args
    assert sent(condition)


def test_a_table_of_hundreds_of_columns_keeps_its_deleted_rows_in_a_rebuild() -> None:
    old, new = MagicMock(), MagicMock()
    columns = StructType([StructField(f"c{number}", LongType()) for number in range(MANY)])
    old.schema, new.schema, new.columns = columns, columns, columns.names
    rows_to_keep(old, new, ["c0"], b"")
    assert all(sent(each) for each in old.select.call_args.args)


def test_rows_may_be_compared_in_hundreds_of_ranges_of_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = Compared(Column("id", Primitive.LONG, Wire.LONG), Form.INTEGER)
    comparison = Comparison((key,), (key,), (), is_keyed=True)
    within = [Range((str(start),), (str(start + 5),)) for start in range(0, 10 * MANY, 10)]
    assert sent(outside_of(comparison, within))
    rows = MagicMock()
    monkeypatch.setattr(lake_rows, "lake_table", lambda *_: rows)
    of_lake = LakeRows(MagicMock(), "lake", MagicMock(), MagicMock(), comparison)
    of_lake.among(within).with_texts()
    (condition,) = rows.where.call_args.args
    assert sent(condition)
