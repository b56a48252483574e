"""Tells how a column's values arrive, and which encodings can be decoded to which types.

``jvm/src`` decodes them: NULL stands for a value that cannot be represented exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from pyspark.sql import Column as Expression
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from cdc_assets.decode import read_value
from cdc_assets.errors import TerminalError
from cdc_assets.schema.types import (
    Column,
    ColumnType,
    Decimal,
    ListOf,
    Primitive,
    StructOf,
    Wire,
    WireDetail,
)

_P = Primitive
_TEXTS: Final = (
    Wire.BOOLEAN_OR_INT, Wire.INTEGER_TEXT, Wire.FLOATING_TEXT, Wire.BOOLEAN_TEXT, Wire.DATE_TEXT,
    Wire.TIME_TEXT, Wire.TIMESTAMP_TEXT, Wire.BYTES_LATIN1, Wire.TEXT_LATIN1, Wire.JSON_TEXT,
    Wire.ENUM_ORDINAL, Wire.SET_BITS, Wire.SCALAR, Wire.LABELS, Wire.BYTES_HEX, Wire.DECIMAL_TEXT,
    Wire.ISO_ZONED, Wire.ISO_DATE, Wire.ISO_TIME, Wire.ISO_TIMESTAMP, Wire.STRING,
)  # fmt: skip
_WIRE_TYPES: Final[dict[Wire, DataType]] = {
    Wire.BOOLEAN: BooleanType(),
    Wire.INT: IntegerType(),
    Wire.LONG: LongType(),
    Wire.FLOAT: FloatType(),
    Wire.DOUBLE: DoubleType(),
    Wire.BYTES_BASE64: BinaryType(),
    Wire.DECIMAL_BYTES: BinaryType(),
    Wire.VARIABLE_SCALE_DECIMAL: StructType(
        [StructField("scale", IntegerType()), StructField("value", BinaryType())]
    ),
    Wire.POINT: StructType(
        [
            StructField("x", DoubleType()),
            StructField("y", DoubleType()),
            StructField("srid", IntegerType()),
        ]
    ),
    Wire.GEOMETRY: StructType(
        [StructField("wkb", BinaryType()), StructField("srid", IntegerType())]
    ),
    Wire.EPOCH_DAYS: IntegerType(),
    Wire.EPOCH_MILLIS: LongType(),
    Wire.EPOCH_MICROS: LongType(),
    Wire.EPOCH_NANOS: LongType(),
    Wire.NANOS_OF_DAY: LongType(),
    Wire.MILLIS_OF_DAY: IntegerType(),
    Wire.UNSIGNED_LONG: LongType(),
    Wire.BITS: BinaryType(),
    **dict.fromkeys(_TEXTS, StringType()),
    Wire.JSON: VariantType(),
}
_INSTANTS: Final = frozenset({_P.TIMESTAMP, _P.TIMESTAMPTZ})
_DECODED: Final[Mapping[Wire, frozenset[Primitive | type]]] = {
    Wire.BOOLEAN: frozenset({_P.BOOLEAN}),
    Wire.INT: frozenset({_P.INT, _P.LONG, _P.DOUBLE}),
    Wire.LONG: frozenset({_P.LONG}),
    Wire.FLOAT: frozenset({_P.FLOAT, _P.DOUBLE}),
    Wire.DOUBLE: frozenset({_P.DOUBLE}),
    Wire.STRING: frozenset({_P.STRING}),
    Wire.BYTES_BASE64: frozenset({_P.BINARY}),
    Wire.BYTES_HEX: frozenset({_P.BINARY}),
    Wire.DECIMAL_BYTES: frozenset({_P.STRING, Decimal}),
    Wire.DECIMAL_TEXT: frozenset({Decimal}),
    Wire.VARIABLE_SCALE_DECIMAL: frozenset({_P.STRING, Decimal}),
    Wire.EPOCH_DAYS: frozenset({_P.DATE}),
    Wire.EPOCH_MILLIS: _INSTANTS,
    Wire.EPOCH_MICROS: _INSTANTS | {_P.LONG},
    Wire.EPOCH_NANOS: _INSTANTS,
    Wire.ISO_ZONED: frozenset({_P.TIMESTAMPTZ}),
    Wire.ISO_DATE: frozenset({_P.DATE}),
    Wire.ISO_TIME: frozenset({_P.LONG}),
    Wire.ISO_TIMESTAMP: _INSTANTS,
    Wire.MILLIS_OF_DAY: frozenset({_P.LONG}),
    Wire.NANOS_OF_DAY: frozenset({_P.LONG}),
    Wire.BOOLEAN_OR_INT: frozenset({_P.INT, _P.LONG, _P.BOOLEAN}),
    Wire.UNSIGNED_LONG: frozenset({_P.LONG, Decimal}),
    Wire.BITS: frozenset({_P.LONG, Decimal, _P.STRING}),
    Wire.POINT: frozenset({StructOf}),
    Wire.GEOMETRY: frozenset({StructOf}),
    Wire.INTEGER_TEXT: frozenset({_P.INT, _P.LONG, Decimal}),
    Wire.FLOATING_TEXT: frozenset({_P.FLOAT, _P.DOUBLE}),
    Wire.BOOLEAN_TEXT: frozenset({_P.BOOLEAN}),
    Wire.DATE_TEXT: frozenset({_P.DATE}),
    Wire.TIME_TEXT: frozenset({_P.LONG}),
    Wire.TIMESTAMP_TEXT: _INSTANTS,
    Wire.BYTES_LATIN1: frozenset({_P.BINARY}),
    Wire.SCALAR: frozenset({*_P, Decimal}),
    **dict.fromkeys(
        (Wire.TEXT_LATIN1, Wire.JSON_TEXT, Wire.ENUM_ORDINAL, Wire.SET_BITS, Wire.LABELS),
        frozenset({_P.STRING}),
    ),
    Wire.JSON: frozenset({_P.STRING}),
}
"""The types to which an encoding can be decoded. A list is decoded as its elements are."""

_IN_ZONE: Final = frozenset({Wire.TIMESTAMP_TEXT, Wire.ISO_TIMESTAMP})
"""Local times, which are instants in a zone that is known."""


def wire_type(column: Column) -> DataType:
    """Returns the type with which the column's JSON is read."""
    if column.wire is Wire.LIST:
        if column.element_wire is None:
            raise _unsupported(column)
        return ArrayType(_WIRE_TYPES[column.element_wire])
    return _WIRE_TYPES[column.wire]


def decoded(value: Expression, column: Column) -> Expression:
    """Returns the lake's value of a wire value; NULL where it cannot be represented exactly."""
    return read_value(arriving(column), value)


def arriving(column: Column) -> dict[str, Any]:
    """Returns what decoding needs to know of a column, see ``Arriving.java``.

    Raises:
        TerminalError: if its encoding cannot be decoded to its type.
    """
    if not is_decoded(column):
        raise _unsupported(column)
    facts = {
        "name": column.name,
        "said": f"column {column.name!r}",
        "type": str(column.type),
        "wire": column.wire,
        "element_wire": column.element_wire,
        **asdict(column.detail or WireDetail()),
        "scale": column.wire_scale,
    }
    return {name: value for name, value in facts.items() if value}


def is_decoded(column: Column) -> bool:
    """Returns whether its encoding can be decoded to its type."""
    detail = column.detail or WireDetail()
    if detail.mask:
        return column.type is Primitive.STRING
    if column.wire is Wire.LIST and isinstance(column.type, ListOf):
        return _is_decoded(column.element_wire or Wire.STRING, column.type.element, detail)
    return _is_decoded(column.wire, column.type, detail)


def _is_decoded(wire: Wire, type_: ColumnType, detail: WireDetail) -> bool:
    if wire in _IN_ZONE and type_ is Primitive.TIMESTAMPTZ:
        return bool(detail.zone)
    if wire is Wire.BITS and type_ is Primitive.STRING:
        return bool(detail.bits)
    kind = type_ if isinstance(type_, Primitive) else type(type_)
    return kind in _DECODED.get(wire, ())


def _unsupported(column: Column) -> TerminalError:
    what = f"column {column.name!r}: no exact decoding from {column.wire} to {column.type}"
    return TerminalError(what, remedy="give the column's type in the configuration, or exclude it")
