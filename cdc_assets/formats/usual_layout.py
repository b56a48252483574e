"""A regular expression that nearly all records of a table match, and none with unknown fields."""

from __future__ import annotations

import json
import re


def usual_layout(names: tuple[str, ...]) -> str:
    """What a record starts with whose ``after`` has these fields, in this order, and no other.

    Possessive throughout: it neither backtracks nor recurses, however long a value is.
    """
    text = r'"(?:[^"\\]++|\\.)*+"'
    scalar = r'[^",\[\]{}]++'
    array = rf'\[(?:{text}|[^"\[\]{{}}]++)*+\]'
    flat = rf'\{{(?:{text}|[^"{{}}]++)*+\}}'
    value = f"(?:{text}|{scalar}|{array}|{flat})"
    fields = (
        rf"(?:{_in_regex(json.dumps(name, ensure_ascii=False))}:{value},?+)?+" for name in names
    )
    return rf'^\{{(?:"before":(?:null|{flat}),)?+"after":\{{{"".join(fields)}\}}'


def _in_regex(literal: str) -> str:
    return re.sub(r'[^\w"]', lambda found: f"\\{found[0]}", literal)
