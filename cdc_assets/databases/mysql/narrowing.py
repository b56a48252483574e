"""Judges whether a column's new definition leaves the values of all rows as they were.

MySQL and MariaDB convert values of a changed column without a change for each row. A type that
holds all values of the one before keeps them; any other may have rounded, cut or emptied some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cdc_assets.databases.mysql.type_text import MysqlType, parse_column_type
from cdc_assets.schema.types import ColumnType, Decimal, Primitive

_INTEGERS: Final = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
_TEXTS: Final = {"tinytext": 255, "text": 65_535, "mediumtext": 1 << 24, "longtext": 1 << 32}
_BLOBS: Final = {"tinyblob": 255, "blob": 65_535, "mediumblob": 1 << 24, "longblob": 1 << 32}
_WIDEST: Final = {
    Primitive.INT: "int", Primitive.LONG: "bigint", Primitive.FLOAT: "float",
    Primitive.DOUBLE: "double", Primitive.STRING: "longtext", Primitive.BINARY: "longblob",
    Primitive.DATE: "date", Primitive.TIMESTAMP: "datetime(6)",
    Primitive.TIMESTAMPTZ: "timestamp(6)", Primitive.BOOLEAN: "tinyint",
}  # fmt: skip
_FRACTIONS: Final = frozenset({"time", "datetime", "timestamp"})
_BYTES_OF_CHARACTER: Final = 4
_UNICODE: Final = frozenset({"utf8mb4", "utf16", "utf32"})


def holds(before: Sequence[str], now: Sequence[str]) -> bool:
    """Returns whether values stay as they are, for certain.

    Args:
        before: type, character set and generation expression, as the catalog has them.
        now: likewise.
    """
    if before[2] != now[2]:
        return False
    is_readable = before[1] == now[1] or not before[1] or now[1] in _UNICODE
    return is_readable and holds_type(before[0], now[0])


def holds_type(before: str, now: str) -> bool:
    """Returns whether a type holds all values of another one, both as in statements."""
    was, to = parse_column_type(before), parse_column_type(now)
    if was == to:
        return True
    if was.remarks != to.remarks:
        return False
    if was.name in {"enum", "set"}:
        return was.name == to.name and {*was.labels} <= {*to.labels}
    if was.name in _INTEGERS and to.name in _INTEGERS:
        if was.unsigned == to.unsigned:
            return _INTEGERS[to.name] >= _INTEGERS[was.name]
        return was.unsigned and _INTEGERS[to.name] > _INTEGERS[was.name]
    if was.name == to.name == "decimal":
        (digits, scale), (to_digits, to_scale) = _digits(was), _digits(to)
        is_larger = to_scale >= scale and to_digits - to_scale >= digits - scale
        return is_larger and was.unsigned >= to.unsigned
    if was.name == to.name and was.name in _FRACTIONS:
        return _size(to, 0) >= _size(was, 0)
    if was.name == to.name == "bit":
        return _size(to, 1) >= _size(was, 1)
    if (was.name, to.name) == ("float", "double"):
        return was.unsigned >= to.unsigned
    return _holds_strings(was, to, "char", _TEXTS) or _holds_strings(was, to, "binary", _BLOBS)


def widest(of: ColumnType) -> str:
    """Returns the widest type that a column of the lake may have at its source, as text."""
    match of:
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case Primitive():
            return _WIDEST.get(of, "")
        case _:
            return ""


def _holds_strings(was: MysqlType, to: MysqlType, fixed: str, large: Mapping[str, int]) -> bool:
    """Compares texts, or bytes. BINARY fills values up, and CHAR takes blanks at their end away."""
    varying, each = f"var{fixed}", _BYTES_OF_CHARACTER if fixed == "char" else 1
    if was.name in {fixed, varying}:
        if to.name == varying or was.name == to.name == "char":
            return _size(to, 1) >= _size(was, 1)
        return to.name in large and large[to.name] >= _size(was, 1) * each
    return was.name in large and to.name in large and large[to.name] >= large[was.name]


def _size(of: MysqlType, otherwise: int) -> int:
    return of.arguments[0] if of.arguments else otherwise


def _digits(of: MysqlType) -> tuple[int, int]:
    digits, scale, *_ = (*of.arguments, 0, 0) if of.arguments else (10, 0)
    return digits, scale
