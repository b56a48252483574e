"""Maps Kafka Connect's inline schemas (``{"schema": …, "payload": …}``) to table schemas.

The schema's *name* decides the semantic type, never a value's magnitude: milli-, micro- and
nanoseconds share one literal type. Names were read in debezium/debezium 3.x
(``io.debezium.data``, ``io.debezium.time``) and Kafka's ``org.apache.kafka.connect.data``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from cdc_assets.schema import stand_ins
from cdc_assets.schema.described import Described
from cdc_assets.schema.existing import EMPTY
from cdc_assets.schema.stand_ins import StoredAs
from cdc_assets.schema.types import (
    Column,
    Decimal,
    ListOf,
    Primitive,
    StructOf,
    UnmappedColumn,
    Wire,
    WireDetail,
)

ConnectSchema = Mapping[str, Any]
"""A parsed schema: ``type``, ``optional``, ``name``, ``parameters``, ``fields``, ``items``, …."""

_LITERAL: Final[dict[str, tuple[Primitive, Wire]]] = {
    "boolean": (Primitive.BOOLEAN, Wire.BOOLEAN),
    "int8": (Primitive.INT, Wire.INT),
    "int16": (Primitive.INT, Wire.INT),
    "int32": (Primitive.INT, Wire.INT),
    "int64": (Primitive.LONG, Wire.LONG),
    "float": (Primitive.FLOAT, Wire.FLOAT),
    "float32": (Primitive.FLOAT, Wire.FLOAT),
    "double": (Primitive.DOUBLE, Wire.DOUBLE),
    "float64": (Primitive.DOUBLE, Wire.DOUBLE),
    "string": (Primitive.STRING, Wire.STRING),
    "bytes": (Primitive.BINARY, Wire.BYTES_BASE64),
}
_SEMANTIC: Final[dict[str, tuple[Primitive, Wire]]] = {
    "io.debezium.time.Date": (Primitive.DATE, Wire.EPOCH_DAYS),
    "io.debezium.time.Timestamp": (Primitive.TIMESTAMP, Wire.EPOCH_MILLIS),
    "io.debezium.time.MicroTimestamp": (Primitive.TIMESTAMP, Wire.EPOCH_MICROS),
    "io.debezium.time.NanoTimestamp": (Primitive.TIMESTAMP, Wire.EPOCH_NANOS),
    "io.debezium.time.ZonedTimestamp": (Primitive.TIMESTAMPTZ, Wire.ISO_ZONED),
    "io.debezium.time.Year": (Primitive.INT, Wire.INT),
    "org.apache.kafka.connect.data.Date": (Primitive.DATE, Wire.EPOCH_DAYS),
    "org.apache.kafka.connect.data.Timestamp": (Primitive.TIMESTAMP, Wire.EPOCH_MILLIS),
    "io.debezium.data.Enum": (Primitive.STRING, Wire.STRING),
    "io.debezium.data.EnumSet": (Primitive.STRING, Wire.STRING),
    "io.debezium.data.Json": (Primitive.STRING, Wire.STRING),
    "io.debezium.data.Ltree": (Primitive.STRING, Wire.STRING),
    "io.debezium.data.Tsvector": (Primitive.STRING, Wire.STRING),
    "io.debezium.data.Uuid": (Primitive.STRING, Wire.STRING),
    "io.debezium.data.Xml": (Primitive.STRING, Wire.STRING),
}
_SOURCE_TYPE: Final = "__debezium.source.column"
"""Prefix of the source type's parameters, which ``column.propagate.source.type`` adds."""

_DECIMAL_TYPES: Final = frozenset({"NUMERIC", "DECIMAL", "DECIMAL UNSIGNED"})
_SET: Final = "io.debezium.data.EnumSet"
_LABELLED: Final = frozenset({"io.debezium.data.Enum", _SET})
_MOST_OF_LABELS: Final = 20_000
"""Most characters of a list of labels: every statement that reads records contains the list."""
_FIXED_SIZE: Final = frozenset({"io.debezium.data.Enum", "io.debezium.data.Uuid"})
_DOCUMENT: Final = "io.debezium.data.Json"
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_PRECISION: Final = "connect.decimal.precision"
_SMALL_INTEGER: Final = re.compile(r"-?[0-9]{1,9}")
_STAND_INS: Final[dict[str, StoredAs]] = {
    "io.debezium.data.VariableScaleDecimal": stand_ins.UNBOUNDED,
    "io.debezium.data.geometry.Geography": stand_ins.GEOMETRY,
    "io.debezium.data.geometry.Geometry": stand_ins.GEOMETRY,
    "io.debezium.data.geometry.Point": stand_ins.POINT,
    "io.debezium.time.Interval": stand_ins.INTERVAL,
    "io.debezium.time.IsoDate": stand_ins.ISO_DATE,
    "io.debezium.time.IsoTime": stand_ins.ISO_TIME,
    "io.debezium.time.IsoTimestamp": stand_ins.ISO_TIMESTAMP,
    "io.debezium.time.MicroDuration": stand_ins.DURATION,
    "io.debezium.time.MicroTime": stand_ins.MICRO_TIME,
    "io.debezium.time.NanoTime": stand_ins.NANOS_OF_DAY,
    "io.debezium.time.Time": stand_ins.MILLIS_OF_DAY,
    "io.debezium.time.ZonedTime": stand_ins.ZONED_TIME,
    "org.apache.kafka.connect.data.Time": stand_ins.MILLIS_OF_DAY,
}
_BITS: Final = "io.debezium.data.Bits"
_LENGTH: Final = "length"
_STRUCTURED: Final = frozenset({"struct", "map", "array"})


def describe_envelope(value: ConnectSchema, key: ConnectSchema | None = None) -> Described:
    """Describes the table of a Debezium envelope's schema and of its record key's schema.

    A value schema without an ``after`` struct describes no table: no columns.
    """
    row = _after(value)
    if row is None:
        return Described((), origin="record schema")
    return describe_row(row, key)


def is_envelope_schema(value: object) -> bool:
    """Whether a parsed value is an envelope's schema: well-formed, with ``after`` columns.

    A record's ``schema`` may contain anything. The functions that describe tables do not
    check the types of their arguments.
    """
    if not _is_well_formed(value):
        return False
    row = _after(cast("ConnectSchema", value))
    return row is not None and row["type"] == "struct" and bool(_fields(row))


def is_row_schema(value: object) -> bool:
    """Whether a parsed value is the schema of a row: well-formed, with columns."""
    if not _is_well_formed(value):
        return False
    row = cast("ConnectSchema", value)
    return row["type"] == "struct" and bool(_fields(row))


def is_documents_schema(value: object) -> bool:
    """Whether a parsed value is an envelope's schema with a document in ``after``."""
    if not _is_well_formed(value):
        return False
    row = _after(cast("ConnectSchema", value))
    return row is not None and row["type"] == "string" and _semantic_name(row) == _DOCUMENT


def is_key_schema(value: object) -> bool:
    """Whether a parsed value is the schema of a record's key."""
    return _is_well_formed(value) and bool(_fields(cast("ConnectSchema", value)))


def describe_row(row: ConnectSchema, key: ConnectSchema | None = None) -> Described:
    """Describes the table of a row's struct schema (the envelope's ``after``) and a key schema."""
    columns = tuple(map_field(each) for each in _fields(row))
    names = tuple(str(each["field"]) for each in _fields(key)) if key else ()
    return Described(columns, names, origin="record schema")


def map_field(field: ConnectSchema) -> Column | UnmappedColumn:
    """Returns the lake column of a field, or the reason why there is none."""
    name = str(field["field"])
    required = not field.get("optional", False)
    comment, marker = str(field.get("doc") or ""), _may_be_placeholder(field)
    mapped = _list(field) if field["type"] == "array" else _scalar(field)
    if isinstance(mapped, UnmappedColumn):
        return UnmappedColumn(
            name,
            mapped.source_type,
            mapped.reason,
            mapped.wire,
            required=required,
            unchanged_marker=marker,
            comment=comment,
        )
    column = Column(
        name,
        mapped.type,
        mapped.wire,
        required,
        marker,
        mapped.element_wire,
        "; ".join(part for part in (comment, mapped.comment) if part),
        detail=mapped.detail,
    )
    return column if field.get("default") is None else replace(column, existing=EMPTY)


def _scalar(schema: ConnectSchema) -> StoredAs | UnmappedColumn:
    literal, name = str(schema["type"]), _semantic_name(schema)
    if literal == "string" and not name and (number := _number(schema)) is not None:
        return number
    if name in _LABELLED and literal == "string":
        return StoredAs(Primitive.STRING, Wire.STRING, detail=_labels(schema, name))
    if name in _SEMANTIC:
        return StoredAs(*_SEMANTIC[name])
    if name in _STAND_INS:
        return _STAND_INS[name]
    match name:
        case _ if name == _DECIMAL:
            parameters = cast("Mapping[str, str]", schema.get("parameters") or {})
            precision = parameters.get(_PRECISION)
            scale = int(parameters.get("scale", 0))
            return stand_ins.decimal(None if precision is None else int(precision), scale)
        case _ if name == _BITS:
            return _bits(schema)
        case _ if literal in _LITERAL:  # also names that add nothing to the literal type
            return StoredAs(*_LITERAL[literal])
        case _ if literal in _STRUCTURED:
            return stand_ins.DOCUMENT
        case _:
            return _refused(schema, f"no lake type is known for: {literal}")


def _number(schema: ConnectSchema) -> StoredAs | None:
    """Returns the type of a decimal that arrives as text; None if no source type is propagated."""
    parameters = cast("Mapping[str, str]", schema.get("parameters") or {})
    if parameters.get(f"{_SOURCE_TYPE}.type", "").upper() not in _DECIMAL_TYPES:
        return None
    sizes = [parameters.get(f"{_SOURCE_TYPE}.{name}", "") for name in ("length", "scale")]
    if not all(map(_SMALL_INTEGER.fullmatch, sizes)):
        return stand_ins.AS_TEXT
    exact = stand_ins.decimal(*map(int, sizes))
    is_decimal = isinstance(exact.type, Decimal)
    return StoredAs(exact.type, Wire.DECIMAL_TEXT) if is_decimal else stand_ins.AS_TEXT


def _labels(schema: ConnectSchema, name: str) -> WireDetail | None:
    """Returns the labels of an enumeration or a set; None if the schema lists none, or too many.

    Only connectors that follow each statement send sets: their lists are complete.
    """
    parameters = cast("Mapping[str, str]", schema.get("parameters") or {})
    allowed = parameters.get("allowed", "")
    if not allowed or len(allowed) > _MOST_OF_LABELS:
        return None
    is_set = name == _SET
    return WireDetail(tuple(allowed.split(",")), many=is_set, is_closed=is_set)


def _bits(schema: ConnectSchema) -> StoredAs | UnmappedColumn:
    parameters = cast("Mapping[str, str]", schema.get("parameters") or {})
    length = parameters.get(_LENGTH, "")
    if not (_SMALL_INTEGER.fullmatch(length) and int(length) > 0):
        return _refused(schema, "the schema does not tell how many bits there are", Wire.BITS)
    return replace(stand_ins.bits(int(length)), detail=WireDetail(bits=int(length)))


def _list(schema: ConnectSchema) -> StoredAs | UnmappedColumn:
    items = cast("ConnectSchema", schema.get("items") or {"type": "unknown"})
    element = _scalar(items)
    if isinstance(element, UnmappedColumn):
        return _refused(schema, f"elements: {element.reason}")
    if isinstance(element.type, ListOf | StructOf) or element.wire is Wire.JSON:
        return stand_ins.DOCUMENT
    return StoredAs(ListOf(element.type), Wire.LIST, element.wire, element.comment, element.detail)


def _may_be_placeholder(schema: ConnectSchema) -> bool:
    """Whether PostgreSQL may have stored the value out of line (TOAST).

    A schema does not distinguish ``char(1)`` from ``text``, so every unnamed string counts. A map
    is an ``hstore``.
    """
    name, literal = _semantic_name(schema), schema["type"]
    if name in _FIXED_SIZE or name.startswith(("io.debezium.time.", "org.apache.kafka.connect.")):
        return False
    return literal in {"string", "bytes", "array", "map"}


def _refused(schema: ConnectSchema, reason: str, wire: Wire | None = None) -> UnmappedColumn:
    source_type = _semantic_name(schema) or str(schema["type"])
    return UnmappedColumn(str(schema.get("field", "")), source_type, reason, wire)


def _semantic_name(schema: ConnectSchema) -> str:
    return str(schema.get("name") or "")


def _fields(schema: ConnectSchema) -> Sequence[ConnectSchema]:
    return cast("Sequence[ConnectSchema]", schema.get("fields") or ())


def _after(value: ConnectSchema) -> ConnectSchema | None:
    return next((each for each in _fields(value) if each.get("field") == "after"), None)


def _is_well_formed(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    schema = cast("Mapping[str, object]", value)
    texts = (schema.get(name) or "" for name in ("name", "doc"))
    if not (isinstance(schema.get("type"), str) and all(isinstance(each, str) for each in texts)):
        return False
    items = schema.get("items")
    return (
        (items is None or _is_well_formed(items))
        and _are_parameters(schema.get("parameters") or {})
        and _are_fields(schema.get("fields") or ())
    )


def _are_fields(fields: object) -> bool:
    """Whether a struct's fields are well-formed, with distinct names."""
    if not isinstance(fields, list | tuple):
        return False
    found = cast("Sequence[object]", fields)
    if not all(_is_well_formed(each) for each in found):
        return False
    names = [cast("ConnectSchema", each).get("field") for each in found]
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


def _are_parameters(parameters: object) -> bool:
    """Whether parameters are texts; a decimal's have to be numbers."""
    if not isinstance(parameters, dict):
        return False
    found = cast("Mapping[str, object]", parameters)
    numbers = (found[name] for name in ("scale", _PRECISION) if name in found)
    return all(isinstance(each, str) for each in found.values()) and all(
        _SMALL_INTEGER.fullmatch(str(each)) for each in numbers
    )
