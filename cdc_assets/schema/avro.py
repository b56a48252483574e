"""Converts Avro writer schemas to Connect schemas, for `cdc_assets.schema.connect`.

Kafka Connect's converters write as properties what Avro cannot express: ``connect.name``,
``connect.parameters``, ``connect.type`` (int8, int16), ``connect.doc``. Where these exist, the
result is the schema that Connect had, so that Avro describes a table like an inline JSON schema
does. Read in confluentinc/schema-registry (``AvroData``, 5.x to 8.x) and
Apicurio/apicurio-registry (``utils/converter``, 2.x and 3.x), which differ in two points: Apicurio
writes neither ``precision`` nor ``scale`` for a decimal whose scale exceeds its precision, and
makes the namespace of structs without a name configurable.

Logical types count where Connect's name is missing. A column that contains itself is refused.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final, cast

from cdc_assets.schema.avro_parse import parse_avro
from cdc_assets.schema.avro_types import (
    Array,
    AvroSchema,
    AvroType,
    Enumeration,
    Field,
    Fixed,
    MapOf,
    Props,
    Record,
    Scalar,
    Union,
    fault,
)
from cdc_assets.schema.connect import ConnectSchema

_ENUM: Final = "io.debezium.data.Enum"
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_PRECISION: Final = "connect.decimal.precision"
_UNKNOWN_PRECISION: Final = 64
"""Written by both converters for a decimal whose precision Connect does not know."""

_NAMELESS: Final = re.compile(r"(.*\.)?ConnectDefault[0-9]*")
_SMALL_INTEGER: Final = re.compile(r"-?[0-9]{1,9}")
_KAFKA: Final = "org.apache.kafka.connect.data"
_TIME: Final = "io.debezium.time"
_LOGICAL: Final[dict[tuple[str, str], str]] = {
    ("int", "date"): f"{_KAFKA}.Date",
    ("int", "time-millis"): f"{_KAFKA}.Time",
    ("long", "time-micros"): f"{_TIME}.MicroTime",
    ("long", "timestamp-millis"): f"{_KAFKA}.Timestamp",
    ("long", "timestamp-micros"): f"{_TIME}.MicroTimestamp",
    ("long", "timestamp-nanos"): f"{_TIME}.NanoTimestamp",
    ("long", "local-timestamp-millis"): f"{_TIME}.Timestamp",
    ("long", "local-timestamp-micros"): f"{_TIME}.MicroTimestamp",
    ("long", "local-timestamp-nanos"): f"{_TIME}.NanoTimestamp",
    ("string", "uuid"): "io.debezium.data.Uuid",
    ("bytes", "big-decimal"): "big-decimal",
    ("fixed", "duration"): "duration",
}
"""Connect names by Avro's type and logical type. The last two are refused by these names."""

_OF_TYPE: Final[dict[str, frozenset[str]]] = {
    "int": frozenset({
        f"{_KAFKA}.Date", f"{_KAFKA}.Time", f"{_TIME}.Date", f"{_TIME}.Time", f"{_TIME}.Year",
    }),
    "long": frozenset({
        f"{_KAFKA}.Timestamp", f"{_TIME}.MicroDuration", f"{_TIME}.MicroTime",
        f"{_TIME}.MicroTimestamp", f"{_TIME}.NanoTime", f"{_TIME}.NanoTimestamp",
        f"{_TIME}.Timestamp",
    }),
    "bytes": frozenset({_DECIMAL, "io.debezium.data.Bits"}),
    "string": frozenset({
        _ENUM, "io.debezium.data.EnumSet", "io.debezium.data.Json", "io.debezium.data.Ltree",
        "io.debezium.data.Tsvector", "io.debezium.data.Uuid", "io.debezium.data.Xml",
        f"{_TIME}.Interval", f"{_TIME}.IsoDate", f"{_TIME}.IsoTime", f"{_TIME}.IsoTimestamp",
        f"{_TIME}.ZonedTime", f"{_TIME}.ZonedTimestamp",
    }),
    "record": frozenset({
        "io.debezium.data.VariableScaleDecimal", "io.debezium.data.geometry.Geography",
        "io.debezium.data.geometry.Geometry", "io.debezium.data.geometry.Point",
    }),
}  # fmt: skip
"""The Connect names that values of each Avro type may have."""

_KEYS: Final = {"type": "string", "optional": False}
_LITERALS: Final = {"int": "int32", "long": "int64"}
_SMALL_INTEGERS: Final = frozenset({"int8", "int16"})


def connect_schema(avro: object) -> ConnectSchema:
    """Returns the Connect schema that an Avro writer schema, read as JSON, was made from.

    A type without counterpart gets a type of its own, which `map_field` refuses by that word:
    ``union`` (of several types), ``map``, ``null``, ``record that holds itself``, ``int that is
    called …`` (a name of other types).

    Raises:
        AvroSchemaError: if it is not an Avro schema, or its Connect properties are malformed.
    """
    schema = parse_avro(avro)
    return _Connect(schema).of(schema.root, "(top level)")


class _Connect:
    """Converts the types of one schema to Connect's."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema

    def of(self, node: AvroType, place: str, *, optional: bool = False) -> dict[str, Any]:
        """Returns the Connect schema of a type at a place."""
        match self._schema.resolved(node):
            case Union() as union:
                return self._union(union, place)
            case Record() as record:
                kind, found = "record", self._struct(record, place)
            case Array(items, props):
                kind: str = "array"
                found: dict[str, Any] = {"items": self.of(items, f"{place}[]")}
                found |= {"type": kind, **_annotations(props, place)}
            case MapOf(values, props):
                kind, found = "map", {"values": self.of(values, f"{place}[]")}
                found |= {"type": kind, "keys": _KEYS, **_annotations(props, place)}
            case Enumeration(_, symbols, props):
                kind, found = "string", _enumeration(symbols, props, place)
            case Fixed(_, _, props):
                kind, found = "bytes", _plain("fixed", "bytes", props, place)
            case Scalar(kind, props):
                found = _plain(kind, _literal(kind, props), props, place)
        found = _contradiction(kind, found.get("name")) or found
        return {**found, "optional": optional or found["type"] == "null"}

    def _union(self, union: Union, place: str) -> dict[str, Any]:
        """Converts a union, nearly always of one type and null, in either order."""
        match union.values:
            case ():
                return {"type": "null", "optional": True}
            case (only,):
                return self.of(only, place, optional=union.is_optional)
            case _:
                return {"type": "union", "optional": union.is_optional}

    def _struct(self, record: Record, place: str) -> dict[str, Any]:
        if record.name in self._schema.recursive:
            return {"type": "record that holds itself"}
        annotations = _annotations(record.props, place)
        if "name" not in annotations and not _NAMELESS.fullmatch(record.name):
            annotations["name"] = record.name
        fields = [self._field(each, place) for each in record.fields]
        return {"type": "struct", "fields": fields, **annotations}

    def _field(self, field: Field, place: str) -> dict[str, Any]:
        inner = field.name if place.startswith("(") else f"{place}.{field.name}"
        found = self.of(field.type, inner)
        doc = field.props.get("doc")
        if "doc" not in found and isinstance(doc, str):
            found["doc"] = doc
        default = _default(field.props.get("default"), found)
        declared = {} if default is None else {"default": default}
        return {**found, **declared, "field": field.name}


def _default(value: object, schema: ConnectSchema) -> object:
    """Converts a default to Connect's JSON: Avro writes bytes as characters of their numbers."""
    if schema.get("type") != "bytes" or not isinstance(value, str):
        return value
    return b64encode(value.encode("latin-1", "replace")).decode()


def _plain(avro_type: str, literal: str, props: Props, place: str) -> dict[str, Any]:
    """Converts a type without parts; Connect's name, else the logical type, gives its meaning."""
    annotations = _annotations(props, place)
    logical = props.get("logicalType")
    if logical == "decimal" and avro_type in {"bytes", "fixed"}:
        annotations.setdefault("name", _DECIMAL)
        annotations["parameters"] = {**_digits(props, place), **_parameters(props, place)}
    elif isinstance(logical, str) and (avro_type, logical) in _LOGICAL:
        annotations.setdefault("name", _LOGICAL[avro_type, logical])
    if avro_type == "fixed" and annotations.get("name") == _DECIMAL:
        return {"type": "decimal of fixed size"}  # its sign extends over more bytes than needed
    return {"type": literal, **annotations}


def _enumeration(symbols: tuple[str, ...], props: Props, place: str) -> dict[str, Any]:
    """Converts an enumeration to text; unlike a string it is never an unchanged value's marker."""
    annotations = {"name": _ENUM, **_annotations(props, place)}
    annotations["parameters"] = {"allowed": ",".join(symbols), **_parameters(props, place)}
    return {"type": "string", **annotations}


def _literal(avro_type: str, props: Props) -> str:
    connect_type = props.get("connect.type")
    if avro_type == "int" and connect_type in _SMALL_INTEGERS:
        return str(connect_type)
    return _LITERALS.get(avro_type, avro_type)


def _annotations(props: Props, place: str) -> dict[str, Any]:
    """Returns ``name``, ``parameters`` and ``doc`` as the converters write them."""
    name, doc = props.get("connect.name"), props.get("connect.doc")
    if not (name is None or isinstance(name, str)):
        raise fault(place, "has a connect.name that is no text")
    parameters = _parameters(props, place)
    return {
        **({"name": name} if name else {}),
        **({"doc": doc} if isinstance(doc, str) else {}),
        **({"parameters": parameters} if parameters else {}),
    }


def _parameters(props: Props, place: str) -> dict[str, str]:
    """Returns parameters as texts; a decimal's have to be short numbers."""
    given = props.get("connect.parameters")
    found = cast("Mapping[str, object]", given if isinstance(given, dict) else {})
    texts = {name: each for name, each in found.items() if isinstance(each, str)}
    numbers = (texts[name] for name in ("scale", _PRECISION) if name in texts)
    if (
        not (given is None or isinstance(given, dict))
        or len(texts) < len(found)
        or not all(_SMALL_INTEGER.fullmatch(each) for each in numbers)
    ):
        raise fault(place, "has connect.parameters that are no texts, or no numbers where needed")
    return texts


def _digits(props: Props, place: str) -> dict[str, str]:
    """Returns a decimal's parameters; the converters' precision 64 means an unknown one."""
    scale, precision = props.get("scale", 0), props.get("precision", _UNKNOWN_PRECISION)
    for each in (scale, precision):
        if not isinstance(each, int) or isinstance(each, bool) or abs(each) >= 10**9:
            raise fault(place, "is a decimal whose precision or scale is no number")
    known = {} if precision == _UNKNOWN_PRECISION else {_PRECISION: str(precision)}
    return {"scale": str(scale), **known}


def _contradiction(avro_type: str, name: object) -> dict[str, Any] | None:
    """Refuses a Connect name on another name's Avro type, where it would misread the values."""
    wrong = any(name in names for type_, names in _OF_TYPE.items() if type_ != avro_type)
    return {"type": f"{avro_type} that is called {name}"} if wrong else None
