"""Finds texts that are not UTF-8 anywhere within a value of Avro.

Spark's reader accepts them, and its JSON silently replaces what it cannot decode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats.flat import any_of


def has_broken_text(value: Expression, schema: Any, named: Mapping[str, Any]) -> Expression:
    """Returns whether there is such a text in a value; NULL counts as false.

    Args:
        value: as Spark reads it.
        schema: its type, as `cdc_assets.schema.avro_wire` writes it, which does not contain itself.
        named: the named types.
    """

    def within(inner: Expression, type_: Any) -> Expression:
        return has_broken_text(inner, type_, named)

    def in_items(items: Expression, type_: Any) -> Expression:
        return F.exists(items, lambda item: F.coalesce(within(item, type_), F.lit(False)))

    match named.get(schema, schema) if isinstance(schema, str) else schema:
        case "string":
            return ~F.is_valid_utf8(value)
        case list() as union:
            return _in_union(value, [each for each in union if each != "null"], named)
        case {"type": "array", "items": items}:
            return in_items(value, items)
        case {"type": "map", "values": values}:
            keys = in_items(F.map_keys(value), "string")
            return any_of((keys, in_items(F.map_values(value), values)))
        case {"type": "record", "fields": fields}:
            return any_of(within(value.getField(each["name"]), each["type"]) for each in fields)
        case _:
            return F.lit(False)


def _in_union(value: Expression, types: list[Any], named: Mapping[str, Any]) -> Expression:
    """Looks into a union; of several types, Spark makes a struct of ``member0``, ``member1``, …."""
    if len(types) == 1:
        return has_broken_text(value, types[0], named)
    return any_of(
        has_broken_text(value.getField(f"member{place}"), type_, named)
        for place, type_ in enumerate(types)
        if not _is_number(type_)
    )


def _is_number(schema: Any) -> bool:
    return schema in ("int", "long", "float", "double")
