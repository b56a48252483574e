"""Parses Avro schemas that were read as JSON, and resolves their names.

A registry may answer anything: whatever is not a schema of
https://avro.apache.org/docs/1.12.0/specification/ raises `AvroSchemaError`, and nothing is
nested deeper, or expands to more, than Spark's client and server can take.

Names follow Avro's Java parser: a name without a dot belongs to the enclosing namespace, else to
none; referenced schemas are parsed first. A name may be defined again if the definition is equal.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, cast

from cdc_assets.changes.json_text import read_json
from cdc_assets.schema.avro_types import (
    Array,
    AvroSchema,
    AvroType,
    Enumeration,
    Field,
    Fixed,
    MapOf,
    Mention,
    Named,
    Props,
    Record,
    Scalar,
    Union,
    fault,
    shortened,
)

MAX_DEPTH: Final = 24
"""Nesting levels of records, arrays, maps and unions of several types. Spark 4.1's Python client
reads types of 28 levels and fails at 32."""

MAX_NODES: Final = 100_000
"""Number of types, where each mention of a named type counts as much as the type itself."""

JsonObject = Mapping[str, object]

_PRIMITIVES: Final = frozenset({
    "null", "boolean", "int", "long", "float", "double", "bytes", "string",
})  # fmt: skip
_STRUCTURE: Final = frozenset({
    "type", "name", "namespace", "fields", "items", "values", "symbols", "size",
})  # fmt: skip
_TOP: Final = "(top level)"
_LAST_OF_BASIC_PLANE: Final = "\uffff"


def read_avro(text: bytes | str) -> object:
    """Reads a schema's JSON, also if it was encoded once more as a JSON string.

    Raises:
        AvroSchemaError: if it is not JSON, or JSON that readers interpret differently.
    """
    found = read_json(text)
    if isinstance(found, str) and found.lstrip()[:1] in {"{", "[", '"'}:
        found = read_json(found)
    if found is None:
        raise fault(_TOP, "is no JSON")
    return found


def parse_avro(avro: object, references: Sequence[object] = ()) -> AvroSchema:
    """Returns the tree of a schema that was read as JSON.

    Args:
        avro: parsed JSON: text, lists, mappings, ….
        references: schemas that it refers to, each after those that it refers to itself.

    Raises:
        AvroSchemaError: if it is anything else.
    """
    parser = _Parser()
    for each in references:
        parser.type_of(each, "", "(referenced)", 0)
    root = parser.type_of(avro, "", _TOP, 0)
    parser.require_bounded(root)
    return AvroSchema(root, parser.named, frozenset(parser.recursive))


@dataclass(frozen=True, slots=True)
class _Measure:
    nodes: int
    depth: int


class _Parser:
    """One pass over schemas that share their names."""

    def __init__(self) -> None:
        self.named: dict[str, Named] = {}
        self.recursive: set[str] = set()
        self._open: list[str] = []
        self._measures: dict[str, _Measure] = {}

    def type_of(self, avro: object, space: str, place: str, depth: int) -> AvroType:
        """Returns the type at a place, within the enclosing namespace."""
        if depth > MAX_DEPTH:
            raise fault(place, f"is nested deeper than {MAX_DEPTH} levels")
        if isinstance(avro, str):
            return self._by_name(avro, {}, space, place)
        if isinstance(avro, list):
            return self._union(cast("list[object]", avro), space, place, depth)
        if isinstance(avro, dict):
            return self._object(cast("JsonObject", avro), space, place, depth)
        raise fault(place, "is neither a name nor a list nor an object")

    def require_bounded(self, root: AvroType) -> None:
        """Limits the expanded size: by mentions, a short text can expand to millions of fields."""
        found = self._measure(root)
        if found.depth > MAX_DEPTH:
            raise fault(_TOP, f"is nested deeper than {MAX_DEPTH} levels")
        if found.nodes > MAX_NODES:
            raise fault(_TOP, f"stands for more than {MAX_NODES:,} fields and types")

    def _object(self, avro: JsonObject, space: str, place: str, depth: int) -> AvroType:
        type_ = avro.get("type")
        if not isinstance(type_, str):
            raise fault(place, "has no type, or one that is no text")
        props = {key: value for key, value in avro.items() if key not in _STRUCTURE}
        match type_:
            case "record" | "error":
                return self._record(avro, props, space, place, depth)
            case "enum":
                name, _ = _full_name(avro, space, place)
                return self._define(Enumeration(name, _symbols(avro, place), props), place)
            case "fixed":
                name, _ = _full_name(avro, space, place)
                return self._define(Fixed(name, _size(avro, place), props), place)
            case "array":
                items = self.type_of(avro.get("items"), space, f"{place}[]", depth + 1)
                return Array(items, props)
            case "map":
                values = self.type_of(avro.get("values"), space, f"{place}[]", depth + 1)
                return MapOf(values, props)
            case name:
                return self._by_name(name, props, space, place)

    def _by_name(self, name: str, props: Props, space: str, place: str) -> AvroType:
        if name in _PRIMITIVES:
            return Scalar(name, props)
        for full in (_joined(space, name), name):
            if full in self._open:
                self.recursive.update(self._open[self._open.index(full) :])
                return Mention(full)
            if full in self.named:
                return Mention(full)
        what = f"names {shortened(name)!r}, which is not defined before it"
        raise fault(place, what, "register the schema with its references, or without any")

    def _union(self, avro: list[object], space: str, place: str, depth: int) -> Union:
        if not avro or any(isinstance(each, list) for each in avro):
            raise fault(place, "is a union of nothing, or of a union")
        branches = tuple(self.type_of(each, space, place, depth) for each in avro)
        kinds = [_kind(each) for each in branches]
        if len(set(kinds)) < len(kinds):
            raise fault(place, "is a union that has a type twice")
        return Union(branches)

    def _record(
        self, avro: JsonObject, props: Props, space: str, place: str, depth: int
    ) -> Mention:
        name, inner = _full_name(avro, space, place)
        given = avro.get("fields")
        if not isinstance(given, list):
            raise fault(place, "is a record without a list of fields")
        with self._opened(name, place):
            found = cast("list[object]", given)
            fields = tuple(self._field(each, inner, place, depth + 1) for each in found)
        if len({each.name for each in fields}) < len(fields):
            raise fault(place, "is a record with two fields of one name")
        return self._define(Record(name, fields, props), place)

    def _field(self, given: object, space: str, place: str, depth: int) -> Field:
        if not isinstance(given, dict):
            raise fault(place, "has a field that is no object")
        field = cast("JsonObject", given)
        name = field.get("name")
        if not (isinstance(name, str) and is_name(name)):
            what = f"has a field whose name Avro does not allow: {shortened(name)!r}"
            raise fault(place, what, "set field.name.adjustment.mode: avro at the connector")
        inner = name if place.startswith("(") else f"{place}.{name}"
        props = {key: value for key, value in field.items() if key not in {"name", "type"}}
        return Field(name, self.type_of(field.get("type"), space, inner, depth), props)

    @contextmanager
    def _opened(self, name: str, place: str) -> Generator[None]:
        if name in self._open:
            raise fault(place, f"defines {shortened(name)!r} within itself")
        self._open.append(name)
        yield
        self._open.pop()

    def _define(self, node: Named, place: str) -> Mention:
        if self.named.setdefault(node.name, node) != node:
            raise fault(place, f"defines {shortened(node.name)!r} a second time, differently")
        children = [each.type for each in node.fields] if isinstance(node, Record) else []
        found = [self._measure(each) for each in children]
        self._measures[node.name] = _enclosing(found)
        return Mention(node.name)

    def _measure(self, node: AvroType) -> _Measure:
        """Measures a type; definitions are measured at their end, so an open one counts as 0."""
        match node:
            case Mention():
                return self._measures.get(node.name, _Measure(1, 0))
            case Array():
                return _enclosing([self._measure(node.items)])
            case MapOf():
                return _enclosing([self._measure(node.values)])
            case Union():
                found = [self._measure(each) for each in node.branches]
                several = _enclosing(found)
                inner = max(each.depth for each in found)
                return several if len(node.values) > 1 else _Measure(several.nodes, inner)
            case Scalar():
                return _Measure(1, 0)


def is_name(text: str) -> bool:
    """Returns whether Avro's Java library accepts it as the name of a field or symbol.

    Letters, digits and underscores: of every script, not beginning with a digit, none beyond
    U+FFFF.
    """
    return bool(text) and all(
        char == "_"
        or (
            char <= _LAST_OF_BASIC_PLANE
            and (_is_letter(char) or (place > 0 and unicodedata.category(char) == "Nd"))
        )
        for place, char in enumerate(text)
    )


def _is_letter(char: str) -> bool:
    return unicodedata.category(char).startswith("L")


def _kind(node: AvroType) -> str:
    """Returns the kind of which a union may contain only one."""
    match node:
        case Scalar():
            return node.type
        case Mention():
            return f"named {node.name}"
        case _:
            return type(node).__name__


def _enclosing(found: Sequence[_Measure]) -> _Measure:
    nodes = 1 + sum(each.nodes for each in found)
    return _Measure(min(nodes, MAX_NODES + 1), 1 + max((each.depth for each in found), default=0))


def _full_name(avro: JsonObject, space: str, place: str) -> tuple[str, str]:
    """Returns the full name of a definition, and the namespace of its contents."""
    name, given = avro.get("name"), avro.get("namespace")
    if not isinstance(name, str) or not name.strip("."):
        raise fault(place, "is a named type without a name")
    if "." in name:
        return name, name.rpartition(".")[0]
    inner = given if isinstance(given, str) else space
    return _joined(inner, name), inner


def _joined(space: str, name: str) -> str:
    return f"{space}.{name}" if space and "." not in name else name


def _symbols(avro: JsonObject, place: str) -> tuple[str, ...]:
    given = avro.get("symbols")
    found = cast("list[object]", given) if isinstance(given, list) else [None]
    symbols = tuple(each for each in found if isinstance(each, str) and is_name(each))
    if len(set(symbols)) < len(found):
        raise fault(place, "is an enum whose symbols are not names, each once")
    return symbols


def _size(avro: JsonObject, place: str) -> int:
    size = avro.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise fault(place, "is fixed without a size")
    return size
