"""Decodes values that are written as text: numbers, dates, times, bytes and labels.

As in `cdc_assets.formats.values`, NULL stands for every value that cannot be represented
exactly, zero dates (``0000-00-00``) and dates in the year 0 included.
"""

from __future__ import annotations

import re
from decimal import Decimal as Number
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats.instants import is_representable
from cdc_assets.schema.types import Column, Decimal, Primitive, Wire, WireDetail

TEXT_WIRES: Final = frozenset({
    Wire.BOOLEAN_OR_INT, Wire.INTEGER_TEXT, Wire.FLOATING_TEXT, Wire.BOOLEAN_TEXT, Wire.DATE_TEXT,
    Wire.TIME_TEXT, Wire.TIMESTAMP_TEXT, Wire.BYTES_LATIN1, Wire.TEXT_LATIN1, Wire.JSON_TEXT,
    Wire.ENUM_ORDINAL, Wire.SET_BITS,
})  # fmt: skip
_INTEGER: Final = r"^[+-]?[0-9]+\z"
_FLOATING: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?\z"
_DATE: Final = r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIMESTAMP: Final = rf"^{_DATE} [0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?\z"
_TIME: Final = r"^(-?)([0-9]{2,3}):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,6}))?\z"
_LATIN1: Final = r"^[\x00-\xff]*\z"
_DIGITS: Final = {Primitive.FLOAT: 9, Primitive.DOUBLE: 17}
"""Digits that distinguish every float and every double from its neighbours (IEEE 754)."""

_PROBE_HOURS: Final = (-3, 3)
"""Farther from a clock change than the clock moves, nearer than the next change (since 1970)."""

_MEMBERS: Final = 64


def from_text(value: Expression, column: Column) -> Expression | None:
    """Returns the lake's value of a text; None if this encoding cannot be decoded to this type."""
    detail = column.detail or WireDetail()
    match column.wire, column.type:
        case Wire.INTEGER_TEXT, Primitive.INT | Primitive.LONG | Decimal():
            return _integer(value, column)
        case Wire.BOOLEAN_OR_INT, Primitive.INT | Primitive.LONG:
            number = F.when(value == "true", "1").when(value == "false", "0").otherwise(value)
            return _integer(number, column)
        case Wire.BOOLEAN_OR_INT | Wire.BOOLEAN_TEXT, Primitive.BOOLEAN:
            true, false = value.isin("1", "true"), value.isin("0", "false")
            return F.when(true, F.lit(True)).when(false, F.lit(False))
        case Wire.FLOATING_TEXT, (Primitive.FLOAT | Primitive.DOUBLE) as type_:
            return _floating(value, type_)
        case Wire.DATE_TEXT, Primitive.DATE:
            return F.when(value.rlike(rf"^{_DATE}\z"), value.try_cast("date"))
        case Wire.TIME_TEXT, Primitive.LONG:
            return _time(value)
        case Wire.TIMESTAMP_TEXT, Primitive.TIMESTAMP:
            return F.when(value.rlike(_TIMESTAMP), value.try_cast("timestamp_ntz"))
        case Wire.TIMESTAMP_TEXT, Primitive.TIMESTAMPTZ if detail.zone:
            return _instant(value, detail.zone)
        case Wire.BYTES_LATIN1, Primitive.BINARY:
            return _bytes(value, detail.width, detail.least)
        case wire, Primitive.STRING:
            return _text(value, wire, detail.labels)
        case _:
            return None


def _text(value: Expression, wire: Wire, labels: tuple[str, ...]) -> Expression | None:
    match wire:
        case Wire.TEXT_LATIN1:
            return F.try_validate_utf8(_bytes(value, 0, 0).cast("string"))
        case Wire.JSON_TEXT:
            return _json(value)
        case Wire.ENUM_ORDINAL:
            return _label(value, labels)
        case Wire.SET_BITS:
            return _labels(value, labels)
        case _:
            return None


def _integer(value: Expression, column: Column) -> Expression:
    return F.when(value.rlike(_INTEGER), value.try_cast(str(column.type)))


def _floating(value: Expression, type_: Primitive) -> Expression:
    """Decodes a number; NULL for infinity, underflow to 0, or more digits than a float holds."""
    mantissa = F.regexp_extract(value, r"^[+-]?([0-9.]*)", 1)
    significant = F.trim(F.replace(mantissa, F.lit(".")), F.lit("0"))
    number = value.try_cast(str(type_))
    finite = F.abs(number) < float("inf")
    nonzero = (number != 0) | (significant == "")
    short = F.length(significant) <= _DIGITS[type_]
    return F.when(value.rlike(_FLOATING) & short & finite & nonzero, number)


def _time(value: Expression) -> Expression:
    """Returns microseconds; the sign applies to the whole value."""
    part = [F.regexp_extract(value, _TIME, group) for group in range(6)]
    seconds = (part[2].cast("bigint") * 60 + part[3].cast("bigint")) * 60 + part[4].cast("bigint")
    micros = seconds * 1_000_000 + F.rpad(part[5], 6, "0").cast("bigint")
    return F.when(value.rlike(_TIME), F.when(part[1] == "-", -micros).otherwise(micros))


def _instant(value: Expression, zone: str) -> Expression:
    """Returns the instant of a local time; NULL if a clock change makes it ambiguous or skips it.

    The session's time zone is UTC, so casts shift nothing.
    """
    local = F.when(value.rlike(_TIMESTAMP), value.try_cast("timestamp"))
    instant = F.to_utc_timestamp(local, zone)
    exact = is_representable(instant)
    if re.fullmatch(r"UTC|[+-][0-9]{2}:[0-9]{2}", zone):
        return F.when(exact, instant)
    exact &= F.from_utc_timestamp(instant, zone) == local
    for hours in _PROBE_HOURS:
        near = instant + F.make_dt_interval(hours=F.lit(hours))
        offset = F.unix_micros(F.from_utc_timestamp(near, zone)) - F.unix_micros(near)
        other = F.timestamp_micros(F.unix_micros(local) - offset)
        exact &= (other == instant) | (F.from_utc_timestamp(other, zone) != local)
    return F.when(exact, instant)


def _json(value: Expression) -> Expression:
    """Returns a text that is JSON, or empty, as is an old row of a column added since."""
    return F.when((value == "") | F.try_parse_json(value).isNotNull(), value)


def _bytes(value: Expression, width: int, least: int) -> Expression:
    """Returns one byte per character; with a width, padded with zero bytes."""
    fits = value.rlike(_LATIN1)
    if not width:
        whole = F.rpad(value, F.greatest(F.length(value), F.lit(least)), "\0") if least else value
        return F.when(fits, F.encode(whole, "ISO-8859-1"))
    padded = F.encode(F.rpad(value, width, "\0"), "ISO-8859-1")
    return F.when(fits & (F.length(value) <= width), padded)


def _label(value: Expression, labels: tuple[str, ...]) -> Expression:
    """Returns the label of an ordinal; 0, MySQL's mark of an invalid value, gives empty text."""
    all_labels = F.array(*(F.lit(label) for label in ("", *labels)))
    return F.when(value.rlike(_INTEGER), F.get(all_labels, value.try_cast("int")))


def _labels(value: Expression, labels: tuple[str, ...]) -> Expression:
    """Returns the labels whose bits are set, separated by commas; NULL if a bit has no label."""
    number = F.when(value.rlike(r"^[0-9]+\z"), value.try_cast("decimal(20,0)"))
    fits = number < F.lit(Number(2 ** len(labels[:_MEMBERS])))
    bits = F.lpad(F.conv(F.when(fits, value), 10, 2), _MEMBERS, "0")
    chosen = (
        F.when(F.substring(bits, _MEMBERS - place, 1) == "1", F.lit(label))
        for place, label in enumerate(labels[:_MEMBERS])
    )
    return F.when(fits, F.concat_ws(",", *chosen))
