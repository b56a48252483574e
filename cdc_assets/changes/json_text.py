"""Reads a record's JSON in Python, with bounds and with strict checks of what is text.

Spark reads the records. Only a few are read here, to describe a table or to find where
transactions end. Whatever they contain, reading them neither raises nor takes long. The bounds are
those of Spark's reader (Jackson's ``StreamReadConstraints``), so that a record that one of the two
cannot read is not taken for a change by the other.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn, cast

MOST_DIGITS: Final = 1000
"""The most digits of one number, its sign and exponent included."""

_DOUBLE_DIGITS: Final = 17
"""Digits that distinguish every double from its neighbours (IEEE 754)."""

_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_LARGEST: Final = 2**63 - 1


class Rounded(float):
    """A number with more digits than a double has: in the record it is another one."""


def read_json(text: bytes | str | None) -> Any:
    """Parses JSON; of a repeated field the last one counts.

    Returns:
        None if there is no text, or if it cannot be read: broken UTF-8, half of a surrogate pair,
        deeper nesting than Python's stack, longer numbers than `MOST_DIGITS`, or no JSON at all.
    """
    if text is None:
        return None
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
        value = json.loads(decoded, parse_int=_integer, parse_float=_float)
        if _SURROGATE.search(decoded):
            json.dumps(value, ensure_ascii=False).encode()  # halves of a pair cannot be encoded
    except (ValueError, RecursionError):
        return None
    return value


def read_object(text: bytes | str | None) -> dict[str, Any]:
    """Parses a JSON object like `read_json`; empty if it is not an object."""
    return mapping(read_json(text))


def mapping(value: Any) -> dict[str, Any]:
    """Returns an object within a document; empty if it is not one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def string(value: Any) -> str:
    """Returns a text; empty if it is not one."""
    return value if isinstance(value, str) else ""


def strings(value: Any) -> tuple[str, ...]:
    """Returns a list of texts; empty if it is not one."""
    listed = cast("list[Any]", value) if isinstance(value, list) else []
    return tuple(listed) if all(isinstance(each, str) for each in listed) else ()


def natural(value: Any) -> int | None:
    """Returns a number from 0 to 2⁶³-1, also from decimal text; None if it is neither."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
        return None
    return value


def _integer(text: str) -> int:
    return int(text) if len(text) <= MOST_DIGITS else _too_long()


def _float(text: str) -> float:
    if len(text) > MOST_DIGITS:
        return _too_long()
    mantissa = text.lower().partition("e")[0]
    digits = mantissa.lstrip("-").replace(".", "").strip("0")
    return (Rounded if len(digits) > _DOUBLE_DIGITS else float)(text)


def _too_long() -> NoReturn:
    msg = "a number of too many digits"
    raise ValueError(msg)
