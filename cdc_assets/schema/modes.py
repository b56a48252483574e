"""Maps types to a Debezium connector's encodings, by modes that schemaless events do not show.

Checked against debezium/debezium 3.x: ``io.debezium.jdbc.TemporalPrecisionMode``,
``JdbcValueConverters.DecimalMode`` and ``CommonConnectorConfig.BinaryHandlingMode``. Values
are the connector's own spellings.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cdc_assets.schema.types import ColumnType, Decimal, ListOf, Primitive, StructOf, Wire

DOUBLE_DIGITS = 15
"""Decimals of up to this many digits survive a double and back (IEEE 754 binary64)."""

MILLIS_DIGITS = 3
DEFAULT_DIGITS = 6
"""Digits after the second of PostgreSQL's ``timestamp`` and ``time`` without a number."""


class DecimalMode(StrEnum):
    """``decimal.handling.mode``."""

    PRECISE = "precise"
    STRING = "string"
    DOUBLE = "double"


class TimeMode(StrEnum):
    """``time.precision.mode``."""

    ADAPTIVE = "adaptive"
    ADAPTIVE_TIME_MICROSECONDS = "adaptive_time_microseconds"
    CONNECT = "connect"
    ISOSTRING = "isostring"
    MICROSECONDS = "microseconds"
    NANOSECONDS = "nanoseconds"


class UnsignedMode(StrEnum):
    """``bigint.unsigned.handling.mode`` of the connectors for MySQL and MariaDB."""

    LONG = "long"
    PRECISE = "precise"


class BinaryMode(StrEnum):
    """``binary.handling.mode``."""

    BYTES = "bytes"
    BASE64 = "base64"
    BASE64_URL_SAFE = "base64-url-safe"
    HEX = "hex"


class IntervalMode(StrEnum):
    """``interval.handling.mode`` of PostgreSQL's connector."""

    NUMERIC = "numeric"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class ConnectorModes:
    """The modes of one connector; the defaults are Debezium's, for time PostgreSQL's.

    ``unknown`` is ``include.unknown.datatypes`` of PostgreSQL's connector.
    """

    decimal: DecimalMode = DecimalMode.PRECISE
    time: TimeMode = TimeMode.ADAPTIVE
    binary: BinaryMode = BinaryMode.BYTES
    unsigned: UnsignedMode = UnsignedMode.LONG
    interval: IntervalMode = IntervalMode.NUMERIC
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class TypeEncoding:
    """The encoding in which values of a type arrive."""

    wire: Wire
    element_wire: Wire | None = None


@dataclass(frozen=True, slots=True)
class LossyEncoding:
    """An encoding in which values of a type arrive with a loss, or unreliably."""

    reason: str
    wire: Wire


_PLAIN = {
    Primitive.BOOLEAN: Wire.BOOLEAN,
    Primitive.INT: Wire.INT,
    Primitive.LONG: Wire.LONG,
    Primitive.FLOAT: Wire.FLOAT,
    Primitive.DOUBLE: Wire.DOUBLE,
    Primitive.STRING: Wire.STRING,
    Primitive.TIMESTAMPTZ: Wire.ISO_ZONED,  # in every mode: io.debezium.time.ZonedTimestamp
}


def encoding_of(
    type_: ColumnType, modes: ConnectorModes, digits: int | None
) -> TypeEncoding | LossyEncoding:
    """Returns the encoding of a type by a connector with these modes.

    Args:
        type_: the type to store.
        modes: the connector's.
        digits: after the second, for timestamps (None: not declared).
    """
    match type_:
        case ListOf(element):
            inner = encoding_of(element, modes, digits)
            return TypeEncoding(Wire.LIST, inner.wire) if isinstance(inner, TypeEncoding) else inner
        case Decimal():
            return _decimal(type_, modes.decimal)
        case Primitive.BINARY:
            hexadecimal = modes.binary is BinaryMode.HEX
            return TypeEncoding(Wire.BYTES_HEX if hexadecimal else Wire.BYTES_BASE64)
        case Primitive.DATE:
            text = modes.time is TimeMode.ISOSTRING
            return TypeEncoding(Wire.ISO_DATE if text else Wire.EPOCH_DAYS)
        case Primitive.TIMESTAMP:
            return _timestamp(DEFAULT_DIGITS if digits is None else digits, modes.time)
        case StructOf():
            return LossyEncoding("the connector's modes do not tell how it arrives", Wire.GEOMETRY)
        case _:
            return TypeEncoding(_PLAIN[type_])


def time_of_day(digits: int | None, mode: TimeMode) -> TypeEncoding | LossyEncoding:
    """Returns the encoding of SQL's ``time``, which is stored as microseconds since midnight.

    ``adaptive``: ``Time`` (int32 milliseconds) up to 3 digits, else ``MicroTime`` (int64).
    """
    precision = DEFAULT_DIGITS if digits is None else digits
    match mode:
        case TimeMode.ADAPTIVE:
            millis = precision <= MILLIS_DIGITS
            return TypeEncoding(Wire.MILLIS_OF_DAY if millis else Wire.LONG)
        case TimeMode.ADAPTIVE_TIME_MICROSECONDS | TimeMode.MICROSECONDS:
            return TypeEncoding(Wire.LONG)
        case TimeMode.CONNECT:
            return _millis_only(precision, Wire.MILLIS_OF_DAY)
        case TimeMode.NANOSECONDS:
            return TypeEncoding(Wire.NANOS_OF_DAY)
        case TimeMode.ISOSTRING:
            return TypeEncoding(Wire.ISO_TIME)


def _timestamp(digits: int, mode: TimeMode) -> TypeEncoding | LossyEncoding:
    match mode:
        case TimeMode.ADAPTIVE | TimeMode.ADAPTIVE_TIME_MICROSECONDS:
            return TypeEncoding(Wire.EPOCH_MILLIS if digits <= MILLIS_DIGITS else Wire.EPOCH_MICROS)
        case TimeMode.MICROSECONDS:
            return TypeEncoding(Wire.EPOCH_MICROS)
        case TimeMode.NANOSECONDS:
            return TypeEncoding(Wire.EPOCH_NANOS)
        case TimeMode.CONNECT:
            return _millis_only(digits, Wire.EPOCH_MILLIS)
        case TimeMode.ISOSTRING:
            return TypeEncoding(Wire.ISO_TIMESTAMP)


def _millis_only(digits: int, wire: Wire) -> TypeEncoding | LossyEncoding:
    if digits <= MILLIS_DIGITS:
        return TypeEncoding(wire)
    reason = (
        f"time.precision.mode=connect cuts {digits} digits to milliseconds; leave it at its default"
    )
    if wire is Wire.EPOCH_MILLIS:
        reason += ", or accept the loss by configuring timestamp(3)"
    return LossyEncoding(reason, wire)


def _decimal(type_: Decimal, mode: DecimalMode) -> TypeEncoding | LossyEncoding:
    match mode:
        case DecimalMode.PRECISE:
            return TypeEncoding(Wire.DECIMAL_BYTES)
        case DecimalMode.STRING:
            return TypeEncoding(Wire.DECIMAL_TEXT)
        case DecimalMode.DOUBLE if type_.precision <= DOUBLE_DIGITS:
            return TypeEncoding(Wire.DECIMAL_TEXT)
        case DecimalMode.DOUBLE:
            reason = (
                f"decimal.handling.mode=double cannot hold {type_.precision} digits; set it to "
                "precise, or accept the loss by configuring double"
            )
            return LossyEncoding(reason, Wire.DOUBLE)
