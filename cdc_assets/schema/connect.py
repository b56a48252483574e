"""Kafka Connect's inline schemas (``{"schema": …, "payload": …}``) as table schemas.

Semantic types go by the schema's *name*, never by a value's magnitude: milli-, micro- and
nanoseconds share one literal type. Names were read in debezium/debezium 3.x
(``io.debezium.data``, ``io.debezium.time``) and Kafka's ``org.apache.kafka.connect.data``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from cdc_assets.schema.described import Described
from cdc_assets.schema.parse import MAX_DECIMAL_DIGITS
from cdc_assets.schema.types import (
    MICROS_OF_DAY,
    Column,
    ColumnType,
    Decimal,
    ListOf,
    Primitive,
    UnmappedColumn,
    Wire,
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
    "io.debezium.time.Time": (Primitive.LONG, Wire.MILLIS_OF_DAY),
    "io.debezium.time.MicroTime": (Primitive.LONG, Wire.LONG),
    "io.debezium.time.Timestamp": (Primitive.TIMESTAMP, Wire.EPOCH_MILLIS),
    "io.debezium.time.MicroTimestamp": (Primitive.TIMESTAMP, Wire.EPOCH_MICROS),
    "io.debezium.time.NanoTimestamp": (Primitive.TIMESTAMP, Wire.EPOCH_NANOS),
    "io.debezium.time.ZonedTimestamp": (Primitive.TIMESTAMPTZ, Wire.ISO_ZONED),
    "io.debezium.time.Year": (Primitive.INT, Wire.INT),
    "org.apache.kafka.connect.data.Date": (Primitive.DATE, Wire.EPOCH_DAYS),
    "org.apache.kafka.connect.data.Time": (Primitive.LONG, Wire.MILLIS_OF_DAY),
    "org.apache.kafka.connect.data.Timestamp": (Primitive.TIMESTAMP, Wire.EPOCH_MILLIS),
    "io.debezium.data.Enum": (Primitive.STRING, Wire.STRING),
    "io.debezium.data.EnumSet": (Primitive.STRING, Wire.STRING),
    "io.debezium.data.Json": (Primitive.STRING, Wire.STRING),
    "io.debezium.data.Ltree": (Primitive.STRING, Wire.STRING),
    "io.debezium.data.Tsvector": (Primitive.STRING, Wire.STRING),
    "io.debezium.data.Uuid": (Primitive.STRING, Wire.STRING),
    "io.debezium.data.Xml": (Primitive.STRING, Wire.STRING),
}
_TIMES_OF_DAY: Final = frozenset({
    "io.debezium.time.Time", "io.debezium.time.MicroTime", "org.apache.kafka.connect.data.Time",
})  # fmt: skip
_FIXED_SIZE: Final = frozenset({"io.debezium.data.Enum", "io.debezium.data.Uuid"})
_DOCUMENT: Final = "io.debezium.data.Json"
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_PRECISION: Final = "connect.decimal.precision"
_SMALL_INTEGER: Final = re.compile(r"-?[0-9]{1,9}")
_TEXT_LATER: Final = "store its text by configuring it as string"
_REFUSED: Final[dict[str, tuple[str, Wire | None]]] = {
    "io.debezium.data.VariableScaleDecimal": (
        "a decimal without precision has no bound; configure decimal(38,10), for example",
        Wire.VARIABLE_SCALE_DECIMAL,
    ),
    "io.debezium.time.MicroDuration": (
        "an interval in microseconds, with months of average length; configure it as bigint",
        Wire.LONG,
    ),
    "io.debezium.time.NanoTime": ("nanoseconds since midnight; configure it as bigint", Wire.LONG),
    "io.debezium.time.Interval": (f"an interval; {_TEXT_LATER}", Wire.STRING),
    "io.debezium.time.ZonedTime": (f"UTC text that lost its zone; {_TEXT_LATER}", Wire.STRING),
    "io.debezium.time.IsoDate": (f"a date as text; {_TEXT_LATER}", Wire.STRING),
    "io.debezium.time.IsoTime": (f"a time as text; {_TEXT_LATER}", Wire.STRING),
    "io.debezium.time.IsoTimestamp": (f"a timestamp as text; {_TEXT_LATER}", Wire.STRING),
    "io.debezium.data.Bits": (
        "bits arrive as little-endian bytes; store their number by configuring bigint, of 64 bits "
        "decimal(20,0)",
        Wire.BITS,
    ),
}


def describe_envelope(value: ConnectSchema, key: ConnectSchema | None = None) -> Described:
    """The table of a Debezium envelope's schema and of its record key's schema.

    A value schema without an ``after`` struct describes no table: no columns.
    """
    row = _after(value)
    if row is None:
        return Described((), origin="record schema")
    return describe_row(row, key)


def is_envelope_schema(value: object) -> bool:
    """Whether a parsed value is the schema of an envelope: well-formed, with columns in ``after``.

    What a record carries under ``schema`` may be anything. Nothing else here looks at types of
    what it is given.
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
    """Whether a parsed value is the schema of an envelope whose ``after`` is a document's text."""
    if not _is_well_formed(value):
        return False
    row = _after(cast("ConnectSchema", value))
    return row is not None and row["type"] == "string" and _semantic_name(row) == _DOCUMENT


def is_key_schema(value: object) -> bool:
    """Whether a parsed value is the schema of a record's key."""
    return _is_well_formed(value) and bool(_fields(cast("ConnectSchema", value)))


def describe_row(row: ConnectSchema, key: ConnectSchema | None = None) -> Described:
    """The table of a row's struct schema (the envelope's ``after``) and of the key's schema."""
    columns = tuple(map_field(each) for each in _fields(row))
    names = tuple(str(each["field"]) for each in _fields(key)) if key else ()
    return Described(columns, names, origin="record schema")


def map_field(field: ConnectSchema) -> Column | UnmappedColumn:
    """The lake column of a field, or why there is none."""
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
    type_, wire, element_wire = mapped
    if _semantic_name(field) in _TIMES_OF_DAY:
        comment = "; ".join(part for part in (comment, MICROS_OF_DAY) if part)
    return Column(name, type_, wire, required, marker, element_wire, comment)


_Mapped = tuple[ColumnType, Wire, Wire | None]


def _scalar(schema: ConnectSchema) -> _Mapped | UnmappedColumn:
    literal, name = str(schema["type"]), _semantic_name(schema)
    if name == _DECIMAL:
        return _decimal(schema)
    if name in _SEMANTIC:
        return (*_SEMANTIC[name], None)
    if name:
        reason = f"no lake type is known for it; {_TEXT_LATER}" if literal == "string" else None
        wire = Wire.STRING if literal == "string" else None
        return _refused(schema, *_REFUSED.get(name, (reason or "a structure or unknown", wire)))
    if literal in _LITERAL:
        return (*_LITERAL[literal], None)
    return _refused(schema, f"a nested {literal} has no lake type")


def _list(schema: ConnectSchema) -> _Mapped | UnmappedColumn:
    items = cast("ConnectSchema", schema.get("items") or {"type": "unknown"})
    element = _scalar(items)
    if isinstance(element, UnmappedColumn):
        return _refused(schema, f"elements: {element.reason}")
    type_, wire, _ = element
    if isinstance(type_, ListOf):
        return _refused(schema, "a list of lists has no lake type")
    return ListOf(type_), Wire.LIST, wire


def _decimal(schema: ConnectSchema) -> _Mapped | UnmappedColumn:
    parameters = cast("Mapping[str, str]", schema.get("parameters") or {})
    scale = int(parameters.get("scale", 0))
    if _PRECISION not in parameters:
        reason = f"the schema tells its scale ({scale}) but not its precision; configure both"
        return _refused(schema, reason, Wire.DECIMAL_BYTES)
    precision = max(int(parameters[_PRECISION]), scale)
    if not (0 < precision <= MAX_DECIMAL_DIGITS and scale >= 0):
        return _refused(schema, f"the lake holds {MAX_DECIMAL_DIGITS} digits and no negative scale")
    return Decimal(precision, scale), Wire.DECIMAL_BYTES, None


def _may_be_placeholder(schema: ConnectSchema) -> bool:
    """Whether PostgreSQL may have stored the value out of line (TOAST).

    A schema does not tell ``char(1)`` from ``text``, so every unnamed string counts.
    """
    name, literal = _semantic_name(schema), schema["type"]
    if name in _FIXED_SIZE or name.startswith(("io.debezium.time.", "org.apache.kafka.connect.")):
        return False
    return literal in {"string", "bytes", "array"}


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
    """A struct's fields: well-formed, each with a name of its own."""
    if not isinstance(fields, list | tuple):
        return False
    found = cast("Sequence[object]", fields)
    if not all(_is_well_formed(each) for each in found):
        return False
    names = [cast("ConnectSchema", each).get("field") for each in found]
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


def _are_parameters(parameters: object) -> bool:
    """Texts; of a decimal, numbers."""
    if not isinstance(parameters, dict):
        return False
    found = cast("Mapping[str, object]", parameters)
    numbers = (found[name] for name in ("scale", _PRECISION) if name in found)
    return all(isinstance(each, str) for each in found.values()) and all(
        _SMALL_INTEGER.fullmatch(str(each)) for each in numbers
    )
