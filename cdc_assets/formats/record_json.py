"""Parses a record's JSON on Spark, and gives the reason if it cannot be read.

Nothing here raises on any bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from cdc_assets.decode import UNLIKE, compared, read_json
from cdc_assets.formats.spec import ReadSpec
from cdc_assets.schema.types import Column

PAYLOAD: Final = "payload"
NO_OBJECT: Final = "not a JSON object of the expected shape and types"
NOT_KEPT: Final = "a value of type JSON that cannot be kept"


def value_text() -> Expression:
    """Returns the value as text."""
    return F.col("value").cast("string")


def key_text() -> Expression:
    """Returns the key as text."""
    return F.col("key").cast("string")


def parsed(payload: StructType, spec: ReadSpec, *, wrapped: bool = False) -> Expression:
    """Parses the value, see `cdc_assets.decode.read_json`.

    Args:
        payload: what is read of it.
        spec: of the table.
        wrapped: whether that is in the value's field ``payload``.
    """
    return read_json(found_here(F.col("value"), spec), payload, wrapped=wrapped)


def unread(document: Expression) -> Expression:
    """Returns why a value from `parsed` is not readable JSON; NULL if the value is readable."""
    return document.getField("unreadable")


def is_nothing(document: Expression) -> Expression:
    """Whether a record has no value, or the JSON value ``null``, with or without a schema."""
    return unread(document).isNull() & document.getField(PAYLOAD).isNull()


def compared_with(
    fields: Iterable[StructField],
    spec: ReadSpec,
    other_fields: Sequence[str] = (),
    must: Sequence[str] = (),
) -> StructType:
    """Returns the struct of a row, compared with the table's columns.

    Args:
        fields: that are read.
        spec: of the table.
        other_fields: fields of a row that are no columns.
        must: columns that are expected in addition to `ReadSpec.expected`.
    """
    known = (*spec.schema.names, *spec.target.left_out, *other_fields)
    return compared(fields, known=known, expected=(*spec.expected, *must), once=spec.present_names)


def misfits(image: Expression) -> Expression:
    """Returns how the fields of an object read as `compared` differ; NULL if not at all."""
    return image.getField(UNLIKE)


def lacking(image: Expression, columns: Iterable[Column]) -> Expression:
    """Returns the names that an object read as `compared` lacks: all of these if there is none."""
    every = F.array(*(F.lit(each.name) for each in columns)).cast("array<string>")
    return F.when(image.isNull(), every).otherwise(misfits(image).getField("missing"))


def has_name(image: Expression, name: str) -> Expression:
    """Whether an object that was read as `compared` has a field that is one of these."""
    lacks = F.coalesce(F.array_contains(misfits(image).getField("missing"), name), F.lit(False))
    return image.isNotNull() & ~lacks


def found_here(value: Expression, spec: ReadSpec) -> Expression:
    """Marks a value as non-deterministic for Spark, so that it is evaluated where it stands.

    Otherwise Spark pushes a condition on a change below the parsing, into the scan of the records,
    and each part of the condition that uses the document parses it again: with 1,500 columns a
    record was parsed some thousand times.
    """
    return F.when(F.spark_partition_id() >= 0, value) if spec.parse_here else value
