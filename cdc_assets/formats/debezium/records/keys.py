"""The record's own key on Spark."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from cdc_assets.formats.debezium.envelope import RowType
from cdc_assets.formats.debezium.inline import SCHEMA
from cdc_assets.formats.debezium.records.text import key_text
from cdc_assets.formats.envelope import Image, fields_of
from cdc_assets.formats.spec import ReadSpec, wire_struct


def record_key(spec: ReadSpec, row: RowType = wire_struct) -> Image:
    """The Kafka key, with or without a schema around it."""
    return fields_of(json_object(row(spec.key_columns)))


def json_object(bare: StructType) -> Expression:
    """The key as an object of these fields, with or without a schema around it."""
    wrapped = StructType([StructField("payload", bare)])
    text = key_text()
    is_wrapped = text.startswith(SCHEMA)
    return F.when(is_wrapped, F.from_json(text, wrapped).getField("payload")).otherwise(
        F.from_json(text, bare)
    )
