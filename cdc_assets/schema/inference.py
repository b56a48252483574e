"""Infers a table schema from sampled values: the last resort, always with warnings.

JSON cannot distinguish a date from a number or a decimal from a string, so both keep their type on
the wire; nothing is converted by guess. Configured column types replace guesses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from cdc_assets.changes.json_text import Rounded
from cdc_assets.schema.described import Described
from cdc_assets.schema.types import Column, ListOf, Primitive, UnmappedColumn, Wire

JsonObject = Mapping[str, object]

_LONG: Final = range(-(2**63), 2**63)
_WIRES: Final = {
    Primitive.BOOLEAN: Wire.BOOLEAN,
    Primitive.LONG: Wire.LONG,
    Primitive.DOUBLE: Wire.DOUBLE,
    Primitive.STRING: Wire.STRING,
}
_TO_ONE: Final = 20
"""The number of values of one kind that outweighs one value of another."""

_LONG_DECIMAL: Final = "decimal of more digits than a double has"
_NUMBERS: Final = frozenset({Primitive.LONG, Primitive.DOUBLE, _LONG_DECIMAL})
_VARIABLE_SCALE_FIELDS: Final = {"scale", "value"}


def infer(
    rows: Iterable[JsonObject],
    key: tuple[str, ...] = (),
    *,
    placeholder: str = "",
) -> Described:
    """Describes a table by sampled row images and record keys.

    Args:
        rows: parsed ``after`` (or ``before``) objects; numbers as int or float.
        key: names of the columns of the records' keys.
        placeholder: the connector's ``unavailable.value.placeholder``, which shows no type.
    """
    samples = _by_column(rows, placeholder)
    columns = tuple(_column(name, values, name in key) for name, values in samples.items())
    return Described(
        columns,
        key,
        origin="inference",
        inferred=True,
        unseen=frozenset(name for name, values in samples.items() if _tell_nothing(values)),
        warnings=_warnings(samples, columns),
    )


def _by_column(rows: Iterable[JsonObject], placeholder: str) -> dict[str, list[object]]:
    """Returns the non-null values of each column, in order of first appearance."""
    samples: dict[str, list[object]] = {}
    for row in rows:
        for name, value in row.items():
            values = samples.setdefault(name, [])
            if value is not None and not (placeholder and value in (placeholder, [placeholder])):
                values.append(value)
    return samples


def _column(name: str, values: Sequence[object], is_key: bool) -> Column | UnmappedColumn:
    guess = _guess(values)
    if isinstance(guess, UnmappedColumn):
        return UnmappedColumn(name, guess.source_type, guess.reason, guess.wire, required=is_key)
    if isinstance(guess, ListOf):
        element = cast("Primitive", guess.element)
        return Column(name, guess, Wire.LIST, is_key, True, _WIRES[element])
    return Column(name, guess, _WIRES[guess], is_key, guess is Primitive.STRING and not is_key)


def _guess(given: Sequence[object]) -> Primitive | ListOf | UnmappedColumn:
    values = _without_odd(given)
    if any(isinstance(value, list) for value in values):
        return _guess_list(values)
    kinds = {_kind(value) for value in values}
    if not kinds:
        return Primitive.STRING
    if kinds == {"object"} and all(_is_variable_scale(value) for value in values):
        reason = "a decimal without precision has no bound; configure decimal(38,10), for example"
        return UnmappedColumn("", "object", reason, Wire.VARIABLE_SCALE_DECIMAL)
    if _LONG_DECIMAL in kinds and kinds <= _NUMBERS:
        reason = (
            "its decimals are written as JSON numbers, of more digits than a double has; set "
            "value.converter.decimal.format=BASE64 or decimal.handling.mode=string at the connector"
        )
        return UnmappedColumn("", "number", reason, Wire.DOUBLE)
    if kinds == {Primitive.LONG, Primitive.DOUBLE}:
        return Primitive.DOUBLE
    only = kinds.pop() if len(kinds) == 1 else None
    if isinstance(only, Primitive):
        return only
    named = " and ".join(sorted(str(kind) for kind in {*kinds, only} - {None}))
    return UnmappedColumn("", named, "its values are not all of one simple type")


def _without_odd(values: Sequence[object]) -> Sequence[object]:
    """Drops the few values of another kind than nearly all: their records are rejected later."""
    kinds = Counter(_json_kind(value) for value in values)
    kind, count = kinds.most_common(1)[0] if kinds else ("", 0)
    if count < _TO_ONE * (len(values) - count):
        return values
    return [value for value in values if _json_kind(value) == kind]


def _tell_nothing(values: Sequence[object]) -> bool:
    """Returns whether no value was seen, or values of more than one kind."""
    return len({_json_kind(value) for value in _without_odd(values)}) != 1


def _json_kind(value: object) -> str:
    if isinstance(value, list):
        return "list"
    kind = _kind(value)
    return "number" if kind in _NUMBERS else str(kind)


def _guess_list(values: Sequence[object]) -> ListOf | UnmappedColumn:
    if not all(isinstance(value, list) for value in values):
        return UnmappedColumn("", "list and others", "its values are not all of one simple type")
    elements = [each for value in values for each in cast("list[object]", value)]
    guess = _guess([each for each in elements if each is not None])
    if isinstance(guess, Primitive):
        return ListOf(guess)
    return UnmappedColumn("", "list", "its elements are not all of one simple type")


def _kind(value: object) -> Primitive | str:
    match value:
        case bool():
            return Primitive.BOOLEAN
        case int():
            return Primitive.LONG if value in _LONG else "integer of more than 64 bits"
        case Rounded():
            return _LONG_DECIMAL
        case float():
            return Primitive.DOUBLE
        case str():
            return Primitive.STRING
        case _:
            return "object"


def _is_variable_scale(value: object) -> bool:
    return set(cast("Mapping[str, object]", value)) == _VARIABLE_SCALE_FIELDS


def _warnings(
    samples: Mapping[str, Sequence[object]], columns: Sequence[Column | UnmappedColumn]
) -> tuple[str, ...]:
    if not columns:
        return ()
    general = (
        "types were inferred from sampled values: dates, times and decimals stay numbers or "
        "text; configure database: or tables: to have them exact"
    )
    empty = [name for name, values in samples.items() if not values]
    return (general, *(f"column {name}: only nulls were seen, taken as string" for name in empty))
