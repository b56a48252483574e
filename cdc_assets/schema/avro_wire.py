"""Rewrites Avro schemas for Spark: same bytes, without what would change or stop their reading.

Our function for Spark (`cdc_assets.decode.read_avro`) reads each record by such a schema. It has
logical types and names of records no more, and these shapes are refused, as they would affect more
than their own record:

- two fields whose names differ by case only: a session may not tell them apart;
- a record that contains itself: no type of Spark's does, and a value that is nested 10,000 times
  would overflow the stack, and end the query with it;
- a list whose items take no bytes: ten bytes can announce two billion items;
- a fixed type of many megabytes;
- more than 28 levels, see `cdc_assets.schema.avro_parse.MAX_DEPTH`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from cdc_assets.schema.avro_parse import parse_avro
from cdc_assets.schema.avro_types import (
    Array,
    AvroSchema,
    AvroType,
    Enumeration,
    Fixed,
    MapOf,
    Props,
    Record,
    Scalar,
    Union,
    fault,
)

MAX_FIXED_BYTES: Final = 1 << 24
"""Size of one value; no record is as large."""

_LEAVE_OUT: Final = "leave the column out at the connector (column.exclude.list)"


def wire_schema(avro: object) -> str:
    """Returns the JSON text of a schema with the same binary layout, safe for Spark.

    It has no logical types, defaults, aliases, documentation or Connect's properties, and names of
    our own for records, enums and fixed types. Fields and symbols keep their names, which consist
    of letters, digits and underscores. Schemas that differ in nothing else have the same text.

    Spark then gives: ``int``, ``bigint``, ``float``, ``double``, ``boolean``, ``string`` (also of
    enums, and not always UTF-8), ``binary`` (also of fixed types), arrays, maps, structs. A union
    of a type with null is that type; of ``int`` and ``long``, or ``float`` and ``double``, the
    wider one; of several others a struct ``member0``, ``member1``, …; ``null`` alone is ``void``.

    Raises:
        AvroSchemaError: if it is not an Avro schema, or has a shape that Spark must not be given.
    """
    schema = parse_avro(avro)
    _require_readable(schema)
    numbers = {name: f"t{number}" for number, name in enumerate(schema.named)}
    writer = _Writer(schema, numbers.__getitem__, lambda _: {})
    return json.dumps(writer.of(schema.root), separators=(",", ":"))


def self_contained(avro: object, references: Sequence[object]) -> object:
    """Returns the schema with its references written into it, each at its first mention.

    Args:
        avro: a schema, read as JSON.
        references: the schemas that it refers to, each after those that it refers to itself.

    Raises:
        AvroSchemaError: if one of them is not an Avro schema, or something is still missing.
    """
    schema = parse_avro(avro, references)
    _require_unambiguous(schema)
    return _Writer(schema, lambda name: name, dict).of(schema.root)


class _Writer:
    """Writes a schema as JSON: a named type in full at its first mention, then by its name."""

    def __init__(
        self,
        schema: AvroSchema,
        name: Callable[[str], str],
        props: Callable[[Props], dict[str, Any]],
    ) -> None:
        self._schema = schema
        self._name = name
        self._props = props
        self._written: set[str] = set()

    def of(self, node: AvroType) -> Any:
        """Returns the JSON of a type."""
        match self._schema.resolved(node):
            case Union(branches):
                return [self.of(each) for each in branches]
            case Scalar(type_, props):
                kept = self._props(props)
                return {**kept, "type": type_} if kept else type_
            case Array(items, props):
                return {**self._props(props), "type": "array", "items": self.of(items)}
            case MapOf(values, props):
                return {**self._props(props), "type": "map", "values": self.of(values)}
            case Record() | Enumeration() | Fixed() as named:
                return self._named(named)

    def _named(self, node: Record | Enumeration | Fixed) -> Any:
        name = self._name(node.name)
        if node.name in self._written:
            return name
        self._written.add(node.name)
        head = {**self._props(node.props), "name": name}
        if "." not in name:
            head["namespace"] = ""
        match node:
            case Fixed():
                return {**head, "type": "fixed", "size": node.size}
            case Enumeration():
                return {**head, "type": "enum", "symbols": list(node.symbols)}
            case Record():
                fields = [
                    {**self._props(each.props), "name": each.name, "type": self.of(each.type)}
                    for each in node.fields
                ]
                return {**head, "type": "record", "fields": fields}


def _require_unambiguous(schema: AvroSchema) -> None:
    """Refuses ambiguity: a name without a namespace may mean another one within a namespace."""
    last_parts = {name.rpartition(".")[2] for name in schema.named if "." in name}
    for name in schema.named:
        if name in last_parts:
            raise fault(name, "is defined both with and without a namespace")


def _require_readable(schema: AvroSchema) -> None:
    for name, node in schema.named.items():
        if name in schema.recursive:
            raise fault(name, "is a record that holds itself", _LEAVE_OUT)
        if isinstance(node, Fixed) and node.size > MAX_FIXED_BYTES:
            raise fault(name, f"is fixed to more than {MAX_FIXED_BYTES:,} bytes", _LEAVE_OUT)
        if isinstance(node, Record):
            _require_distinct(node)
            for field in node.fields:
                _require_bytes(schema, field.type, f"{name}.{field.name}")
    _require_bytes(schema, schema.root, "(top level)")


def _require_distinct(record: Record) -> None:
    """Requires distinct names of fields, as Spark compares names."""
    seen: dict[str, str] = {}
    for field in record.fields:
        other = seen.setdefault(field.name.lower(), field.name)
        if other != field.name:
            what = f"has the fields {other!r} and {field.name!r}, which Spark cannot tell apart"
            raise fault(record.name, what, _LEAVE_OUT)


def _require_bytes(schema: AvroSchema, node: AvroType, place: str) -> None:
    """Requires that a list's items take bytes; checks unnamed types within, and no others."""
    match node:
        case Array(items, _):
            if _takes_none(schema, items):
                raise fault(place, "is a list of items that take no bytes", _LEAVE_OUT)
            _require_bytes(schema, items, place)
        case MapOf(values, _):
            _require_bytes(schema, values, place)
        case Union(branches):
            for each in branches:
                _require_bytes(schema, each, place)
        case _:
            return


def _takes_none(schema: AvroSchema, node: AvroType) -> bool:
    """Returns whether a value may take no bytes. Not for records that contain themselves."""
    match schema.resolved(node):
        case Scalar(type_, _):
            return type_ == "null"
        case Fixed(_, size, _):
            return size == 0
        case Record(_, fields, _):
            return all(_takes_none(schema, each.type) for each in fields)
        case _:
            return False
