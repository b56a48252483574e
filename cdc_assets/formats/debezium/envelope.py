"""Builds the struct of an envelope and reads it, for both JSON and Avro."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from cdc_assets.formats.debezium.named import FIELDS, SCHEMAS, TABLES
from cdc_assets.formats.envelope import OmittedValues, no_text
from cdc_assets.formats.order import Order
from cdc_assets.formats.spec import ROW_OPS, ReadSpec, wire_struct
from cdc_assets.schema.types import Column, Wire

_SOURCE: Final = (
    StructField("ts_ms", LongType()),
    StructField("ts_us", LongType()),
    StructField("snapshot", StringType()),
)


NAMES: Final = StructType([StructField(name, StringType()) for name in FIELDS])
"""The fields of a ``source`` that name its table."""
_NAMELESS: Final = "its source names no table, as other records of the topic do"
_ELSEWHERE: Final = "it is of a table of this name in another database"

ORIGIN: Final = StructType([
    StructField("op", StringType()), StructField("source", NAMES),
])  # fmt: skip
"""The parts of an envelope that tell whose change it is."""

RowType = Callable[[tuple[Column, ...]], StructType]
"""A function from the columns of a row, or of a key, to their struct type in a record."""


def source_type(order: Order, spec: ReadSpec | None = None) -> StructType:
    """Returns the fields that are read of an envelope's ``source``.

    Args:
        order: of the changes.
        spec: of the table; None to read nothing of its name.
    """
    names = () if spec is None or spec.own is None else NAMES
    return StructType([*_SOURCE, *order.fields, *names])


def with_owner(raw: DataFrame, origin: Expression) -> DataFrame:
    """Adds ``of_table``, ``is_delete`` and ``is_empty`` to raw records, see `Format.whose`.

    Args:
        raw: the records.
        origin: `ORIGIN` of each.
    """
    placed = raw.withColumn("origin", origin)
    named = table_named(F.col("origin").getField("source"))
    is_delete = F.coalesce(F.col("origin").getField("op") == "d", F.lit(False))
    said = F.rtrim(F.col("value").cast("string"))  # a tombstone that a converter has written
    is_nothing = (F.trim(said) == "null") | said.endswith('"payload":null}')
    op = F.col("origin").getField("op")
    is_empty = F.col("value").isNull() | (op.isNull() & F.coalesce(is_nothing, F.lit(False)))
    columns = {"of_table": named, "is_delete": is_delete, "is_empty": is_empty}
    return placed.withColumns(columns).drop("origin")


def table_named(source: Expression) -> Expression:
    """Returns ``schema.table`` of the table that a ``source`` names; NULL if it names none."""
    return F.concat(_first(source, SCHEMAS), F.lit("."), _first(source, TABLES))


def other_table(source: Expression, spec: ReadSpec) -> Expression:
    """Returns the other table that a ``source`` names; NULL if it names this one, or none."""
    if spec.own is None:
        return no_text()
    schema, table = _first(source, SCHEMAS), _first(source, TABLES)
    is_other = (schema != spec.own.table.schema) | (table != spec.own.table.name)
    return F.when(is_other, table_named(source))


def misnamed(op: Expression, source: Expression, spec: ReadSpec) -> Expression:
    """Returns the reason why a change is not known to be this table's; NULL if it may be."""
    if spec.own is None:
        return no_text()
    reason = no_text()
    if spec.layout.database:
        reason = F.when(source.getField("db") != spec.layout.database, _ELSEWHERE)
    if spec.own.is_named:
        is_change = op.isin(*ROW_OPS, "d", "t")
        is_nameless = _first(source, SCHEMAS).isNull() | _first(source, TABLES).isNull()
        nameless = F.when(is_change & is_nameless, _NAMELESS)
        reason = F.coalesce(reason, nameless)
    return reason


def _first(source: Expression, names: tuple[str, ...]) -> Expression:
    return F.coalesce(*(F.nullif(source.getField(name), F.lit("")) for name in names))


def envelope_type(spec: ReadSpec, row: RowType = wire_struct) -> StructType:
    """Returns the fields that are read of an envelope."""
    envelope = StructType(
        [
            StructField("before", row(spec.before_columns)),
            StructField("after", row(spec.schema.columns)),
            StructField("source", source_type(spec.order, spec)),
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


def left_out(spec: ReadSpec, placeholder: str) -> OmittedValues:
    """Returns which values may be the placeholder.

    The columns of a configured key may be large, whatever is known about them.
    """

    def may_be(column: Column) -> bool:
        is_text_of_key = spec.layout.split_keys and column.name in spec.schema.key
        return column.unchanged_marker or (is_text_of_key and column.wire is Wire.STRING)

    return OmittedValues(may_be, placeholder)
