"""Detects the form in which records' keys hold the key of a table, from a few records.

Keys are needed only for deletes that have no other data of their row. Their bytes alone do not show
how they were written (eight digits, or a number of eight bytes?), so the form is determined when
the table is made, from records that also hold their row, and stored with the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from cdc_assets.changes.json_text import read_json


class KeyForm(StrEnum):
    """A form of keys; the values are stored with tables.

    JSON is an object of the key's columns, or a scalar if there is only one. The others hold one
    column: text as Kafka Connect's ``StringConverter`` writes it, big-endian numbers as its
    ``LongConverter`` and ``IntegerConverter``.
    """

    JSON = "json"
    TEXT = "text"
    LONG = "long"
    INTEGER = "integer"


class KeyBytes(StrEnum):
    """The content of what producers hash to choose a key's partition."""

    VALUES = "values"
    NAMES = "values and names of columns"
    SCHEMA = "values, names and the schema or its number"


NUMBER_BYTES = {KeyForm.LONG: 8, KeyForm.INTEGER: 4}


def form_of(shown: Iterable[tuple[bytes, object]]) -> KeyForm | None:
    """Returns the form of keys that hold these column values; None if no form fits all.

    Args:
        shown: keys that are not objects, each with the value in its record's row, as it arrives;
            None is returned for an empty list.
    """
    pairs = [*shown]
    fitting = (form for form in KeyForm if all(_holds(form, *pair) for pair in pairs))
    return next(fitting, None) if pairs else None


def are_numbers(shown: Iterable[tuple[bytes | None, Mapping[str, object]]]) -> bool:
    """Returns whether keys hold a column of their rows as a big-endian number.

    Args:
        shown: the records' keys, None for none, each with its record's row.
    """
    keyed = [(key, row) for key, row in shown if key is not None]
    columns = {name for _, row in keyed for name in row}
    return any(form_of((key, row.get(name)) for key, row in keyed) in NUMBER_BYTES
               for name in columns)  # fmt: skip


def _holds(form: KeyForm, key: bytes, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return False
    match form:
        case KeyForm.JSON:
            return _same(_scalar(key), value)
        case KeyForm.TEXT:
            return key == str(value).encode("utf-8", "surrogatepass")
        case KeyForm.LONG | KeyForm.INTEGER:
            is_long_enough = len(key) == NUMBER_BYTES[form]
            return is_long_enough and _same(int.from_bytes(key, signed=True), value)


def _scalar(key: bytes) -> object:
    """Reads the key, with or without a schema around it."""
    read = read_json(key)
    if isinstance(read, dict) and {"schema", "payload"} == read.keys():
        return read["payload"]
    return read


def _same(one: object, other: str | int) -> bool:
    return type(one) is type(other) and one == other
