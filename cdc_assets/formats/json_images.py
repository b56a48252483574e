"""Reads rows within untyped JSON messages: their fields, and the reason a message is unreadable."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from cdc_assets.changes.names import TableName
from cdc_assets.formats.envelope import Image, if_any, no_text
from cdc_assets.formats.flat import any_of
from cdc_assets.formats.lacking import named_now, texts
from cdc_assets.formats.record_json import (
    PAYLOAD,
    is_readable,
    parsed,
    unread,
    value_text,
    within_object,
)
from cdc_assets.formats.spec import ReadSpec, wire_struct
from cdc_assets.schema.types import Column, Primitive, Wire

_DIGITS: Final = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
_TEXT_OR_NUMBER: Final = rf'(?s)"((?:[^"\\]++|\\(?:.|\z))*+)(?:"|\z)|({_DIGITS})'
"""A text without an end is one, too: it would be looked for from each of its escaped quotes on. The
record stays unreadable, since the object around the text has no end either."""

_JSON: Final = "json"
_NAMES: Final = "names"
_ALL: Final = "__all"
_READ: Final = "read"
_COMPOUND: Final = r"^(?:OBJECT|ARRAY)\b"


def message_of(
    columns: Mapping[str, tuple[Column, ...]], beside: Sequence[str], spec: ReadSpec
) -> Expression:
    """Returns ``struct<read, json, names>``, the first two as from `parsed`.

    Spark reads a number as text by way of a double, and loses digits of decimals; numbers are
    therefore quoted before they are read. Columns of type JSON are read unquoted, into ``json``;
    so are texts, which may be JSON all the same, of messages that may hold objects or arrays.
    ``names`` holds the fields of the message and of each image, as written. Anything after a
    message makes it unreadable.

    Args:
        columns: the columns of each image.
        beside: other fields, read as text.
        spec: the table's.
    """
    fields = (StructField(name, StringType()) for name in beside)
    images = (StructField(name, wire_struct(_scalars(each))) for name, each in columns.items())
    read = parsed(within_object(numbers_quoted()), StructType([*fields, *images]), spec)
    named = (
        F.json_object_keys(F.get_json_object(value_text(), f"$.{name}")).alias(name)
        for name in columns
    )
    names = F.struct(F.json_object_keys(value_text()).alias(_ALL), *named)
    nested = {name: mine for name, each in columns.items() if (mine := _nested(each))}
    also = F.lit(None)
    if nested:
        kind = StructType([StructField(name, wire_struct(each)) for name, each in nested.items()])
        also = parsed(within_object(value_text()), kind, spec)
        also = F.when(_may_be_nested(columns), also)
    return F.struct(read.alias(_READ), also.alias(_JSON), names.alias(_NAMES))


def numbers_quoted() -> Expression:
    """Returns the value as text, with every number as the text of its digits."""
    return F.regexp_replace(value_text(), _TEXT_OR_NUMBER, '"$1$2"')


def body_of(document: Expression) -> Expression:
    """Returns the message of a document from `message_of`."""
    return document.getField(_READ).getField(PAYLOAD)


def is_message(document: Expression) -> Expression:
    """Returns whether it could be read."""
    return is_readable(document.getField(_READ))


def image_of(document: Expression, name: str) -> Image:
    """Returns a row image of a document from `message_of`."""
    image = body_of(document).getField(name)

    def value(column: Column) -> Expression:
        also = document.getField(_JSON).getField(PAYLOAD)
        if column.wire is Wire.JSON:
            found = also.getField(name).getField(column.name)
            return F.when(~F.is_variant_null(found), found)
        text = image.getField(column.name)
        if not _may_be_json(column):
            return text
        found = also.getField(name).getField(column.name)
        is_compound = F.schema_of_variant(found).rlike(_COMPOUND)
        return F.when(is_compound, F.to_json(found)).otherwise(text)

    return Image(image.isNotNull(), value)


def _scalars(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    return tuple(each for each in columns if each.wire is not Wire.JSON)


def _nested(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Returns the columns whose values may be objects or arrays, as such."""
    found = (each for each in columns if each.wire is Wire.JSON or _may_be_json(each))
    return tuple(replace(each, wire=Wire.JSON) for each in found)


def _may_be_json(column: Column) -> bool:
    """Returns whether nothing tells that its values are no JSON: text, when it was guessed."""
    return column.wire is Wire.SCALAR and column.type is Primitive.STRING


def _may_be_nested(columns: Mapping[str, tuple[Column, ...]]) -> Expression:
    """Returns whether a message may hold an object or array other than its images."""
    every = [column for each in columns.values() for column in each]
    named = {column.name for column in every} & columns.keys()
    if named or any(each.wire is Wire.JSON for each in every):
        return F.lit(True)
    return value_text().rlike(_compound_beside(columns))


def _compound_beside(images: Iterable[str]) -> str:
    """Returns the pattern of the begin of an object or array other than an image."""
    outer = "".join(rf'(?<!"{re.escape(name)}")' for name in images)
    return rf"{outer}(?<!\s):\s*+[\[{{]|\s:\s*+[\[{{]"


def names_in(document: Expression, image: str) -> Expression:
    """Returns the names of an image's fields; NULL if it is not an object."""
    return document.getField(_NAMES).getField(image)


def has_name(names: Expression, name: str) -> Expression:
    """Returns whether the name is among these; false if there are none."""
    return F.coalesce(F.array_contains(names, name), F.lit(False))


def lacking(names: Expression, spec: ReadSpec) -> Expression:
    """Returns the expected columns that are not among these names; NULL if all are."""
    lacks = F.array_except(texts(spec.expected), named_now(names, spec))
    return F.when(F.size(lacks) > 0, lacks)


def strange(names: Expression, spec: ReadSpec) -> Expression:
    """Returns the fields that the table does not have; NULL if there are none."""
    known = texts((*spec.schema.names, *spec.target.left_out))
    return if_any(F.array_except(names, known))


def rejection(document: Expression, columns: Mapping[str, tuple[Column, ...]]) -> Expression:
    """Returns the reason why a record cannot be read as a message; NULL if it can.

    It is the same for all tables of a topic: a message that can be read may be another table's.

    Args:
        document: from `message_of`.
        columns: those given to `message_of`.
    """
    names = (names_in(document, each) for each in (_ALL, *columns))
    return F.coalesce(
        F.when(F.col("value").isNull(), "it has no value"),
        unread(document.getField(_READ)),
        F.when(body_of(document).isNull(), "not a JSON object").when(
            any_of(map(_has_twice, names)), "a field is there twice"
        ),
    )


def unkept(document: Expression, columns: Mapping[str, tuple[Column, ...]]) -> Expression:
    """Returns the reason why a message of this table cannot be kept; NULL if it can.

    Args:
        document: from `message_of`.
        columns: those given to `message_of`.
    """
    if not any(map(_nested, columns.values())):
        return no_text()
    is_kept = is_readable(document.getField(_JSON)) | ~_may_be_nested(columns)
    return F.when(~is_kept, "a value of type JSON that cannot be kept")


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


def _has_twice(names: Expression) -> Expression:
    return F.size(names) != F.size(F.array_distinct(names))
