"""Column types of MySQL and MariaDB as text: ``bigint(20) unsigned``, ``enum('a','b''c')``.

Such texts are ``COLUMN_TYPE`` of the catalog, ``mysqlType`` of Canal and TiCDC, ``type`` of
Maxwell, and what people write in DDL; they differ in case, synonyms and how much they tell.
Synonyms: https://dev.mysql.com/doc/refman/8.4/en/other-vendor-data-types.html and the chapters
of each type. Escapes in labels: ``append_unescaped`` in the server's ``sql/sql_show.cc``.

MySQL and MariaDB convert values of a changed column without a change for each row. A type that
holds all values of the one before keeps them; any other may have rounded, cut or emptied some.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cdc_assets.schema.types import ColumnType, Decimal, Primitive

_QUOTED: Final = r"""'(?:[^'\\]|''|\\.)*+'|"(?:[^"\\]|""|\\.)*+\""""
_SHAPE: Final = re.compile(
    rf"\s*(?P<words>[a-z_]\w*(?:\s+[a-z_]\w*)*)\s*"
    rf"(?:\((?P<arguments>(?:[^()'\"]|{_QUOTED})*+)\))?(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
_LABEL: Final = re.compile(
    r"""'(?:[^'\\]++|''|\\(?:.|\Z))*+'?|"(?:[^"\\]++|""|\\(?:.|\Z))*+"?""", re.DOTALL
)
"""One of a list of labels. A label without an end is one, too: it is not looked for twice."""

_LABELS: Final = re.compile(rf"\s*(?:{_QUOTED})\s*(?:,\s*(?:{_QUOTED})\s*)*", re.DOTALL)
_NUMBERS: Final = re.compile(r"\s*[0-9]{1,9}\s*(?:,\s*[0-9]{1,9}\s*)*")
_ATTRIBUTE: Final = re.compile(
    r"\s*(?:(?P<word>unsigned|signed|zerofill|binary|ascii|unicode)\b"
    r"|(?:character\s+set|charset)\s+['\"]?(?P<charset>\w+)['\"]?"
    r"|collate\s+['\"]?\w+['\"]?"
    r"|/\*(?:M?![0-9]*+)?(?P<comment>[^*]*+)\*/)",
    re.IGNORECASE | re.ASCII,
)
_ESCAPES: Final = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "Z": "\x1a"}

_SYNONYMS: Final[dict[str, str]] = {
    **dict.fromkeys(("int1", "bool", "boolean"), "tinyint"),
    "int2": "smallint",
    **dict.fromkeys(("int3", "middleint"), "mediumint"),
    **dict.fromkeys(("integer", "int4"), "int"),
    **dict.fromkeys(("int8", "serial"), "bigint"),
    **dict.fromkeys(("dec", "fixed", "numeric"), "decimal"),
    **dict.fromkeys(("double precision", "real", "float8"), "double"),
    "float4": "float",
    **dict.fromkeys(("character", "nchar", "national char", "national character"), "char"),
    **dict.fromkeys(
        ("character varying", "char varying", "varcharacter", "nvarchar", "national varchar",
         "nchar varying", "nchar varchar", "national char varying", "national character varying"),
        "varchar",
    ),
    "char byte": "binary",
    **dict.fromkeys(("long", "long varchar"), "mediumtext"),
    "long varbinary": "mediumblob",
    "geomcollection": "geometrycollection",
}  # fmt: skip
_LONGEST: Final = 3
"""Words of the longest synonym."""

_OF_BYTES: Final = {
    "char": "binary", "varchar": "varbinary", "tinytext": "tinyblob", "text": "blob",
    "mediumtext": "mediumblob", "longtext": "longblob",
}  # fmt: skip
"""What ``character set binary`` makes of a type."""


@dataclass(frozen=True, slots=True)
class MysqlType:
    """A type, parsed from its text.

    Attributes:
        name: in lower case, synonyms replaced (``tinyint`` for ``bool``); "" if the text is no
            type at all.
        arguments: the numbers in parentheses.
        labels: of ``enum`` and ``set``, unquoted.
        unsigned: declared so, or by ``zerofill``, which implies it.
        remarks: what MariaDB says in comments (``compressed``, ``mariadb-5.3``), and words that
            are not understood; in lower case.
    """

    name: str
    arguments: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    unsigned: bool = False
    remarks: tuple[str, ...] = ()


def parse_column_type(text: str) -> MysqlType:
    """Reads a type's text. Any text is taken; what is not understood is in the remarks."""
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        return MysqlType("")
    words = shape["words"].lower().split()
    length, name = _named(words)
    attributes, remarks = _attributes(" ".join([*words[length:], shape["rest"]]))
    arguments, labels = _arguments(shape["arguments"])
    if shape["arguments"] is not None and not (arguments or labels):
        remarks = (*remarks, "arguments that are not understood")
    if words[0] in {"bool", "boolean"} and not arguments:
        arguments = (1,)
    unsigned = bool(attributes & {"unsigned", "zerofill"}) or words[0] == "serial"
    if "character set binary" in attributes:
        name = _OF_BYTES.get(name, name)
    return MysqlType(name, arguments, labels, unsigned, remarks)


def _named(words: list[str]) -> tuple[int, str]:
    """Returns the number of words that form the name, and the name."""
    for length in range(min(_LONGEST, len(words)), 0, -1):
        name = _SYNONYMS.get(" ".join(words[:length]))
        if name is not None:
            return length, name
    return 1, words[0]


def _attributes(text: str) -> tuple[frozenset[str], tuple[str, ...]]:
    found, remarks, at = set[str](), list[str](), 0
    while (match := _ATTRIBUTE.match(text, at)) is not None:
        found |= {match["word"].lower()} if match["word"] else set()
        found |= {f"character set {match['charset'].lower()}"} if match["charset"] else set()
        comment = (match["comment"] or "").strip()
        remarks += [comment.lower()] if comment else []
        at = match.end()
    left = text[at:].strip().lower()
    return frozenset(found), (*remarks, *([left] if left else []))


def _arguments(text: str | None) -> tuple[tuple[int, ...], tuple[str, ...]]:
    if text is None:
        return (), ()
    if _NUMBERS.fullmatch(text):
        return tuple(int(each) for each in text.split(",")), ()
    if _LABELS.fullmatch(text):
        return (), tuple(_unquoted(each) for each in _LABEL.findall(text))
    return (), ()


def _unquoted(label: str) -> str:
    quote, inner = label[0], label[1:-1]
    escape = re.compile(rf"{quote}{quote}|\\(.)", re.DOTALL)
    return escape.sub(lambda m: _ESCAPES.get(m[1], m[1]) if m[1] else quote, inner)


# ── what holds what ──────────────────────────────────────────────────────────────────────


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
