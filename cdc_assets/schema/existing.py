"""What rows have in a column that was added after them: read from a default, never guessed.

``ADD COLUMN … DEFAULT`` changes rows without an event. The default's value is brought into the
form that the lake's value has as text; what cannot be read exactly is told by nothing.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as Number
from decimal import InvalidOperation
from typing import Final

from cdc_assets.schema.types import Column, Decimal, Existing, Primitive, Wire

UNTOLD: Final = Existing(None)

_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_PLAIN: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_DATE: Final = r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
_DAY: Final = re.compile(_DATE)
_MOMENT: Final = re.compile(f"{_DATE} {_TIME}")
_INSTANT: Final = re.compile(rf"({_DATE} {_TIME})\+00(:00)?")
_OF_DAY: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,6}))?")
_TRUTHS: Final = {"t": "true", "true": "true", "1": "true",
                  "f": "false", "false": "false", "0": "false"}  # fmt: skip
_HEX: Final = re.compile(r"\\x(?:[0-9a-f]{2})*")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES_OF_DAY: Final = frozenset({Wire.MILLIS_OF_DAY, Wire.NANOS_OF_DAY, Wire.ISO_TIME})
_TEXTS: Final = frozenset({
    Wire.STRING, Wire.SCALAR, Wire.VARIABLE_SCALE_DECIMAL, Wire.DECIMAL_BYTES, Wire.ENUM_ORDINAL,
})  # fmt: skip


def of_text(text: str, column: Column) -> Existing:
    """Of a value as the database writes it: PostgreSQL in ISO style and UTC, or MySQL.

    Args:
        text: the value.
        column: as the lake is to have it.
    """
    if column.detail is not None and column.detail.mask:
        return UNTOLD
    return Existing(_of_text(text, column))


def of_wire(value: object, column: Column) -> Existing:
    """Of a value as a record would have it: the ``default`` of a Connect schema, parsed JSON."""
    if column.detail is not None and column.detail.mask:
        return UNTOLD
    reader = _WIRES.get(column.wire)
    try:
        text = reader(value, column) if reader is not None else None
    except (ValueError, TypeError, OverflowError, InvalidOperation, binascii.Error):
        text = None
    return Existing(text)


def implied(column: Column) -> Existing:
    """Of a column of MySQL or MariaDB that is NOT NULL and has no default."""
    if column.type is Primitive.STRING and column.wire is Wire.STRING:
        return Existing("")
    is_number = isinstance(column.type, Decimal) or column.type in {
        Primitive.INT, Primitive.LONG, Primitive.FLOAT, Primitive.DOUBLE,
    }  # fmt: skip
    return Existing("0") if is_number else UNTOLD


# ── as a database writes it ───────────────────────────────────────────────────────────────


def _of_text(text: str, column: Column) -> str | None:
    match column.type:
        case Primitive.LONG if found := _OF_DAY.fullmatch(text):
            return str(_micros(found))
        case Primitive.LONG if column.wire in _TIMES_OF_DAY:
            return None
        case Primitive.INT | Primitive.LONG:
            return _matching(_INTEGER, text)
        case Primitive.FLOAT | Primitive.DOUBLE:
            return text if text in {"NaN", "Infinity", "-Infinity"} else _matching(_NUMBER, text)
        case Decimal():
            return _rounded(text, column.type)
        case Primitive.BOOLEAN:
            return _TRUTHS.get(text)
        case Primitive.STRING:
            return text if column.wire in _TEXTS else None
        case Primitive.DATE:
            return _matching(_DAY, text)
        case Primitive.TIMESTAMP:
            return _matching(_MOMENT, text)
        case Primitive.TIMESTAMPTZ:
            found = _INSTANT.fullmatch(text)
            return f"{found[1]}+00:00" if found else None
        case Primitive.BINARY:
            return text[2:] if _HEX.fullmatch(text) else None
        case _:
            return None


def _matching(pattern: re.Pattern[str], text: str) -> str | None:
    return text if pattern.fullmatch(text) else None


def _rounded(text: str, type_: Decimal) -> str | None:
    """With as many digits as the type has, if none is lost."""
    if not _PLAIN.fullmatch(text):
        return None
    number = Number(text)
    digits = number.as_tuple()
    exponent = digits.exponent if isinstance(digits.exponent, int) else 0
    whole = max(len(digits.digits) + exponent, 0)
    is_exact = number == number.quantize(Number(1).scaleb(-type_.scale)) if number else True
    return text if whole <= type_.precision - type_.scale and is_exact else None


def _micros(found: re.Match[str]) -> int:
    hours, minutes, seconds = (int(each) for each in found.group(1, 2, 3))
    return (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + int((found[4] or "").ljust(6, "0"))


# ── as a record has it ────────────────────────────────────────────────────────────────────


def _number(value: object, column: Column) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return _of_text(repr(value), column)


def _truth(value: object, _: Column) -> str | None:
    return str(value).lower() if isinstance(value, bool) else None


def _text(value: object, column: Column) -> str | None:
    return _of_text(value, column) if isinstance(value, str) else None


def _unscaled(value: object, column: Column) -> str | None:
    """Base64 of big-endian two's complement, as JSON has it."""
    if not isinstance(value, str):
        return None
    number = int.from_bytes(base64.b64decode(value, validate=True), signed=True)
    scale = column.type.scale if isinstance(column.type, Decimal) else 0
    if column.type is Primitive.STRING:
        scale = column.detail.scale if column.detail else 0
    return _of_text(f"{Number(number).scaleb(-scale):f}", column)


def _bytes(value: object, _: Column) -> str | None:
    return base64.b64decode(value, validate=True).hex() if isinstance(value, str) else None


def _days(value: object, _: Column) -> str | None:
    return None if not isinstance(value, int) else (date(1970, 1, 1) + timedelta(value)).isoformat()


def _moment(micros_of_one: Number) -> Callable[[object, Column], str | None]:
    def read(value: object, column: Column) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        micros = value * micros_of_one
        if micros != int(micros):
            return None
        at = _EPOCH + timedelta(microseconds=int(micros))
        text = at.strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0")
        return f"{text}+00:00" if column.type is Primitive.TIMESTAMPTZ else text

    return read


def _zoned(value: object, _: Column) -> str | None:
    if not isinstance(value, str):
        return None
    at = datetime.fromisoformat(value).astimezone(UTC)
    return f"{at.strftime('%Y-%m-%d %H:%M:%S.%f').rjust(26, '0')}+00:00"


def _millis_of_day(value: object, _: Column) -> str | None:
    return str(value * 1000) if isinstance(value, int) else None


_WIRES: Final[dict[Wire, Callable[[object, Column], str | None]]] = {
    **dict.fromkeys((Wire.INT, Wire.LONG, Wire.FLOAT, Wire.DOUBLE), _number),
    Wire.BOOLEAN: _truth,
    Wire.STRING: _text,
    Wire.DECIMAL_TEXT: _text,
    Wire.DECIMAL_BYTES: _unscaled,
    Wire.BYTES_BASE64: _bytes,
    Wire.EPOCH_DAYS: _days,
    Wire.EPOCH_MILLIS: _moment(Number(1000)),
    Wire.EPOCH_MICROS: _moment(Number(1)),
    Wire.EPOCH_NANOS: _moment(Number("0.001")),
    Wire.ISO_ZONED: _zoned,
    Wire.MILLIS_OF_DAY: _millis_of_day,
}
