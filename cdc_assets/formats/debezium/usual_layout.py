"""A regular expression that nearly all records of a table match, and none with unknown fields."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Final

_TOGETHER: Final = 50
"""Fields in one atomic group. Java matches what follows an element by a call within that
element's: 1,500 fields one after the other overflowed a thread's stack, and took the server along.
"""


def usual_layout(names: tuple[str, ...], expected: Collection[str] | None = None) -> str:
    """What a record starts with whose ``after`` has these fields, in this order, and no other.

    Possessive throughout: it neither backtracks nor recurses, however long a value is.

    Args:
        names: the fields that may be there.
        expected: those of them that must be; None for all.
    """
    text = r'"(?:[^"\\]++|\\.)*+"'
    scalar = r'[^",\[\]{}]++'
    array = rf'\[(?:{text}|[^"\[\]{{}}]++)*+\]'
    flat = rf'\{{(?:{text}|[^"{{}}]++)*+\}}'
    value = f"(?:{text}|{scalar}|{array}|{flat})"
    nested = rf'\{{(?:{text}|{flat}|[^"{{}}]++)*+\}}'
    required = set(names if expected is None else expected)

    def field(name: str) -> str:
        given = rf"{_in_regex(json.dumps(name, ensure_ascii=False))}:{value},?+"
        return given if name in required else f"(?:{given})?+"

    fields = [field(name) for name in names]
    groups = (fields[at : at + _TOGETHER] for at in range(0, len(fields), _TOGETHER))
    row = "".join(f"(?>{''.join(group)})" for group in groups)
    return rf'^\{{(?:"before":(?:null|{nested}),)?+"after":\{{{row}\}}'


def _in_regex(literal: str) -> str:
    return re.sub(r'[^\w"]', lambda found: f"\\{found[0]}", literal)
