"""Builds a regular expression that matches most records of a table, none with unknown fields."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Final

_TOGETHER: Final = 50
"""Fields in one atomic group. Java matches the rest of a pattern by a call within the match of the
element before it: 1,500 fields in sequence overflowed a thread's stack and crashed the server."""


_TEXT: Final = r'"(?:[^"\\]++|\\.)*+"'
_SCALAR: Final = r'[^",\[\]{}]++'
_ARRAY: Final = rf'\[(?:{_TEXT}|[^"\[\]{{}}]++)*+\]'
_FLAT: Final = rf'\{{(?:{_TEXT}|[^"{{}}]++)*+\}}'
_NESTED: Final = rf'\{{(?:{_TEXT}|{_FLAT}|[^"{{}}]++)*+\}}'
_VALUE: Final = f"(?:{_TEXT}|{_SCALAR}|{_ARRAY}|{_FLAT})"
_MOST_BESIDE: Final = 200
"""Limit of fields beside the row's, which keeps matching shallow; records with more are unusual."""


def usual_layout(names: tuple[str, ...], expected: Collection[str] | None = None) -> str:
    """Matches the start of a record whose ``after`` has these fields, in order, and no other.

    Possessive throughout: it neither backtracks nor recurses, however long a value is.

    Args:
        names: the fields that may be present.
        expected: those of them that must be; None for all.
    """
    return rf"^\{{{_images(names, expected)}"


def usual_cloud_event(names: tuple[str, ...], expected: Collection[str] | None = None) -> str:
    """Does the same for a cloud event, whose attributes precede its data."""
    attribute = rf'"[A-Za-z0-9]++":(?:{_TEXT}|{_SCALAR}),'
    beside = rf"(?:{attribute}){{0,{_MOST_BESIDE}}}+"
    return rf'^\{{{beside}"data":\{{{_images(names, expected)}'


def usual_row(
    names: tuple[str, ...], expected: Collection[str] | None, added: Collection[str]
) -> str:
    """Matches a whole record that is a row, with any of the ``added`` fields after it."""
    names_added = "|".join(_named(each) for each in sorted(added))
    beside = rf"(?>(?:{names_added}):{_VALUE},?+){{0,{_MOST_BESIDE}}}+"
    return rf"^\{{{_row(names, expected)}{beside}\}}$"


def _images(names: tuple[str, ...], expected: Collection[str] | None) -> str:
    return rf'(?:"before":(?:null|{_NESTED}),)?+"after":\{{{_row(names, expected)}\}}'


def _row(names: tuple[str, ...], expected: Collection[str] | None) -> str:
    required = set(names if expected is None else expected)

    def field(name: str) -> str:
        given = rf"{_named(name)}:{_VALUE},?+"
        return given if name in required else f"(?:{given})?+"

    fields = [field(name) for name in names]
    groups = (fields[at : at + _TOGETHER] for at in range(0, len(fields), _TOGETHER))
    return "".join(f"(?>{''.join(group)})" for group in groups)


def _named(name: str) -> str:
    return _in_regex(json.dumps(name, ensure_ascii=False))


def _in_regex(literal: str) -> str:
    return re.sub(r'[^\w"]', lambda found: f"\\{found[0]}", literal)
