"""Builds the struct of an envelope and reads it, for both JSON and Avro."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from cdc_assets.formats.debezium.placeholder import is_placeholder
from cdc_assets.formats.order import Order
from cdc_assets.formats.spec import ReadSpec, wire_struct
from cdc_assets.schema.types import Column, Wire

_SOURCE: Final = (
    StructField("ts_ms", LongType()),
    StructField("ts_us", LongType()),
    StructField("snapshot", StringType()),
)


RowType = Callable[[tuple[Column, ...]], StructType]
"""A function from the columns of a row, or of a key, to their struct type in a record."""


def source_type(order: Order) -> StructType:
    """Returns the fields that are read of an envelope's ``source``."""
    return StructType([*_SOURCE, *order.fields])


def envelope_type(spec: ReadSpec, row: RowType = wire_struct) -> StructType:
    """Returns the fields that are read of an envelope."""
    envelope = StructType(
        [
            StructField("before", row(spec.before_columns)),
            StructField("after", row(spec.schema.columns)),
            StructField("source", source_type(spec.order)),
            StructField("op", StringType()),
        ]
    )
    if spec.counts_rows:
        envelope = envelope.add("transaction", StructType().add("total_order", LongType()))
    return envelope


def is_read(envelope: Expression) -> Expression:
    """Returns whether it is a snapshot's row; some connectors send ``c`` and mark ``snapshot``."""
    snapshot = envelope.getField("source").getField("snapshot")
    in_snapshot = F.coalesce(snapshot, F.lit("false")) != "false"
    return (envelope.getField("op") == "r") | in_snapshot


def ordinal(envelope: Expression, spec: ReadSpec) -> Expression:
    """Returns ``transaction.total_order``, where rows are counted."""
    if not spec.counts_rows:
        return F.lit(None).cast("bigint")
    return envelope.getField("transaction").getField("total_order")


def left_out(
    value: Expression, column: Column, spec: ReadSpec, placeholder: str
) -> Expression | None:
    """Returns whether the value of a column after a change is the placeholder.

    The columns of a configured key may be large, whatever is known about them.
    """
    is_text_of_key = spec.layout.split_keys and column.name in spec.schema.key
    if not (column.unchanged_marker or (is_text_of_key and column.wire is Wire.STRING)):
        return None
    return F.coalesce(is_placeholder(value, column, placeholder), F.lit(False))
