"""Keys as Spark reads them: with and without a schema around them, whatever the columns' names."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from cdc_assets.changes.names import TableName
from cdc_assets.decode import read_key
from cdc_assets.formats.debezium.dialects.dialect import unwrapped
from cdc_assets.formats.debezium.records.keys import record_key
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.spec import ReadSpec
from cdc_assets.schema.types import Column, Primitive, TableSchema, Wire
from cdc_assets_tests.pipeline import Session

KEY = {"schema": "public", "id": 7}
NAMED_BY = {"schema": "payload", "id": 7}
QUOTED = {"schema": '"payload":', "id": 7}
WRAPPED = {"schema": {"type": "struct", "fields": [{"field": "payload"}]}, "payload": KEY}
FIELDS = StructType([StructField("schema", StringType()), StructField("id", LongType())])


def compact(key: object) -> bytes:
    return json.dumps(key, separators=(",", ":")).encode()


@pytest.mark.spark
def test_a_schema_is_around_a_key_only_if_a_payload_is_beside_it(spark: Session) -> None:
    keys = [compact(each) for each in (KEY, NAMED_BY, QUOTED, WRAPPED)]
    keys.append(compact(WRAPPED).replace(b',"payload":', b', "payload" : '))
    frame = spark().createDataFrame([(each, n) for n, each in enumerate(keys)], "key binary, n int")
    found = frame.select("n", read_key(F.col("key"), FIELDS).alias("read")).sort("n").collect()
    assert [row["read"].asDict() for row in found] == [unwrapped(each) for each in keys]


@pytest.mark.spark
def test_a_key_that_is_its_only_column_has_either_of_its_names(spark: Session) -> None:
    """A renamed column may arrive under both, of which a scalar has none."""
    ident, was = (Column(name, Primitive.LONG, Wire.LONG) for name in ("ident", "id"))
    target = TableSchema((ident,), key=("ident",))
    spec = ReadSpec(
        TableSchema((ident, was), key=("ident", "id")), Layout("bare"), target,
        TableName("shop", "public", "t"), homes={"id": "ident"},
    )  # fmt: skip
    keys = [b"7", b'{"schema":{"type":"int64"},"payload":7}', b'{"ident":7}', b'{"id":7}', b'"7"']
    frame = spark().createDataFrame([*enumerate(keys)], "n int, key binary")
    image = record_key(spec)
    told = F.coalesce(*(image.value(each) for each in spec.key_columns)).alias("told")
    assert [row["told"] for row in frame.select("n", told).sort("n").collect()] == [7] * 4 + [None]
