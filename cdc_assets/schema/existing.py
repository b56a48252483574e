"""Finds the value of an added column in older rows: read from a default, never guessed.

``ADD COLUMN … DEFAULT`` changes rows without an event. The default's value is converted to the
text form of the lake's value; a default that cannot be read exactly leaves the value unknown.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import replace
from datetime import date
from typing import Final

from cdc_assets.schema.types import Column, ColumnType, Decimal, Existing, Primitive, Wire

UNKNOWN_VALUE: Final = Existing(None)
EMPTY: Final = Existing(None, is_empty=True)
"""Of a default that only a record's schema has: it may be a placeholder, and of later than the
column."""

_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_PLAIN: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_BITS: Final = re.compile(r"[01]+|b'[01]+'")
_TIME: Final = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
_MOMENT: Final = re.compile(rf"(?P<day>[0-9-]{{10}}) {_TIME}")
_INSTANT: Final = re.compile(r"(?P<moment>.*)\+00(:00)?", re.DOTALL)
_OF_DAY: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,6}))?")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TRUTHS: Final = {"t": "true", "true": "true", "1": "true",
                  "f": "false", "false": "false", "0": "false"}  # fmt: skip
_WORDS: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_HEX: Final = re.compile(r"\\x(?:[0-9a-f]{2})*")
_TIMES_OF_DAY: Final = frozenset({
    Wire.MILLIS_OF_DAY, Wire.NANOS_OF_DAY, Wire.ISO_TIME, Wire.EPOCH_MICROS, Wire.TIME_TEXT,
})  # fmt: skip
_TEXTS: Final = frozenset({
    Wire.STRING, Wire.SCALAR, Wire.VARIABLE_SCALE_DECIMAL, Wire.DECIMAL_BYTES, Wire.ENUM_ORDINAL,
    Wire.TEXT_LATIN1, Wire.JSON_TEXT,
})  # fmt: skip


def of_text(text: str, column: Column) -> Existing:
    """Reads a value as the database writes it: PostgreSQL in ISO style and UTC, or MySQL.

    Args:
        text: the value.
        column: as the lake is to have it.
    """
    if column.detail is not None and column.detail.mask:
        return UNKNOWN_VALUE
    return Existing(_of_text(text, column))


def implied(column: Column) -> Existing:
    """Returns the value of a MySQL or MariaDB column, NOT NULL without default; not of enums."""
    if column.detail is not None and column.detail.mask:
        return UNKNOWN_VALUE
    if column.type is Primitive.STRING and column.wire in {Wire.STRING, Wire.TEXT_LATIN1}:
        return Existing("")
    is_number = isinstance(column.type, Decimal) or column.type in {
        Primitive.INT, Primitive.LONG, Primitive.FLOAT, Primitive.DOUBLE,
    }  # fmt: skip
    return Existing("0") if is_number else UNKNOWN_VALUE


def promoted(existing: Existing | None, was: ColumnType, now: ColumnType) -> Existing | None:
    """Returns the value in a wider type: a float's double has other digits."""
    if existing is None or existing.text is None:
        return existing
    if (was, now) != (Primitive.FLOAT, Primitive.DOUBLE):
        return existing
    text = repr(_as_float(float(existing.text)))
    return replace(existing, text=_WORDS.get(text, text))


def _as_float(number: float) -> float:
    """Returns the nearest 32-bit float, as a double."""
    (found,) = struct.unpack("<f", struct.pack("<f", number))
    return found


def _of_text(text: str, column: Column) -> str | None:
    match column.type:
        case Primitive.LONG | Decimal() if column.wire is Wire.BITS:
            return _of_bits(text, column)
        case Primitive.INT:
            return _integer(text, 32)
        case Primitive.LONG:
            return _long(text, column)
        case Primitive.FLOAT | Primitive.DOUBLE:
            return text if text in {"NaN", "Infinity", "-Infinity"} else _floating(text, column)
        case Decimal():
            return _fitting(text, column.type)
        case Primitive.BOOLEAN:
            return _TRUTHS.get(text)
        case Primitive.STRING:
            return text if column.wire in _TEXTS and _is_text(text) else None
        case Primitive.DATE:
            return text if _is_day(text) else None
        case Primitive.TIMESTAMP:
            return _moment_text(text)
        case Primitive.TIMESTAMPTZ:
            found = _INSTANT.fullmatch(text)
            moment = _moment_text(found["moment"]) if found else None
            return f"{moment}+00:00" if moment else None
        case Primitive.BINARY:
            return text[2:] if _HEX.fullmatch(text) else None
        case _:
            return None


def _of_bits(text: str, column: Column) -> str | None:
    """Returns the number that a bit string stands for; MySQL writes ``b'101'``."""
    if not _BITS.fullmatch(text):
        return None
    number = str(int(text.strip("b'"), 2))
    plain = replace(column, wire=Wire.LONG)
    return _of_text(number, plain)


def _long(text: str, column: Column) -> str | None:
    """Returns an integer; a time of day becomes microseconds."""
    if found := _OF_DAY.fullmatch(text):
        return str(_micros(found))
    return None if column.wire in _TIMES_OF_DAY else _integer(text, 64)


def _integer(text: str, bits: int) -> str | None:
    if not _INTEGER.fullmatch(text):
        return None
    return text if -(1 << bits - 1) <= int(text) < 1 << bits - 1 else None


def _floating(text: str, column: Column) -> str | None:
    """Returns the text, unless the type would round it to infinity or to zero."""
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    if column.type is Primitive.FLOAT:
        try:
            number = _as_float(number)
        except OverflowError:
            return None
    is_zero = not re.search("[1-9]", re.split("[eE]", text)[0])
    return text if math.isfinite(number) and (number == 0) == is_zero else None


def _is_text(text: str) -> bool:
    """Returns whether it has no halves of surrogate pairs, which no encoding can represent."""
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _is_day(text: str) -> bool:
    """Returns whether it is a calendar date in the years 1 to 9999."""
    if not _DAY.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _moment_text(text: str) -> str | None:
    found = _MOMENT.fullmatch(text)
    return text if found and _is_day(found["day"]) else None


def _fitting(text: str, type_: Decimal) -> str | None:
    """Returns the text if the type has all of its digits, zeros at either end aside."""
    if not _PLAIN.fullmatch(text):
        return None
    whole, _, fraction = text.removeprefix("-").partition(".")
    room = type_.precision - type_.scale
    fits = len(whole.lstrip("0")) <= room and len(fraction.rstrip("0")) <= type_.scale
    return text if fits else None


def _micros(found: re.Match[str]) -> int:
    hours, minutes, seconds = (int(each) for each in found.group(1, 2, 3))
    return (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + int((found[4] or "").ljust(6, "0"))
