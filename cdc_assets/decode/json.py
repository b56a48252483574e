"""Calls the function that reads a JSON document in one pass (``jvm/src``).

Spark finds it in a catalog of functions, whose names are the types that they return.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from cdc_assets.decode.jar import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql.types import StructField, StructType

UNLIKE: Final = "__unlike"
SORTED: Final = {"sorted": True}
"""Metadata of a text whose values may be objects: their fields are sorted by name."""


def read_json(document: Expression, kind: StructType, *, wrapped: bool = False) -> Expression:
    """Returns ``struct<payload, unreadable>``: the document, and why it cannot be read.

    ``payload`` is NULL for JSON's null, and for what is no JSON; ``unreadable`` is NULL for a
    document that is as expected. A value that does not fit its type is NULL and makes the document
    unreadable. Nothing raises on any bytes.

    Args:
        document: bytes.
        kind: of the document; structs in it may be `compared`.
        wrapped: whether that is the field ``payload`` of the document, which must have it.
    """
    from pyspark.sql import functions as F

    name, namespace = kind.json().replace("`", "``"), "payload" if wrapped else "json"
    return F.call_function(f"{CATALOG}.{namespace}.`{name}`", document)


def compared(fields: Iterable[StructField]) -> StructType:
    """Returns a struct that also tells in `UNLIKE` how an object's fields differ from these.

    That is ``struct<unknown: array<string>, missing: array<string>, twice: boolean>``: names that
    are none of these, those of these that the object lacks, and whether a name is there twice. It
    is NULL for an object with just these fields.
    """
    from pyspark.sql.types import ArrayType, BooleanType, StringType, StructField, StructType

    names = ArrayType(StringType())
    unlike = StructType([
        StructField("unknown", names), StructField("missing", names),
        StructField("twice", BooleanType()),
    ])  # fmt: skip
    return StructType([*fields, StructField(UNLIKE, unlike)])
