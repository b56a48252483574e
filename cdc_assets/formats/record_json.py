"""Parses a record's JSON on Spark, and gives the reason if it cannot be read.

Nothing here raises on any bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from cdc_assets.decode import UNLIKE, read_json
from cdc_assets.formats.lacking import texts
from cdc_assets.formats.spec import ReadSpec

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


def is_readable(document: Expression) -> Expression:
    """Returns whether the result of `parsed` could be read."""
    return document.isNotNull() & document.getField("unreadable").isNull()


def unread(document: Expression) -> Expression:
    """Returns the reason why a value from `parsed` is not readable JSON; NULL if it is."""
    return F.when(document.isNull(), NO_OBJECT).otherwise(document.getField("unreadable"))


def unlike(image: Expression) -> Expression:
    """Returns how the fields of an object read as `compared` differ; NULL if not at all."""
    return image.getField(UNLIKE)


def names_in(image: Expression, wanted: Sequence[str]) -> Expression:
    """Returns the names of all fields of an object that was read as `compared`; NULL without one.

    Args:
        image: the object.
        wanted: the names it was compared with.
    """
    there, odd = texts(wanted), unlike(image)
    missing, more = odd.getField("missing"), odd.getField("unknown")
    there = F.when(missing.isNotNull(), F.array_except(there, missing)).otherwise(there)
    found = F.when(more.isNotNull(), F.concat(there, more)).otherwise(there)
    return F.when(image.isNotNull(), found)


def has_name(image: Expression, name: str) -> Expression:
    """Returns whether an object that was read as `compared` has a field that is one of these."""
    lacks = F.coalesce(F.array_contains(unlike(image).getField("missing"), name), F.lit(False))
    return image.isNotNull() & ~lacks


def found_here(value: Expression, spec: ReadSpec) -> Expression:
    """Marks a value as non-deterministic for Spark, so that it is evaluated where it stands.

    Otherwise Spark pushes a condition on a change below the parsing, into the scan of the records,
    and each part of the condition that uses the document parses it again: with 1,500 columns a
    record was parsed some thousand times.
    """
    return F.when(F.spark_partition_id() >= 0, value) if spec.parse_here else value
