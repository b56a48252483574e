"""Calls the functions that read records (``jvm/src``).

Spark finds them in a catalog of functions. A function's name is its result type, or its task in
JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from cdc_assets.decode.jar import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql.types import StructField, StructType

UNLIKE: Final = "__unlike"
SORTED: Final = {"sorted": True}
"""Metadata of a text whose values may be objects: their fields are sorted by name."""
UTF8: Final = "__utf8"
"""Among the fields of a record in Avro, names of those whose texts must be UTF-8."""
NOT_UTF8: Final = "__not_utf8"
"""The last field of such a record as it is read: the first of them with another text, or NULL."""
ALONE: Final = "alone"
"""Metadata of the only field of a key that may be the key itself: ``text`` or ``any`` scalar."""


def read_json(document: Expression, kind: StructType, *, wrapped: bool = False) -> Expression:
    """Returns ``struct<payload, unreadable>``: the document, and why it cannot be read.

    ``payload`` is NULL for JSON's null, and for what is no JSON; ``unreadable`` is NULL for a
    document that is as expected, and for none at all. A value that does not fit its type is NULL
    and makes the document unreadable. What a converter writes around a value without a schema,
    ``{"schema": null, "payload": …}``, is taken off. Nothing raises on any bytes.

    Args:
        document: bytes.
        kind: of the document; structs in it may be `compared`.
        wrapped: whether that is the field ``payload`` of the document, which must have it.
    """
    return _called("payload" if wrapped else "json", kind, document)


def read_avro(
    schema: str, data: Expression, *, fields: Mapping[str, object] | None = None, bare: Expression
) -> Expression:
    """Returns the wanted fields of a record in Avro, in the types of `AvroReader` (``avro/``).

    Bytes that are not of the schema, or are cut off, give a struct of NULLs; bytes that follow are
    passed over. NULL for no bytes. Nothing raises on any bytes.

    Args:
        schema: of `cdc_assets.schema.avro_wire`.
        data: bytes, which begin with a schema's id.
        fields: that are read, by name, each with those of a record in it; none for all of them.
            See `UTF8`.
        bare: whether there is no id before the data.
    """
    wanted = {"schema": json.loads(schema), "fields": fields or {}}
    return _called("avro", wanted, data, bare)


def read_key(key: Expression, kind: StructType) -> Expression:
    """Returns a record's key as a struct; NULL for one that is no such object in JSON.

    A schema may be around it: ``schema`` as the first field, and a ``payload``. Nothing raises on
    any bytes.

    Args:
        key: bytes.
        kind: of the key; its only field may be `ALONE`.
    """
    return _called("key", kind, key)


def read_value(column: Mapping[str, object], value: Expression) -> Expression:
    """Returns what the lake stores of a value; NULL if that cannot be represented exactly.

    Args:
        column: what `cdc_assets.formats.values.arriving` tells of it.
        value: as it arrives.
    """
    return _called("value", column, value)


def read_change(wanted: Mapping[str, object], *parts: Expression) -> Expression:
    """Returns a struct with the parts of a change, see `cdc_assets.formats.change`.

    Args:
        wanted: what to decode, see ``Changes.java``.
        parts: of the record, see ``Change.java``.
    """
    return _called("change", wanted, *parts)


def counted(what: str, wanted: Mapping[str, object], *parts: Expression) -> Expression:
    """Returns true for each row, and counts the row: see ``figures/Counted.java``.

    Args:
        what: ``batch`` or ``fold``.
        wanted: what to count, and the ``id`` for `counted_result`.
        parts: of each row, none of which is computed by the driver.
    """
    return _called(what, wanted, *parts)


def counted_result(what: str, id_: str, rows: Expression) -> Expression:
    """Returns the `counted` result in JSON; NULL unless the result covers exactly these rows.

    Args:
        what: the kind of the count.
        id_: the ``id`` of the count, as given to `counted`.
        rows: an aggregate, observed by the frame whose rows were counted.
    """
    from pyspark.sql import functions as F

    return F.call_function(f"{CATALOG}.told.{what}.{_quoted(id_)}", rows)


def called(name: str, *parts: Expression) -> Expression:
    """Calls one of our functions with a struct of these parts.

    A struct marks each NULL part itself. Without a struct, Spark's generated code may hand over the
    previous record's value for an argument that is NULL.
    """
    from pyspark.sql import functions as F

    return F.call_function(
        f"{CATALOG}.{name}", F.struct(*(each.alias(f"p{n}") for n, each in enumerate(parts)))
    )


def _called(
    namespace: str, wanted: StructType | Mapping[str, object], *parts: Expression
) -> Expression:
    name = _text(wanted) if isinstance(wanted, Mapping) else wanted.json()
    return called(f"{namespace}.{_quoted(name)}", *parts)


def _text(wanted: Mapping[str, object]) -> str:
    return json.dumps(wanted, separators=(",", ":"))


def _quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def compared(
    fields: Iterable[StructField],
    *,
    known: Iterable[str] = (),
    expected: Iterable[str] = (),
    once: Mapping[str, str] | None = None,
) -> StructType:
    """Returns a struct that also tells in `UNLIKE` how an object's fields differ from these.

    That is ``struct<unknown, missing, absent: array<string>, twice: boolean>``: names that are
    neither these nor known, those of these that the object lacks, expected names that it lacks, and
    whether a name is there twice. It is NULL for an object with just these fields, and for one with
    these and known ones.

    Args:
        fields: that are read.
        known: names of others that an object may have.
        expected: names that an object should have.
        once: present names by former ones: with either a name is not absent.
    """
    from pyspark.sql.types import ArrayType, BooleanType, StringType, StructField, StructType

    names = ArrayType(StringType())
    lacking = [StructField(name, names) for name in ("unknown", "missing", "absent")]
    unlike = StructType([*lacking, StructField("twice", BooleanType())])
    pairs = [name for pair in (once or {}).items() for name in pair]
    lists = {"known": [*known], "expected": [*expected], "once": pairs}
    counts = {name: each for name, each in lists.items() if each}
    return StructType([*fields, StructField(UNLIKE, unlike, metadata=counts)])
