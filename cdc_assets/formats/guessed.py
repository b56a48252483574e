"""Guesses a table from values alone, where they are written without types.

JSON distinguishes text, numbers and booleans, and nothing else. Text stays text until its meaning
is configured, and whole numbers stay whole numbers as long as they fit. A number with a fraction
may be a decimal, all of whose digits count, or a float: it is refused until its type is configured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from cdc_assets.formats.sample import JsonObject
from cdc_assets.schema.described import Described
from cdc_assets.schema.types import Column, Primitive, UnmappedColumn, Wire, WireDetail

_LONG: Final = range(-(2**63), 2**63)
_FRACTION: Final = (
    "its numbers have fractions, and nothing tells a decimal from a float; configure "
    "decimal(p,s) or double"
)
_TOO_LONG: Final = "its whole numbers need more than 64 bits; configure decimal(p,0)"
_NESTED: Final = "its values are arrays or objects; configure string to keep them as JSON"
_MIXED: Final = "its values are of several kinds; configure string to keep them as text"
_GENERAL: Final = (
    "types were guessed from values: dates, times and bytes stay the text that they arrive as; "
    "configure database: or tables: to have them exact"
)


def guess(rows: Iterable[JsonObject], key: tuple[str, ...], zone: str | None) -> Described:
    """Describes a table from sampled rows.

    Args:
        rows: whole rows.
        key: the names of its key, if the records give it.
        zone: the zone of local times in text that is configured as an instant; None if not
            configured.
    """
    samples: dict[str, list[object]] = {}
    for row in rows:
        for name, value in row.items():
            samples.setdefault(name, []).append(value)
    columns = tuple(_column(name, values, zone) for name, values in samples.items())
    empty = (name for name, values in samples.items() if all(each is None for each in values))
    doubts = (f"column {name}: only nulls were seen, taken as string" for name in empty)
    warnings = (_GENERAL, *doubts) if columns else ()
    return Described(columns, key, origin="values", warnings=warnings)


def unseen(name: str, zone: str | None) -> Described:
    """Describes a single unknown column: text, unless configured otherwise."""
    return Described((_scalar(name, Primitive.STRING, zone),))


def _column(name: str, values: Sequence[object], zone: str | None) -> Column | UnmappedColumn:
    found = [value for value in values if value is not None]
    kinds = {float if isinstance(value, float) else type(value) for value in found}
    if kinds & {dict, list}:
        return UnmappedColumn(name, "JSON", _NESTED, Wire.JSON)
    if float in kinds and kinds <= {int, float}:
        return UnmappedColumn(name, "number", _FRACTION, Wire.SCALAR)
    if kinds == {int}:
        fits = all(value in _LONG for value in found)
        long = _scalar(name, Primitive.LONG, zone)
        return long if fits else UnmappedColumn(name, "number", _TOO_LONG, Wire.SCALAR)
    if kinds == {bool}:
        return _scalar(name, Primitive.BOOLEAN, zone)
    if kinds <= {str}:
        return _scalar(name, Primitive.STRING, zone)
    return UnmappedColumn(name, "several kinds", _MIXED, Wire.SCALAR)


def _scalar(name: str, type_: Primitive, zone: str | None) -> Column:
    detail = WireDetail(zone=zone) if zone else None
    return Column(name, type_, Wire.SCALAR, detail=detail)
