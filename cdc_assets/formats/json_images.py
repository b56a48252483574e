"""Reads rows within untyped JSON messages: their fields, and the reason a message is unreadable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField

from cdc_assets.changes.names import TableName
from cdc_assets.decode import SORTED, compared
from cdc_assets.formats.envelope import Image
from cdc_assets.formats.flat import any_of
from cdc_assets.formats.record_json import (
    NOT_KEPT,
    PAYLOAD,
    compared_with,
    misfits,
    parsed,
    unread,
)
from cdc_assets.formats.spec import ReadSpec
from cdc_assets.formats.values import wire_type
from cdc_assets.schema.types import Column, Primitive, Wire


def message_of(
    columns: Mapping[str, tuple[Column, ...]], other_fields: Sequence[str], spec: ReadSpec
) -> Expression:
    """Returns a message as from `parsed`, its scalars as text, numbers with all their digits.

    Objects and arrays are kept in columns of type JSON, and as text in those whose type is guessed.

    Args:
        columns: the columns of each image.
        other_fields: other fields, read as text.
        spec: the table's.
    """
    fields = (StructField(name, StringType()) for name in other_fields)
    images = (
        StructField(name, compared_with(map(_field, each), spec)) for name, each in columns.items()
    )
    return parsed(compared([*fields, *images]), spec)


def _field(column: Column) -> StructField:
    may_be_json = column.wire is Wire.SCALAR and column.type is Primitive.STRING
    return StructField(column.name, wire_type(column), metadata=SORTED if may_be_json else None)


def body_of(document: Expression) -> Expression:
    """Returns the message of a document from `message_of`."""
    return document.getField(PAYLOAD)


def image_of(document: Expression, name: str) -> Image:
    """Returns a row image of a document from `message_of`."""
    return Image(body_of(document).getField(name))


def rejection(document: Expression, images: Iterable[str]) -> Expression:
    """Returns the reason why a record cannot be read as a message; NULL if it can.

    It is the same for all tables of a topic: a message that can be read may be another table's.

    Args:
        document: from `message_of`.
        images: the names of its images.
    """
    body = body_of(document)
    objects = (body, *(body.getField(each) for each in images))
    return F.coalesce(
        F.when(F.col("value").isNull(), "it has no value"),
        F.nullif(unread(document), F.lit(NOT_KEPT)),
        F.when(body.isNull(), "not a JSON object").when(
            any_of(misfits(each).getField("twice") for each in objects), "a field is there twice"
        ),
    )


def unkept(document: Expression) -> Expression:
    """Returns the reason why a message of this table cannot be kept; NULL if it can."""
    return F.when(unread(document) == NOT_KEPT, NOT_KEPT)


def other_table(
    database: Expression, name: Expression, table: TableName, is_change: Expression
) -> Expression:
    """Returns the table that a message belongs to, if it names a table other than this one.

    The owner of a change that names no table, or half of one, is unknown: every table refuses it.
    """
    other = (database != table.schema) | (name != table.name)
    is_named = F.coalesce((database != "") & (name != ""), F.lit(False))
    is_nameless = F.coalesce(is_change & ~is_named, F.lit(False))
    named = F.when(is_change, F.concat_ws(".", database, name)).otherwise("")
    return F.when(F.coalesce(other & ~is_nameless, F.lit(False)), named)
