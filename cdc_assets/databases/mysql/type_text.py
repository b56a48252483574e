"""Column types of MySQL and MariaDB as text: ``bigint(20) unsigned``, ``enum('a','b''c')``.

Such texts are ``COLUMN_TYPE`` of the catalog, ``mysqlType`` of Canal and TiCDC, ``type`` of
Maxwell, and what people write in DDL; they differ in case, synonyms and how much they tell.
Synonyms: https://dev.mysql.com/doc/refman/8.4/en/other-vendor-data-types.html and the chapters
of each type. Escapes in labels: ``append_unescaped`` in the server's ``sql/sql_show.cc``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

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

_LABELS: Final = re.compile(rf"\s*(?:{_QUOTED})\s*(?:,\s*(?:{_QUOTED})\s*)*+", re.DOTALL)
_NUMBERS: Final = re.compile(r"\s*[0-9]{1,9}\s*(?:,\s*[0-9]{1,9}\s*)*+")
_ATTRIBUTE: Final = re.compile(
    r"\s*(?:(?P<word>unsigned|signed|zerofill|binary|ascii|unicode)\b"
    r"|(?:character\s+set|charset)\s+['\"]?(?P<charset>\w+)['\"]?"
    r"|collate\s+['\"]?\w+['\"]?"
    r"|/\*(?:M?![0-9]*+)?+(?P<comment>[^*]*+)\*/)",
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
